//! Reads the configuration strictly: an unknown key or name is an error with its place and the nearest known one.

use super::{Config, ConfigError, Level, Levels, LockDeclaration, PathGlobs, PathSettings};
use crate::finding::{Confidence, Severity};
use crate::rule::{Group, Rule, page};
use crate::suggest;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Parses a configuration. `path` leads to the table inside the file: empty for `leaselint.toml`,
/// `["workspace", "metadata", "leaselint"]` in a `Cargo.toml`; `None` if there is no such table. `rules` are all rules.
///
/// # Errors
/// Everything that is wrong, in text order.
pub fn parse(text: &str, path: &[&str], rules: &[&'static Rule]) -> Result<Option<Config>, Vec<ConfigError>> {
    let root = DeTable::parse(text)
        .map_err(|e| vec![ConfigError { message: e.message().to_owned(), span: e.span().unwrap_or(0..0) }])?;
    let mut table = root.get_ref();
    for key in path {
        match table.get(*key).and_then(|value| value.get_ref().as_table()) {
            Some(inner) => table = inner,
            None => return Ok(None),
        }
    }
    let mut reader = Reader { rules, errors: Vec::new() };
    let config = reader.config(table, text);
    if reader.errors.is_empty() {
        return Ok(Some(config));
    }
    reader.errors.sort_by_key(|e| e.span.start);
    Err(reader.errors)
}

struct Reader<'r> {
    rules: &'r [&'static Rule],
    errors: Vec<ConfigError>,
}

type Value<'i> = Spanned<DeValue<'i>>;

