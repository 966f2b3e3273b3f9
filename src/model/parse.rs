//! Reads model files strictly: an unknown key, word or position is an error that names file, row and the allowed words.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::head::Head;
use super::matching::{loose, loose_type};
use super::row::{Row, Spec, TypeRole};
use super::version::Range;

/// The model files that are part of the program.
const BUILTIN: &[(&str, &str)] = &[
    ("async_nats.toml", include_str!("../../rules/models/async_nats.toml")),
    ("async_redis_lock.toml", include_str!("../../rules/models/async_redis_lock.toml")),
    ("async_std.toml", include_str!("../../rules/models/async_std.toml")),
    ("aws_sdk.toml", include_str!("../../rules/models/aws_sdk.toml")),
    ("aws_sdk_dynamodb.toml", include_str!("../../rules/models/aws_sdk_dynamodb.toml")),
    ("aws_sdk_s3.toml", include_str!("../../rules/models/aws_sdk_s3.toml")),
    ("consul.toml", include_str!("../../rules/models/consul.toml")),
    ("deadpool_postgres.toml", include_str!("../../rules/models/deadpool_postgres.toml")),
    ("diesel.toml", include_str!("../../rules/models/diesel.toml")),
    ("dist_lock.toml", include_str!("../../rules/models/dist_lock.toml")),
    ("distributed_lock_mysql.toml", include_str!("../../rules/models/distributed_lock_mysql.toml")),
    ("distributed_lock_postgres.toml", include_str!("../../rules/models/distributed_lock_postgres.toml")),
    ("distributed_lock_redis.toml", include_str!("../../rules/models/distributed_lock_redis.toml")),
    ("dynamodb_lease.toml", include_str!("../../rules/models/dynamodb_lease.toml")),
    ("etcd_client.toml", include_str!("../../rules/models/etcd_client.toml")),
    ("fred.toml", include_str!("../../rules/models/fred.toml")),
    ("house.toml", include_str!("../../rules/models/house.toml")),
    ("kube.toml", include_str!("../../rules/models/kube.toml")),
    ("kube_leader_election.toml", include_str!("../../rules/models/kube_leader_election.toml")),
    ("lapin.toml", include_str!("../../rules/models/lapin.toml")),
    ("lettre.toml", include_str!("../../rules/models/lettre.toml")),
    ("mysql.toml", include_str!("../../rules/models/mysql.toml")),
    ("object_store.toml", include_str!("../../rules/models/object_store.toml")),
    ("opendal.toml", include_str!("../../rules/models/opendal.toml")),
    ("rdkafka.toml", include_str!("../../rules/models/rdkafka.toml")),
    ("redis.toml", include_str!("../../rules/models/redis.toml")),
    ("redis_async.toml", include_str!("../../rules/models/redis_async.toml")),
    ("redis_lock.toml", include_str!("../../rules/models/redis_lock.toml")),
    ("redislock.toml", include_str!("../../rules/models/redislock.toml")),
    ("redlock.toml", include_str!("../../rules/models/redlock.toml")),
    ("redsync.toml", include_str!("../../rules/models/redsync.toml")),
    ("reqwest.toml", include_str!("../../rules/models/reqwest.toml")),
    ("rs_consul.toml", include_str!("../../rules/models/rs_consul.toml")),
    ("rslock.toml", include_str!("../../rules/models/rslock.toml")),
    ("rust_redlock.toml", include_str!("../../rules/models/rust_redlock.toml")),
    ("rustis.toml", include_str!("../../rules/models/rustis.toml")),
    ("sea_orm.toml", include_str!("../../rules/models/sea_orm.toml")),
    ("simple_redis.toml", include_str!("../../rules/models/simple_redis.toml")),
    ("sqlx.toml", include_str!("../../rules/models/sqlx.toml")),
    ("std.toml", include_str!("../../rules/models/std.toml")),
    ("stripe.toml", include_str!("../../rules/models/stripe.toml")),
    ("tiberius.toml", include_str!("../../rules/models/tiberius.toml")),
    ("tokio.toml", include_str!("../../rules/models/tokio.toml")),
    ("tokio_postgres.toml", include_str!("../../rules/models/tokio_postgres.toml")),
    ("tokio_util.toml", include_str!("../../rules/models/tokio_util.toml")),
    ("zookeeper.toml", include_str!("../../rules/models/zookeeper.toml")),
];

/// A model file: its head; the rows are in [`Models::rows`].
#[derive(Clone, Debug)]
pub struct File {
    /// Name for messages.
    pub name: String,
    /// Head.
    pub head: Head,
}

