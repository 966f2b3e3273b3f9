//! The small language of a row's `wire`: how a typed method becomes a command line.

/// One word of a row's `wire`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A word of the protocol.
    Word(String),
    /// Argument `n`, one wire argument.
    One(usize),
    /// Argument `n`, which expands to several when it is a slice, tuple or vector.
    Many(usize),
    /// Argument `n` holds options: enum variants and builders become words.
    Options(usize),
    /// The word, if argument `n` is `true`.
    If(String, usize),
}

impl Wire {
    /// Parses `WORD`, `$0`, `$0..`, `$2:options` or `GET:if($4)`.
    ///
    /// # Errors
    /// Names the forms that are allowed.
    pub fn parse(text: &str) -> Result<Wire, String> {
        let wrong = || format!("`{text}` is no wire word: write `WORD`, `$0`, `$0..`, `$0:options` or `WORD:if($0)`");
        if let Some(rest) = text.strip_prefix('$') {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let n = rest[..digits].parse().map_err(|_| wrong())?;
            return match &rest[digits..] {
                "" => Ok(Wire::One(n)),
                ".." => Ok(Wire::Many(n)),
                ":options" => Ok(Wire::Options(n)),
                _ => Err(wrong()),
            };
        }
        if let Some((word, condition)) = text.split_once(":if($") {
            let n = condition.strip_suffix(')').and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
            return Ok(Wire::If(word.to_owned(), n));
        }
        if text.is_empty() || text.contains(['$', ':', '.']) { Err(wrong()) } else { Ok(Wire::Word(text.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        assert_eq!(Wire::parse("SETNX"), Ok(Wire::Word("SETNX".into())));
        assert_eq!(Wire::parse("$0"), Ok(Wire::One(0)));
        assert_eq!(Wire::parse("$1.."), Ok(Wire::Many(1)));
        assert_eq!(Wire::parse("$2:options"), Ok(Wire::Options(2)));
        assert_eq!(Wire::parse("GET:if($4)"), Ok(Wire::If("GET".into(), 4)));
        for bad in ["$", "$x", "$1:option", "GET:if($x)", "a:b", ""] {
            assert!(Wire::parse(bad).is_err(), "{bad}");
        }
    }
}