impl Reader<'_> {
    fn error(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.errors.push(ConfigError { message: message.into(), span });
    }

    fn config(&mut self, table: &DeTable<'_>, text: &str) -> Config {
        const KEYS: [&str; 9] =
            ["exclude", "include-tests", "min-severity", "min-confidence", "rules", "path", "lock", "dsn", "model"];
        let mut config = Config::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "exclude" => {
                    config.exclude = self.strings(value);
                    for glob in &config.exclude {
                        if let Err(error) = PathGlobs::new([glob.as_str()]) {
                            self.error(value.span(), error);
                        }
                    }
                }
                "include-tests" => match value.get_ref().as_bool() {
                    Some(flag) => config.include_tests = Some(flag),
                    None => self.error(value.span(), "`include-tests` is `true` or `false`"),
                },
                "min-severity" => config.min_severity = self.severity(value),
                "min-confidence" => config.min_confidence = self.confidence(value),
                "rules" => config.levels = self.levels(value),
                "path" => config.paths = self.tables(value, Reader::path),
                "lock" => config.locks = self.tables(value, Reader::lock),
                "dsn" => {
                    for (key, value) in self.table(value).into_iter().flatten() {
                        match key.get_ref().as_ref() {
                            "direct" => config.dsn.direct = self.strings(value),
                            "pooled" => config.dsn.pooled = self.strings(value),
                            other => self.unknown(key.span(), "key", other, &["direct", "pooled"]),
                        }
                    }
                }
                "model" => config.models = models(value, text),
                other => self.unknown(key.span(), "key", other, &KEYS),
            }
        }
        config
    }

    fn unknown(&mut self, span: Range<usize>, what: &str, name: &str, known: &[&str]) {
        let message = match suggest::nearest(name, known.iter().copied()) {
            Some(near) => format!("unknown {what} `{name}`, did you mean `{near}`?"),
            None if known.len() < 12 => format!("unknown {what} `{name}`; there are `{}`", known.join("`, `")),
            None => format!("unknown {what} `{name}`"),
        };
        self.error(span, message);
    }

    fn string(&mut self, value: &Value<'_>) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.error(value.span(), "this must be a string");
        }
        text
    }

    /// A list of strings; one string stands for a list of one.
    fn strings(&mut self, value: &Value<'_>) -> Vec<String> {
        match value.get_ref() {
            DeValue::Array(list) => list.iter().filter_map(|item| self.string(item)).collect(),
            _ => self.string(value).into_iter().collect(),
        }
    }

    fn table<'v, 'i>(&mut self, value: &'v Value<'i>) -> Option<&'v DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.error(value.span(), "this must be a table");
        }
        table
    }

    fn tables<T>(&mut self, value: &Value<'_>, one: fn(&mut Self, &DeTable<'_>, Range<usize>) -> Option<T>) -> Vec<T> {
        let Some(list) = value.get_ref().as_array() else {
            self.error(value.span(), "this must be a list of tables: write its name in double brackets");
            return Vec::new();
        };
        let mut all = Vec::new();
        for item in list.iter() {
            if let Some(table) = self.table(item) {
                all.extend(one(self, table, item.span()));
            }
        }
        all
    }

    fn severity(&mut self, value: &Value<'_>) -> Option<Severity> {
        let name = self.string(value)?;
        let severity = page::severity(&name);
        if severity.is_none() {
            self.unknown(value.span(), "severity", &name, &["note", "warning", "error"]);
        }
        severity
    }

    fn confidence(&mut self, value: &Value<'_>) -> Option<Confidence> {
        let name = self.string(value)?;
        let all = [Confidence::Low, Confidence::Medium, Confidence::High];
        let confidence = all.into_iter().find(|c| c.name() == name);
        if confidence.is_none() {
            self.unknown(value.span(), "confidence", &name, &["low", "medium", "high"]);
        }
        confidence
    }

    /// `rule = "level"`; a rule's own level wins over its group's.
    fn levels(&mut self, value: &Value<'_>) -> Levels {
        let mut groups = Levels::new();
        let mut single = Levels::new();
        for (key, value) in self.table(value).into_iter().flatten() {
            let name = key.get_ref().as_ref();
            let level = match value.get_ref().as_str() {
                Some("off") => Level::Off,
                Some(other) => match page::severity(other) {
                    Some(severity) => Level::At(severity),
                    None => {
                        self.unknown(value.span(), "level", other, &["off", "note", "warning", "error"]);
                        continue;
                    }
                },
                None => {
                    self.error(value.span(), "a level is `off`, `note`, `warning` or `error`");
                    continue;
                }
            };
            if let Some(rule) = self.rules.iter().find(|r| r.id == name) {
                single.insert(rule.id, level);
            } else if let Some(group) = Group::from_name(name) {
                groups.extend(self.rules.iter().filter(|r| r.group == group).map(|r| (r.id, level)));
            } else {
                let known: Vec<&str> =
                    self.rules.iter().map(|r| r.id).chain(Group::ALL.iter().map(|g| g.name())).collect();
                self.unknown(key.span(), "rule or group", name, &known);
            }
        }
        groups.extend(single);
        groups
    }

    fn path(&mut self, table: &DeTable<'_>, span: Range<usize>) -> Option<PathSettings> {
        let mut globs = None;
        let mut levels = Levels::new();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "glob" => {
                    let list = self.strings(value);
                    match PathGlobs::new(list.iter().map(String::as_str)) {
                        Ok(compiled) => globs = Some(compiled),
                        Err(error) => self.error(value.span(), error),
                    }
                }
                "rules" => levels = self.levels(value),
                other => self.unknown(key.span(), "key", other, &["glob", "rules"]),
            }
        }
        if globs.is_none() && !table.contains_key("glob") {
            self.error(span, "`[[path]]` needs a `glob`");
        }
        Some(PathSettings { globs: globs?, levels })
    }

    fn lock(&mut self, table: &DeTable<'_>, span: Range<usize>) -> Option<LockDeclaration> {
        let (mut lock_key, mut purpose, mut reason) = (None, None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "key" => lock_key = self.string(value).map(|text| (text, value.span())),
                "purpose" => {
                    purpose = self.string(value);
                    if let Some(other) = purpose.as_deref().filter(|p| *p != "efficiency") {
                        self.unknown(value.span(), "purpose", other, &["efficiency"]);
                    }
                }
                "reason" => reason = self.string(value).filter(|text| !text.trim().is_empty()),
                other => self.unknown(key.span(), "key", other, &["key", "purpose", "reason"]),
            }
        }
        for (name, there) in [("key", lock_key.is_some()), ("purpose", purpose.is_some()), ("reason", reason.is_some())]
        {
            if !there {
                self.error(span.clone(), format!("`[[lock]]` needs a `{name}`"));
            }
        }
        let (key, span) = lock_key?;
        Some(LockDeclaration { key, reason: reason?, span })
    }
}