/// All model rows of a run, with the indices that matching needs.
#[derive(Clone, Debug, Default)]
pub struct Models {
    /// Files.
    pub files: Vec<File>,
    /// Rows, in file order.
    pub rows: Vec<Row>,
    pub(super) by_path: BTreeMap<String, Vec<usize>>,
    pub(super) by_method: BTreeMap<String, Vec<usize>>,
    pub(super) by_macro: BTreeMap<String, Vec<usize>>,
    /// Rows by crate, type and function name, whatever modules stand between.
    pub(super) by_tail: BTreeMap<String, Vec<usize>>,
    /// Files and roles by type path, and by crate and type name.
    pub(super) types: BTreeMap<String, Vec<(usize, TypeRole)>>,
    pub(super) type_tails: BTreeMap<String, Vec<(usize, TypeRole)>>,
    /// Other names of crates, longest first, and the name that rows use.
    pub(super) aliases: Vec<(String, String)>,
    ids: BTreeMap<String, usize>,
}

impl Models {
    /// The rows that are part of the program. They are checked by a test, so that nothing is lost here in silence.
    pub fn builtin() -> &'static Models {
        static MODELS: LazyLock<Models> = LazyLock::new(|| {
            let mut models = Models::default();
            for (name, text) in BUILTIN {
                // A faulty built-in file cannot get past the tests.
                let _ = models.add(name, text);
            }
            models
        });
        &MODELS
    }

    /// Adds a model file (`crate = ".."` and so on, then `[[call]]` rows). On errors nothing is added.
    ///
    /// # Errors
    /// One message for each fault, with file and row.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), Vec<String>> {
        let table: toml::Table = text.parse().map_err(|error| vec![format!("{name}: {}", one_line(&error))])?;
        self.add_rows(name, table)
    }

    /// Adds a model that is already a TOML table, as in the `[[model]]` entries of `leaselint.toml`.
    ///
    /// # Errors
    /// One message for each fault, with file and row.
    pub fn add_table(&mut self, name: &str, table: toml::Table) -> Result<(), Vec<String>> {
        self.add_rows(name, table)?;
        let file = self.files.len() - 1;
        let rows = self.rows.iter().filter(|row| row.file == file);
        let called = rows.flat_map(|row| row.path.0.iter().chain(&row.method.0).chain(&row.macros.0));
        let names = called.filter_map(|path| path.rsplit("::").next()).map(str::to_owned);
        let mut words: Vec<String> = names.collect();
        // Nothing else in a file of this house need say lock: the calls that are described make it worth reading.
        let head = &mut self.files[file].head;
        words.append(&mut head.words.0);
        words.sort();
        words.dedup();
        head.words.0 = words;
        Ok(())
    }

    fn add_rows(&mut self, name: &str, mut table: toml::Table) -> Result<(), Vec<String>> {
        let calls = match table.remove("call") {
            None => Vec::new(),
            Some(toml::Value::Array(calls)) => calls,
            Some(_) => return Err(vec![format!("{name}: `call` must be written as `[[call]]` rows")]),
        };
        let head: Head = table.try_into().map_err(|error| vec![format!("{name}: {}", one_line(&error))])?;
        let (mut rows, mut errors) = (Vec::new(), Vec::new());
        for (i, call) in calls.into_iter().enumerate() {
            let called = ["path", "method", "macro"]
                .iter()
                .find_map(|key| Some(format!(" ({key} = {})", call.get(key)?)))
                .unwrap_or_default();
            let place = format!("{name}: row {}{called}", i + 1);
            match check_row(call, &head) {
                Ok((versions, spec)) => rows.push((versions, spec)),
                Err(error) => errors.push(format!("{place}: {error}")),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let file = self.files.len();
        for (versions, spec) in rows {
            self.push(file, &head, versions, spec);
        }
        for (path, role) in &head.types {
            self.types.entry(path.clone()).or_default().push((file, *role));
            let tails = self.type_tails.entry(loose_type(path)).or_default();
            if !tails.iter().any(|(known, _)| *known == file) {
                tails.push((file, *role));
            }
        }
        if let Some((first, others)) = head.names.0.split_first() {
            self.aliases.extend(others.iter().map(|other| (format!("{other}::"), format!("{first}::"))));
            self.aliases.sort_by_key(|(alias, _)| std::cmp::Reverse(alias.len()));
        }
        self.files.push(File { name: name.to_owned(), head });
        Ok(())
    }

    fn push(&mut self, file: usize, head: &Head, versions: Range, spec: Spec) {
        let first = [&spec.path, &spec.method, &spec.macros].into_iter().find_map(|words| words.0.first());
        let called = first.map_or("", |path| path.as_str());
        let tail = called.strip_prefix(&format!("{}::", head.krate)).unwrap_or(called);
        let mut id = format!("{}/{tail}", head.krate);
        if let Some(version) = &spec.version {
            id.push_str(&format!(" {version}"));
        }
        let base = id.clone();
        let mut n = 1;
        while self.ids.contains_key(&id) {
            n += 1;
            id = format!("{base} #{n}");
        }
        let index = self.rows.len();
        for path in &spec.path.0 {
            self.by_path.entry(path.clone()).or_default().push(index);
            let rows = self.by_tail.entry(loose(path)).or_default();
            if !rows.contains(&index) {
                rows.push(index);
            }
        }
        for method in &spec.method.0 {
            self.by_method.entry(method.clone()).or_default().push(index);
        }
        for path in &spec.macros.0 {
            self.by_macro.entry(path.clone()).or_default().push(index);
        }
        self.ids.insert(id.clone(), index);
        let protocol = spec.protocol.unwrap_or(head.protocol);
        self.rows.push(Row { id, file, protocol, versions, spec });
    }

    /// The row of an id as it stands in [`crate::ir::RoundTrip::model`].
    pub fn row(&self, id: &str) -> Option<&Row> {
        self.ids.get(id).map(|index| &self.rows[*index])
    }

    /// The file of a row.
    pub fn file(&self, row: &Row) -> &File {
        &self.files[row.file]
    }
}

fn check_row(call: toml::Value, head: &Head) -> Result<(Range, Spec), String> {
    let spec: Spec = call.try_into().map_err(|error| one_line(&error))?;
    if spec.path.0.is_empty() && spec.method.0.is_empty() && spec.macros.0.is_empty() {
        return Err("a row needs `path`, `method` or `macro`".into());
    }
    for path in spec.path.0.iter().chain(&spec.macros.0) {
        let known = path.split("::").next().is_some_and(|first| {
            first.replace('-', "_") == head.krate.replace('-', "_")
                || head.names.0.iter().any(|name| path.starts_with(name.as_str()))
                || ["std", "core", "tokio", "futures"].contains(&first)
        });
        if !known {
            return Err(format!("path `{path}` does not begin with the crate's name or one of `names`"));
        }
    }
    for word in &spec.wire {
        crate::protocol::check_wire(word)?;
    }
    let versions = match &spec.version {
        Some(text) => Range::parse(text)?,
        None => Range::default(),
    };
    Ok((versions, spec))
}

/// The message on one line, with the nearest of the allowed words where a word is not known.
fn one_line(error: &toml::de::Error) -> String {
    let message = error.message().trim().replace('\n', " ");
    let Some((head, allowed)) = message.split_once(", expected ") else { return message };
    let wrong = head.split('`').nth(1).unwrap_or("");
    match crate::suggest::nearest(wrong, allowed.split('`').skip(1).step_by(2)) {
        Some(near) => format!("{head}, did you mean `{near}`? expected {allowed}"),
        None => message,
    }
}

/// The keys of a model's head, the keys of a row, and the roles, as the reader knows them.
pub fn vocabulary() -> [Vec<String>; 3] {
    // The reader itself says what it allows, so that nothing is listed twice.
    fn allowed<T: serde::de::DeserializeOwned>(key: &str, value: &str) -> Vec<String> {
        let table = toml::Table::from_iter([(key.to_owned(), toml::Value::String(value.to_owned()))]);
        let message = table.try_into::<T>().err().map(|error| error.message().to_owned()).unwrap_or_default();
        let list = message.split_once(", expected ").map_or("", |(_, list)| list);
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }
    [allowed::<Head>("?", ""), allowed::<Spec>("?", ""), allowed::<Spec>("role", "?")]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn builtin_files_are_sound_and_all_listed() {
        let mut models = Models::default();
        for (name, text) in BUILTIN {
            models.add(name, text).unwrap();
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/rules/models");
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        // These two are tables of the link layer.
        names.retain(|name| !matches!(name.as_str(), "types.toml" | "values.toml"));
        names.sort();
        let mut listed: Vec<&str> = BUILTIN.iter().map(|(name, _)| *name).collect();
        listed.sort_unstable();
        assert_eq!(names, listed);
    }

    #[test]
    fn faults_name_file_row_and_allowed_words() {
        let head = "crate = \"x\"\nprotocol = \"redis\"\nsource = \"x 1\"\n";
        let fault = |rows: &str| Models::default().add("m.toml", &format!("{head}{rows}")).unwrap_err().join("; ");
        let text = fault("[[call]]\nmethod = \"f\"\nrole = \"comand\"\n");
        assert!(text.starts_with("m.toml: row 1 (method = \"f\"): unknown variant `comand`"), "{text}");
        assert!(text.contains("`command`"), "{text}");
        let text = fault("[[call]]\nmethod = \"f\"\nrole = \"command\"\nkye = 0\n");
        assert!(text.contains("unknown field `kye`") && text.contains("`key`"), "{text}");
        assert!(fault("[[call]]\nmethod = \"f\"\nrole = \"arg\"\nkey = \"first\"\n").contains("is no position"));
        assert!(fault("[[call]]\nmethod = \"f\"\nrole = \"arg\"\nwire = [\"$x\"]\n").contains("`$x`"));
        assert!(fault("[[call]]\nrole = \"arg\"\n").contains("needs `path`"));
        assert!(fault("[[call]]\npath = \"y::f\"\nrole = \"arg\"\n").contains("does not begin"));
        assert!(fault("wrods = \"a\"\n").contains("unknown field `wrods`"));
    }
}
