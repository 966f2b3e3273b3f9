//! "did you mean": the nearest of the known names.

/// The known name nearest to `name`, if it is near enough to be a slip: at most a third of its letters differ.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    known.map(|k| (distance(name, k), k)).filter(|(d, _)| *d <= limit).min().map(|(_, k)| k)
}

/// Edit distance with swapped neighbours counting as one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let mut cost = (last[j] + usize::from(a[i] != b[j])).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_slips_and_nothing_else() {
        let known = ["bare-del", "bare-renew", "missing-ttl"];
        assert_eq!(nearest("bare-dle", known.into_iter()), Some("bare-del"));
        assert_eq!(nearest("missing-tt", known.into_iter()), Some("missing-ttl"));
        assert_eq!(nearest("unrelated", known.into_iter()), None);
    }
}
