//! Text that is safe to print: names and sources come from strangers.

/// Replaces what a terminal or a log would act on (control characters, direction overrides, invisible characters) by
/// visible stand-ins of the *same number of bytes*, so that byte offsets stay valid. Tabs and line feeds stay.
pub fn neutral(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if c == '\r' && characters.peek() == Some(&'\n') || !acts(c) {
            out.push(c);
            continue;
        }
        match c.len_utf8() {
            1 => out.push('?'),
            2 => out.push('\u{bf}'),
            3 => out.push('\u{fffd}'),
            _ => out.push_str("????"),
        }
    }
    out
}

/// [`neutral`] for something that must stay on one line: line breaks and tabs go too.
pub fn one_line(text: &str) -> String {
    neutral(&text.replace(['\r', '\n', '\t'], " "))
}

fn acts(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{61c}' | '\u{180e}' | '\u{e0000}'..='\u{e007f}')
}

/// Breaks text at blanks so that no line is wider than `width` columns, words longer than that excepted.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthStr;
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_keep_the_length() {
        let text = "a\u{1b}[31mb\u{85}\u{202e}c\u{e0041}\r\nd\re\tf";
        let safe = neutral(text);
        assert_eq!(safe, "a?[31mb\u{bf}\u{fffd}c????\r\nd?e\tf");
        assert_eq!(safe.len(), text.len());
        assert_eq!(one_line("a\nb"), "a b");
    }

    #[test]
    fn wraps_by_width() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("漢字 漢字", 5), ["漢字", "漢字"]);
    }
}
