//! Measures nesting before the recursive parser sees the text: a script of nothing but `((((` must not end the run.

/// Deepest nesting of blocks and brackets, and longest run of operators, that is parsed.
const MAX_DEPTH: usize = 256;

/// # Errors
/// If the text nests deeper than the parser can follow.
pub fn check(text: &str) -> Result<(), String> {
    let (mut depth, mut run, mut headers) = (0usize, 0usize, 0usize);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        if let Some(after) = rest.strip_prefix("--") {
            taken = 2 + match long_bracket(after) {
                Some(length) => length,
                None => after.find('\n').unwrap_or(after.len()),
            };
        } else if let Some(length) = long_bracket(rest) {
            taken = length;
        } else if first == '"' || first == '\'' {
            taken = quoted(rest, first);
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            taken = end;
            match &rest[..end] {
                "if" | "function" | "repeat" => {
                    depth += 1;
                    run = 0;
                }
                "for" | "while" => {
                    depth += 1;
                    headers += 1;
                    run = 0;
                }
                // The `do` of a loop belongs to its header; one alone opens a block.
                "do" => {
                    depth += usize::from(headers == 0);
                    headers = headers.saturating_sub(1);
                    run = 0;
                }
                "end" | "until" => {
                    depth = depth.saturating_sub(1);
                    run = 0;
                }
                "local" | "return" | "then" | "else" | "elseif" | "in" => run = 0,
                "not" | "and" | "or" => run += 1,
                _ => {}
            }
        } else {
            match first {
                '(' | '{' | '[' => {
                    depth += 1;
                    run += 1;
                }
                ')' | '}' | ']' => depth = depth.saturating_sub(1),
                '=' | '~' | '.' if ["==", "~=", ".."].iter().any(|two| rest.starts_with(two)) => {
                    taken = 2;
                    run += 1;
                }
                '^' | '-' | '#' | '+' | '*' | '/' | '%' | '<' | '>' | '.' | ':' => run += 1,
                '=' | ',' | ';' => run = 0,
                _ => {}
            }
        }
        if depth > MAX_DEPTH || run > MAX_DEPTH {
            return Err(format!("the script nests deeper than {MAX_DEPTH}"));
        }
        rest = rest.get(taken..).unwrap_or("");
    }
    Ok(())
}

/// Length of `[[ .. ]]`, `[=[ .. ]=]` at the start of the text.
fn long_bracket(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let level = inner.len() - inner.trim_start_matches('=').len();
    inner[level..].strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    let start = level + 2;
    Some(text[start..].find(&close).map_or(text.len(), |at| start + at + close.len()))
}

/// Length of a quoted string at the start of the text.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return i,
            c if c == quote => return i + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_would_overflow() {
        let nested = |n: usize| format!("{}{}", "if x then ".repeat(n), "end ".repeat(n));
        assert!(check(&nested(200)).is_ok() && check(&nested(257)).is_err());
        assert!(check(&"(".repeat(300)).is_err() && check(&format!("return {}1", "-".repeat(2))).is_ok());
        assert!(check(&format!("return {}1", "not ".repeat(300))).is_err());
        assert!(check(&format!("return 1{}", " .. 1".repeat(300))).is_err());
        assert!(check("-- ((((\nlocal s = '((((' .. \"((\" .. [[ (( ]] --[==[ (( ]==]").is_ok());
        assert!(check(&"local a = 1 + 2\n".repeat(1000)).is_ok());
        assert!(check("'unclosed").is_ok() && check("[[unclosed").is_ok() && check("é'é").is_ok());
    }
}
