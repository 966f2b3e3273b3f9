//! Version ranges of model rows, and versions from `Cargo.lock`.

/// Comparators that all must hold; none means any version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range(Vec<(Operator, Vec<u64>)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Range {
    /// Parses `>=0.26, <1`. Missing parts of a version are zero.
    pub fn parse(text: &str) -> Result<Range, String> {
        let mut list = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let digits = part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
            let operator = match part[..digits].trim() {
                "<" => Operator::Less,
                "<=" => Operator::LessEqual,
                ">" => Operator::Greater,
                ">=" => Operator::GreaterEqual,
                other => return Err(format!("`{other}` is no comparator, allowed are `<`, `<=`, `>`, `>=`")),
            };
            let version = parts(&part[digits..]).ok_or_else(|| format!("`{part}` has no version"))?;
            list.push((operator, version));
        }
        Ok(Range(list))
    }

    /// Whether the version lies in the range. A version that is not known lies in every range; a requirement that leaves parts
    /// out (`fred = "9"`) stands for the newest version that it allows, which is what cargo takes.
    pub fn contains(&self, version: Option<&str>) -> bool {
        let Some(version) = version.and_then(parts) else { return true };
        self.0.iter().all(|(operator, limit)| {
            let order = (0..version.len().max(limit.len()))
                .map(|i| version.get(i).unwrap_or(&u64::MAX).cmp(limit.get(i).unwrap_or(&0)))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal);
            match operator {
                Operator::Less => order.is_lt(),
                Operator::LessEqual => order.is_le(),
                Operator::Greater => order.is_gt(),
                Operator::GreaterEqual => order.is_ge(),
            }
        })
    }

    /// Whether the newest versions are in the range: the better guess where the version is not known.
    pub fn is_current(&self) -> bool {
        !self.0.iter().any(|(operator, _)| matches!(operator, Operator::Less | Operator::LessEqual))
    }
}

/// Numbers of a version, without pre-release and build parts.
fn parts(text: &str) -> Option<Vec<u64>> {
    let core = text.trim().trim_start_matches(['^', '=', '~', '>', ' ']).split(['-', '+', ',']).next()?;
    core.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ranges() {
        let range = Range::parse(">=0.4, <0.10").unwrap();
        assert!(range.contains(Some("0.9.1")) && range.contains(Some("0.4.0")) && range.contains(None));
        assert!(
            !range.contains(Some("0.10.0")) && !range.contains(Some("0.3.9")) && !range.contains(Some("1.0.0-rc.1"))
        );
        let newer = Range::parse(">=9.1").unwrap();
        assert!(newer.contains(Some("9")) && newer.contains(Some("^9.1")) && !newer.contains(Some("9.0.3")));
        assert!(Range::parse("~1").is_err() && Range::parse(">=").is_err());
    }
}
