//! Golden tests: each `fixtures/lower/<case>.rs` lowers to the text in `<case>.ir`.
//! `UPDATE=1 cargo test --test lower` writes the expected texts anew.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use leaselint::frontend::ModuleContext;
use leaselint::ir::{BlockId, Function, OpKind, Operand, Unit, Var, dump};
use leaselint::source::{FileId, Language, ProblemKind, SourceFile};
use std::path::Path;

fn lower(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let file = SourceFile::new(FileId(0), name, Language::Rust, text);
    let context = ModuleContext { krate: "app".into(), module: "app::case".into(), test: false };
    let unit = leaselint::frontend::rust::lower(&file, &context);
    dump::unit(&unit, &file)
}

#[test]
fn rust_lowers_as_expected() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut paths: Vec<_> = std::fs::read_dir("fixtures/lower").unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "rs"));
    paths.sort();
    assert!(!paths.is_empty());
    let mut failed = Vec::new();
    for path in paths {
        let path = path.as_path();
        let got = std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().stack_size(64 << 20);
            worker.spawn_scoped(scope, || lower(path)).unwrap().join().unwrap()
        });
        let expected = path.with_extension("ir");
        if update {
            std::fs::write(&expected, got).unwrap();
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != got {
            failed.push(path.display().to_string());
        }
    }
    assert!(failed.is_empty(), "lowered otherwise (UPDATE=1 writes anew): {failed:?}");
}

/// What must hold of every function, whatever was read.
fn check(function: &Function) {
    let var = |var: Var| assert!((var.0 as usize) < function.vars.len(), "variable out of range in {}", function.path);
    let block =
        |id: BlockId| assert!((id.0 as usize) < function.blocks.len(), "block out of range in {}", function.path);
    function.params.iter().chain(&function.captures).for_each(|v| var(*v));
    for body in &function.blocks {
        for (at, op) in body.ops.iter().enumerate() {
            op.dst.into_iter().for_each(var);
            match &op.kind {
                OpKind::Drop(dropped) => var(*dropped),
                OpKind::Call(call) => {
                    call.cancel.into_iter().for_each(block);
                    call.args.iter().for_each(|arg| {
                        if let Operand::Var(v, _) = arg {
                            var(*v);
                        }
                    });
                }
                OpKind::Return(..) => assert!(at + 1 == body.ops.len() && body.edges.is_empty(), "{}", function.path),
                OpKind::Let(_) | OpKind::Store(..) => {}
            }
        }
        body.edges.iter().for_each(|edge| block(edge.to));
        let returns = matches!(body.ops.last().map(|op| &op.kind), Some(OpKind::Return(..)));
        assert!(returns || !body.edges.is_empty(), "control ends nowhere in {}", function.path);
    }
}

/// `TREE=folder cargo test --test lower -- --ignored --nocapture`: every Rust file below a folder lowers without a panic.
#[test]
#[ignore = "needs a folder of sources"]
fn every_file_of_a_tree_lowers() {
    let mut pending = vec![std::path::PathBuf::from(std::env::var_os("TREE").expect("TREE names a folder"))];
    let mut files = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => pending.push(path),
                kind if kind.is_file() && path.extension().is_some_and(|e| e == "rs") => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    let (mut functions, mut problems, mut opaque) = (0, 0, 0);
    for path in &files {
        let Ok(text) = std::fs::read(path) else { continue };
        let text = String::from_utf8_lossy(&text).into_owned();
        let name = path.display().to_string();
        let worker = std::thread::Builder::new().stack_size(64 << 20);
        let started = std::time::Instant::now();
        let unit = worker.spawn(move || {
            let file = SourceFile::new(FileId(0), name, Language::Rust, text);
            let context = ModuleContext { krate: "app".into(), module: "app::case".into(), test: false };
            let unit = leaselint::frontend::rust::lower(&file, &context);
            unit.functions.iter().for_each(check);
            for span in &unit.opaque {
                println!("opaque {}:{}", file.path, file.line(span.start));
            }
            unit
        });
        let Ok(unit) = unit.unwrap().join() else {
            println!("PANIC {}", path.display());
            continue;
        };
        if started.elapsed().as_millis() > 2000 {
            println!("slow {} {:?}", path.display(), started.elapsed());
        }
        functions += unit.functions.len();
        opaque += unit.opaque.len();
        problems += unit.problems.len();
        for problem in &unit.problems {
            println!("problem {} {}", problem.path, problem.message);
        }
    }
    println!("{} files, {functions} functions, {problems} problems, {opaque} opaque", files.len());
}

