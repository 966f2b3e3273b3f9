#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::ir::dump;
use crate::source::{FileId, Language};

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile::new(FileId(0), path, Language::Sql, text)
}

fn body(text: &str) -> String {
    let f = file("x/migrations/0001_a.sql", text);
    let unit = lower(&f);
    let found = unit.functions.iter().find(|f| f.kind == FunctionKind::SqlBody).unwrap();
    dump::function(found, &f)
}

/// Kinds of edges and exits by block, to compare control flow without places.
fn has(dump: &str, part: &str) {
    let squeezed: Vec<String> = dump.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(squeezed.iter().any(|l| l.contains(part)), "{part} not in\n{dump}");
}

#[test]
fn routine_heads() {
    let f = file(
        "a.sql",
        "CREATE OR REPLACE FUNCTION public.f(p_name text, OUT x int, uuid, n int DEFAULT f(1, 2)) RETURNS boolean
           LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN true; END $$;
         CREATE PROCEDURE p() LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT 2; END;
         GRANT EXECUTE ON FUNCTION public.f(text) TO service_role;
         DO LANGUAGE plpgsql 'BEGIN NULL; END';
         CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW EXECUTE FUNCTION f();",
    );
    let unit = lower(&f);
    let names: Vec<_> = unit.functions.iter().map(|f| (f.path.as_str(), f.params.len(), f.public)).collect();
    assert_eq!(
        names,
        [
            ("sql::a.sql", 0, false),
            ("sql::function::f", 3, true),
            ("sql::function::p", 0, false),
            ("sql::a.sql::do#1", 0, false)
        ]
    );
    assert_eq!(unit.functions[1].ret, Ty::path("bool"));
    assert!(unit.problems.is_empty());
}

#[test]
fn branches_and_results() {
    let d = body(
        "CREATE FUNCTION f(k text) RETURNS boolean LANGUAGE plpgsql AS $$
         DECLARE got boolean; n int := 0;
         BEGIN
           SELECT pg_try_advisory_lock(hashtext(k)) INTO got;
           IF NOT got THEN RETURN false; END IF;
           UPDATE t SET a = 1 WHERE b = k;
           GET DIAGNOSTICS n = ROW_COUNT;
           IF FOUND AND n > 0 THEN PERFORM other(k); ELSE RAISE NOTICE 'none'; END IF;
           PERFORM pg_advisory_unlock(hashtext(k));
           RETURN true;
         END $$;",
    );
    has(&d, "n: i32 = 0");
    has(&d, "got: bool = &_3 . 0");
    has(&d, "= !&got");
    has(&d, "return false");
    has(&d, ". row_count");
    has(&d, "call sql::function::other(&k)");
    has(&d, "return true");
    // The lock call itself is no place where an error is expected; the update is.
    assert_eq!(d.matches("return? ()").count(), 2, "{d}");
}

#[test]
fn loops() {
    let d = body(
        "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$
         BEGIN
           <<outer>> LOOP
             FOR r IN SELECT id FROM jobs FOR UPDATE SKIP LOCKED LOOP
               EXIT outer WHEN r.id = 3;
               CONTINUE;
             END LOOP;
             EXIT;
           END LOOP;
           WHILE true LOOP NULL; END LOOP;
           FOR i IN 1..10 LOOP UPDATE t SET a = i; END LOOP;
         END $$;",
    );
    has(&d, "SELECT id FROM jobs FOR UPDATE SKIP LOCKED");
    assert_eq!(d.matches("back ").count(), 5, "{d}");
    has(&d, "UPDATE t SET a = i\"");
}

#[test]
fn handlers() {
    let d = body(
        "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$
         BEGIN
           PERFORM pg_advisory_lock(1);
           BEGIN
             INSERT INTO t VALUES (1);
           EXCEPTION
             WHEN unique_violation THEN NULL;
             WHEN OTHERS THEN PERFORM pg_advisory_unlock(1); RAISE;
           END;
           PERFORM pg_advisory_unlock(1);
         END $$;",
    );
    assert_eq!(d.matches("SELECT pg_advisory_unlock(1)").count(), 2, "{d}");
    // Out of the routine by RAISE, and by a cancelled query, which WHEN OTHERS does not catch (PostgreSQL manual 41.6.8).
    assert_eq!(d.matches("return? ()").count(), 2, "{d}");
    has(&d, "cancel -> ");
}

#[test]
fn procedures_that_commit_and_dynamic_statements() {
    let d = body(
        "CREATE PROCEDURE p(t text) LANGUAGE plpgsql AS $$
         BEGIN
           PERFORM pg_advisory_xact_lock(1);
           COMMIT;
           EXECUTE format('UPDATE %I SET a = 1 WHERE id = %L', t, 3);
           EXECUTE 'SELECT pg_advisory_xact_lock(' || t || ')';
         END $$;",
    );
    has(&d, "call sql::statement(\"COMMIT\"");
    has(&d, "UPDATE {} SET a = 1 WHERE id = {}");
    has(&d, "SELECT pg_advisory_xact_lock({})");
}

#[test]
fn sessions() {
    let session = |path: &str, text: &str| {
        let f = file(path, text);
        dump::unit(&lower(&f), &f)
    };
    assert!(session("db/migrations/0001_x.sql", "SELECT pg_advisory_lock(1);").contains("\"transaction\""));
    assert!(
        session("migrations/2024-01-01-000000_x/up.sql", "SELECT pg_advisory_lock(1);").contains("\"transaction\"")
    );
    assert!(session("bench/run.sql", "\\set x 1\nSELECT pg_advisory_lock(1);").contains("\"script\""));
    assert!(session("queries/lock.sql", "SELECT pg_advisory_lock(1);").contains("\"unknown\""));
}

#[test]
fn unreadable_lock_statements_are_problems() {
    let f = file("a.sql", "FROBNICATE pg_advisory_lock;\nCREATE TABLE t (a int);");
    assert_eq!(lower(&f).problems.len(), 1);
    let deep = format!("DO $$ {} NULL; {} $$;", "BEGIN IF true THEN ".repeat(500), "END IF; END; ".repeat(500));
    lower(&file("a.sql", &deep));
    for text in [
        "DO $$",
        "CREATE FUNCTION",
        "CREATE FUNCTION f(",
        "DO $$ IF $$",
        "DO $$ BEGIN EXCEPTION WHEN $$",
        "DO $$ LOOP $$",
        "DO $$ CASE WHEN $$",
    ] {
        lower(&file("a.sql", text));
    }
}
