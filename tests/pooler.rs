//! Each folder of `fixtures/pooler` is a small repository; `expected.txt` in it is what `cargo leaselint poolers` says of it.
//! `BLESS=1 cargo test --test pooler` writes the files anew.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

use leaselint::frontend::pooler::{self, May, Mode, PoolerFacts, Resolution};
use leaselint::ir::{Piece, Value};
use leaselint::source::{Language, Sources};

fn load(dir: &Path) -> (Sources, PoolerFacts) {
    let mut paths = Vec::new();
    walk(dir, &mut paths);
    paths.sort();
    let mut sources = Sources::default();
    for path in paths {
        let name = path.strip_prefix(dir).unwrap().to_string_lossy().replace('\\', "/");
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        if name != "expected.txt" && pooler::is_candidate(&name, &text) {
            sources.add(name, Language::Config, text);
        }
    }
    let files: Vec<_> = sources.iter().collect();
    let facts = pooler::read(&files);
    (sources, facts)
}

fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, out) } else { out.push(path) }
    }
}

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pooler");
    let mut cases: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

#[test]
fn descriptions() {
    let mut failed = Vec::new();
    for case in cases() {
        let (sources, facts) = load(&case);
        let text = pooler::describe(&facts, &sources);
        let file = case.join("expected.txt");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&file, &text).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if text != expected {
            failed.push(format!("{}\n--- expected\n{expected}--- is\n{text}", case.display()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn case(name: &str) -> PoolerFacts {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pooler").join(name)).1
}

fn met(resolution: Resolution) -> (Option<Mode>, bool) {
    match resolution {
        Resolution::Through { mode, certain, .. } => (Some(mode), certain),
        Resolution::Direct => (None, true),
        Resolution::Unknown => (None, false),
    }
}

#[test]
fn a_direct_connection_string_is_clean_beside_a_pooler() {
    let facts = case("compose_two_dsns");
    assert_eq!(met(facts.for_env("DATABASE_URL")), (Some(Mode::Transaction), true));
    assert_eq!(facts.for_env("DIRECT_URL"), Resolution::Direct);
    assert_eq!(facts.for_env("NO_SUCH_URL"), Resolution::Unknown);
    assert!(matches!(facts.may_meet(), May::Meets(route) if route.mode == Mode::Transaction));
    let swapped = case("compose_swapped_dsns");
    assert_eq!(swapped.for_env("DATABASE_URL"), Resolution::Direct);
    assert!(matches!(swapped.for_env("POOLED_URL"), Resolution::Through { dropped_after_each_tx: true, .. }));
}

#[test]
fn nothing_harmful_is_nothing_to_meet() {
    for name in
        ["pgdog", "rds_proxy", "pgbouncer_absent_mode", "no_pooler", "port_proves_nothing", "compose_image_default"]
    {
        let facts = case(name);
        assert_eq!(facts.worst(), None, "{name}");
        assert_eq!(facts.may_meet(), May::No, "{name}");
    }
}

#[test]
fn keys_of_settings_are_the_variables_that_override_them() {
    let facts = case("service_config");
    for name in ["database.url", "DATABASE_URL", "APP__DATABASE__URL"] {
        assert_eq!(met(facts.for_env(name)), (Some(Mode::Transaction), true), "{name}");
    }
    assert_eq!(facts.for_env("database.lock_url"), Resolution::Direct);
}

#[test]
fn values_of_code() {
    let facts = case("env_parts");
    let text = |text: &str| Piece::Text(text.to_string());
    let env = |name: &str| Piece::Hole(Value::Env(name.to_string()));
    let pooled = Value::Template(vec![text("postgres://app@"), env("DB_HOST"), text("/shop")].into());
    assert_eq!(met(facts.for_value(&pooled, "src/main.rs")), (Some(Mode::Transaction), true));
    let direct = Value::Template(vec![text("postgres://"), env("DB_USER"), text("@db/shop")].into());
    assert_eq!(facts.for_value(&direct, "src/main.rs"), Resolution::Direct);
    let either = Value::Join(vec![pooled, direct].into());
    assert_eq!(met(facts.for_value(&either, "src/main.rs")), (Some(Mode::Transaction), false));
    assert_eq!(met(facts.for_dsn("host=pgbouncer user=app dbname=shop")), (Some(Mode::Transaction), true));
    assert_eq!(facts.for_value(&Value::Unknown, ""), Resolution::Unknown);
}

#[test]
fn code_meets_the_values_of_its_own_service() {
    let facts = case("two_services");
    assert_eq!(met(facts.for_env_at("DATABASE_URL", "services/api/src/main.rs")), (Some(Mode::Transaction), true));
    assert_eq!(facts.for_env_at("DATABASE_URL", "services/worker/src/lock.rs"), Resolution::Direct);
    assert_eq!(met(facts.for_env_at("DATABASE_URL", "crates/shared/src/lib.rs")), (Some(Mode::Transaction), true));
}

#[test]
fn tests_and_unreachable_defaults_are_no_deployment() {
    let facts = case("tests_only");
    assert_eq!(facts.for_env("DATABASE_URL"), Resolution::Direct);
    assert_eq!(facts.may_meet(), May::No);
    assert_eq!(case("pgcat_all_users_have_modes").worst(), None);
    assert_eq!(case("unlisted_database").worst(), None);
    assert_eq!(met(case("may_by_database").for_env("UNKNOWN_DATABASE_URL")), (Some(Mode::Transaction), false));
}

#[test]
fn a_secret_direct_string_is_taken_at_its_name() {
    let facts = case("compose_two_dsns");
    assert_eq!(facts.for_env("DATABASE_URL_UNPOOLED"), Resolution::Direct);
    assert_eq!(facts.for_env("MIGRATIONS_DATABASE_URL"), Resolution::Direct);
}

#[test]
fn the_users_word_goes_first() {
    let mut facts = case("compose_two_dsns");
    facts.declare(&["database_url".to_string()], &["postgres".to_string(), "OTHER_URL".to_string()]);
    assert_eq!(facts.for_env("DATABASE_URL"), Resolution::Direct);
    assert_eq!(met(facts.for_env("OTHER_URL")), (Some(Mode::Transaction), true));
    assert_eq!(met(facts.for_env("DIRECT_URL")), (Some(Mode::Transaction), true));
}

/// Half files, and files with parts of them taken out, are read without a panic, whatever is left of them.
#[test]
fn mutilated_files_are_read() {
    for case in cases() {
        let (sources, _) = load(&case);
        let whole: Vec<(String, String)> = sources.iter().map(|f| (f.path.clone(), f.text.to_string())).collect();
        for (index, (_, text)) in whole.iter().enumerate() {
            let cuts: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
            for (turn, cut) in cuts.iter().enumerate().step_by(23) {
                let other = cuts[(turn * 7 + 3) % cuts.len()];
                let (from, to) = (*cut.min(&other), *cut.max(&other));
                for broken in [text[..*cut].to_string(), format!("{}{}", &text[..from], &text[to..])] {
                    let mut sources = Sources::default();
                    for (at, (path, text)) in whole.iter().enumerate() {
                        let text = if at == index { broken.clone() } else { text.clone() };
                        sources.add(path.clone(), Language::Config, text);
                    }
                    let facts = pooler::read(&sources.iter().collect::<Vec<_>>());
                    pooler::describe(&facts, &sources);
                }
            }
        }
    }
}

#[test]
fn an_unknown_origin_is_the_usual_one_only_where_there_is_no_other() {
    let only = case("compose_override");
    assert!(matches!(only.harm_to(&Value::Unknown, "src/main.rs"), Some((_, true))));
    let two = case("compose_two_dsns");
    assert!(matches!(two.harm_to(&Value::Unknown, "src/main.rs"), Some((_, false))));
    assert!(matches!(two.harm_to(&Value::Env("LOCKS_URL".to_string()), "src/main.rs"), Some((_, false))));
    assert!(matches!(two.harm_to(&Value::Env("DATABASE_URL".to_string()), "src/main.rs"), Some((_, true))));
    assert_eq!(two.harm_to(&Value::Env("DIRECT_URL".to_string()), "src/main.rs"), None);
}

#[test]
fn defaults_and_fallbacks_of_variables() {
    let facts = case("compose_two_dsns");
    let env = |name: &str| Value::Env(name.to_string());
    let local = Value::str("postgres://localhost:9/app");
    let with_default = |name: &str| facts.for_value(&env(name).join(local.clone()), "src/main.rs");
    assert_eq!(met(with_default("DATABASE_URL")), (Some(Mode::Transaction), true));
    assert_eq!(with_default("DIRECT_URL"), Resolution::Direct);
    let either = facts.for_value(&env("DIRECT_URL").join(env("DATABASE_URL")), "src/main.rs");
    assert_eq!(either, Resolution::Direct);
    let other = facts.for_value(&env("DATABASE_URL").join(env("DIRECT_URL")), "src/main.rs");
    assert_eq!(met(other), (Some(Mode::Transaction), false));
}
