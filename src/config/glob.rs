//! Globs for paths (as in `.gitignore`) and for keys.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Globs for report paths, as in `.gitignore`: a folder's name covers what is in it.
#[derive(Clone, Debug)]
pub struct PathGlobs(Gitignore);

impl PathGlobs {
    /// Compiles globs.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn new<'a>(globs: impl IntoIterator<Item = &'a str>) -> Result<PathGlobs, String> {
        let mut builder = GitignoreBuilder::new("");
        builder.allow_unclosed_class(false);
        for glob in globs {
            builder.add_line(None, glob).map_err(|e| format!("malformed glob `{glob}`: {e}"))?;
        }
        builder.build().map(PathGlobs).map_err(|e| e.to_string())
    }

    /// Whether a path relative to the root matches.
    pub fn matches(&self, path: &str) -> bool {
        self.0.matched_path_or_any_parents(path.trim_start_matches('/'), false).is_ignore()
    }
}

/// Whether a key template matches a glob in which `*` stands for any text.
pub fn matches_key(glob: &str, key: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(mut rest) = parts.next().and_then(|first| key.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn keys() {
        for (glob, key, expected) in [
            ("report:*", "report:{id}", true),
            ("report:*", "reports", false),
            ("*", "", true),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1c", false),
            ("ab", "ab", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches_key(glob, key), expected, "{glob} {key}");
        }
    }

    #[test]
    fn paths() {
        let globs = PathGlobs::new(["crates/admin", "*.gen.rs"]).unwrap();
        assert!(globs.matches("crates/admin/src/x.rs") && globs.matches("a/b.gen.rs"));
        assert!(!globs.matches("crates/adminx/src/x.rs"));
        assert!(PathGlobs::new(["a[b"]).is_err());
    }
}