/// The rows as plain tables: the model layer checks them itself.
fn models(value: &Value<'_>, text: &str) -> Vec<toml::Table> {
    let spans = value.get_ref().as_array().map_or(0, |list| list.len());
    let parsed: Option<toml::Table> = text.parse().ok();
    let find = |table: &toml::Table| -> Vec<toml::Table> {
        let list = table.get("model").and_then(toml::Value::as_array);
        list.into_iter().flatten().filter_map(|item| item.as_table().cloned()).collect()
    };
    let mut open: Vec<toml::Table> = parsed.into_iter().collect();
    while let Some(table) = open.pop() {
        let found = find(&table);
        if found.len() == spans && spans > 0 {
            return found;
        }
        open.extend(table.values().filter_map(toml::Value::as_table).cloned());
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn rules() -> Vec<&'static Rule> {
        crate::report::sample_rules().iter().collect()
    }

    #[test]
    fn reads_everything() {
        let text = "exclude = [\"gen/**\"]\nmin-confidence = \"high\"\ninclude-tests = true\n[rules]\nreleasing = \"off\"\nbare-del = \"warning\"\n\
            [[path]]\nglob = \"admin\"\nrules = { bare-del = \"off\" }\n[[lock]]\nkey = \"report:*\"\npurpose = \"efficiency\"\nreason = \"r\"\n\
            [dsn]\ndirect = [\"DIRECT_URL\"]\n[[model]]\ncrate = \"x\"\n[[model.call]]\nmethod = \"m\"\n";
        let config = parse(text, &[], &rules()).unwrap().unwrap();
        assert_eq!(config.levels.get("bare-del"), Some(&Level::At(Severity::Warning)));
        assert_eq!(config.paths.len(), 1);
        assert_eq!(&text[config.locks[0].span.clone()], "\"report:*\"");
        assert_eq!(config.dsn.direct, ["DIRECT_URL"]);
        assert_eq!(config.models[0]["crate"].as_str(), Some("x"));
        let cargo = format!("[workspace.metadata.leaselint]\n{}", "min-severity = \"error\"\n");
        let config = parse(&cargo, &["workspace", "metadata", "leaselint"], &rules()).unwrap().unwrap();
        assert_eq!(config.min_severity, Some(Severity::Error));
        assert!(parse("[package]\n", &["workspace", "metadata", "leaselint"], &rules()).unwrap().is_none());
    }

    #[test]
    fn names_what_is_unknown_and_where() {
        let cases = [
            ("exlude = []", "unknown key `exlude`, did you mean `exclude`?", "exlude"),
            ("[rules]\nbare-dell = \"off\"", "did you mean `bare-del`?", "bare-dell"),
            ("[rules]\nbare-del = \"of\"", "did you mean `off`?", "\"of\""),
            ("min-severity = \"err\"", "there are `note`", "\"err\""),
            ("[[lock]]\nkey = \"a\"\npurpose = \"efficiency\"", "needs a `reason`", ""),
            ("[dsn]\ndirekt = []", "did you mean `direct`?", "direkt"),
            ("exclude = [1]", "must be a string", "1"),
            ("a = ", "", ""),
        ];
        for (text, part, at) in cases {
            let errors = parse(text, &[], &rules()).expect_err(text);
            assert!(errors[0].message.contains(part), "{text}: {errors:?}");
            assert!(at.is_empty() || &text[errors[0].span.clone()] == at, "{text}: {errors:?}");
        }
    }
}