fn lower_text(text: impl Into<String>) -> (Unit, SourceFile) {
    let text = text.into();
    let worker = std::thread::Builder::new().stack_size(64 << 20);
    let run = move || {
        let file = SourceFile::new(FileId(0), "case.rs", Language::Rust, text);
        let context = ModuleContext { krate: "app".into(), module: "app".into(), test: false };
        let unit = leaselint::frontend::rust::lower(&file, &context);
        unit.functions.iter().for_each(check);
        (unit, file)
    };
    worker.spawn(run).unwrap().join().unwrap()
}

#[test]
fn byte_order_mark_and_shebang_do_not_move_places() {
    for prefix in ["", "\u{feff}", "#!/usr/bin/env rustx äö\n", "\u{feff}#!/bin/x\r\n"] {
        let (unit, file) = lower_text(format!("{prefix}fn första(k: &str) {{ /* ö */ lock(k); }}"));
        assert_eq!(file.slice(unit.functions[0].span), "första", "{prefix:?}");
        let (_, op, call) = unit.functions[0].calls().next().unwrap();
        assert_eq!((file.slice(op.span), file.slice(call.whole)), ("lock", "lock(k)"), "{prefix:?}");
    }
}

#[test]
fn one_unknown_construct_costs_one_item() {
    let text = "//! docs\nuse redis::cmd;\nconst A: T = T { a: 1 };\nfn one() { gen { conn.set_nx(k, v) } }\n\
                impl Lock { fn two(&self) { cmd(\"SET\"); } fn three(&self) { gen { x.y() } } }\nfn four() {}";
    let (unit, file) = lower_text(text);
    let names: Vec<_> = unit.functions.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["A", "two", "four"]);
    assert_eq!(unit.problems.len(), 2);
    assert!(unit.problems.iter().all(|p| p.kind == ProblemKind::PartUnread && p.span.is_some()));
    assert_eq!(unit.opaque.len(), 1, "only the first holds a lock word");
    assert_eq!(file.line(unit.opaque[0].start), 4);
}

#[test]
fn text_that_does_not_lex_is_named() {
    let (unit, _) = lower_text("fn f() { conn.set_nx(\"a\"); ");
    assert_eq!(unit.problems[0].kind, ProblemKind::FileUnread);
    assert!(unit.problems[0].message.contains("lock words"), "{}", unit.problems[0].message);
    let (unit, _) = lower_text("fn f() { \"open ");
    assert!(!unit.problems[0].message.contains("lock words"), "{}", unit.problems[0].message);
}

#[test]
fn depth_is_bounded() {
    let nested = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    for (open, close) in [("(", ")"), ("{", "}"), ("[", "]"), ("f(", ")"), ("!", ""), ("&", ""), ("-", ""), ("|| ", "")]
    {
        for n in [200, 5000] {
            lower_text(format!("fn f() {{ let x = {}; }} fn g() {{}}", nested(open, close, n)));
        }
    }
    let (unit, _) = lower_text(format!("fn f() {{ {} }} fn g() {{}}", nested("(", ")", 5000)));
    assert_eq!(unit.functions.len(), 1);
    assert_eq!(unit.problems.len(), 1);
    let (unit, _) = lower_text(format!("fn f(x: {}u8{}) {{}} fn g() {{}}", "Vec<".repeat(300), ">".repeat(300)));
    assert_eq!((unit.functions.len(), unit.problems.len()), (1, 1));
    let (unit, _) = lower_text(format!("fn f() {{ a{}; }}", ".arg(1)".repeat(5000)));
    assert_eq!(unit.functions[0].calls().count(), 5000);
    assert!(unit.problems.is_empty());
    lower_text(format!("fn f() {{ let x = 1{}; }}", " + 1".repeat(5000)));
    lower_text(format!("fn f() {{ if a {{}} {} }}", "else if b {} ".repeat(2000)));
    lower_text(format!("fn f() {{ if a {{}} }} {}", " && b".repeat(3000)));
    lower_text(format!("fn f() {{ if a {} {{}} }}", " && b".repeat(3000)));
    lower_text(format!("fn f() {{ x{}; }}", ".a().b.await?".repeat(1000)));
}
