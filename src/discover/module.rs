//! Module paths of files, by cargo's conventions.

use super::package::Package;
use crate::frontend::ModuleContext;
use std::path::Path;

/// Where a file stands. `#[path]` attributes are not known here; the link layer moves such files.
///
/// A library and the `src/main.rs` beside it share one crate name: their modules lie in one folder, and code of the binary
/// refers to the library by that name.
pub(super) fn context(package: Option<&Package>, file: &Path, root: &Path) -> ModuleContext {
    let Some(package) = package else { return without_manifest(file, root) };
    let relative = file.strip_prefix(&package.directory).unwrap_or(file);
    let parts = parts(relative);
    let named = package.roots.iter().find_map(|target| {
        if target.path == file {
            return Some((target.module.clone(), Vec::new(), target.test));
        }
        // Modules of a target lie beside its root; `src` itself belongs to the library.
        let folder =
            target.path.parent().filter(|f| *f != package.directory && **f != package.directory.join("src"))?;
        let below = file.strip_prefix(folder).ok()?;
        Some((target.module.clone(), self::parts(below), target.test))
    });
    if let Some((krate, rest, test)) = named {
        return finish(krate, &rest, test);
    }
    let krate = &package.krate;
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["src", "bin", name] => finish(format!("{krate}::bin::{}", stem(name)), &[] as &[&str], false),
        ["src", "bin", name, rest @ ..] => finish(format!("{krate}::bin::{}", ident(name)), rest, false),
        ["src", rest @ ..] => finish(krate.clone(), rest, false),
        [folder @ ("tests" | "benches" | "examples"), name] => {
            finish(format!("{krate}::{folder}::{}", stem(name)), &[] as &[&str], true)
        }
        [folder @ ("tests" | "benches" | "examples"), name, rest @ ..] => {
            finish(format!("{krate}::{folder}::{}", ident(name)), rest, true)
        }
        [] => ModuleContext::default(),
        ["build.rs"] => finish(format!("{krate}::build"), &[] as &[&str], false),
        rest => finish(krate.clone(), rest, false),
    }
}

/// Without a manifest, everything below a `src` folder, or below the root, is one crate called `crate`.
fn without_manifest(file: &Path, root: &Path) -> ModuleContext {
    let parts = parts(file.strip_prefix(root).unwrap_or(file));
    let source = parts.iter().position(|p| p == "src");
    let test = parts.iter().any(|p| matches!(p.as_str(), "tests" | "benches" | "examples"));
    match source {
        Some(at) => {
            let krate = at.checked_sub(1).map_or_else(|| "crate".to_owned(), |i| ident(&parts[i]));
            finish(krate, &parts[at + 1..], test)
        }
        None => finish("crate".to_owned(), &parts, test),
    }
}

fn finish<S: AsRef<str>>(krate: String, rest: &[S], test: bool) -> ModuleContext {
    let mut module = krate.clone();
    let mut by_name = false;
    for (i, part) in rest.iter().enumerate() {
        let last = i + 1 == rest.len();
        let name = if last { stem(part.as_ref()) } else { ident(part.as_ref()) };
        if last && (name == "mod" || (i == 0 && matches!(name.as_str(), "lib" | "main"))) {
            break;
        }
        // `#[cfg(test)] mod tests;` stands in the parent file; the name is all that shows here.
        by_name |= matches!(name.as_str(), "tests" | "test" | "benches")
            || name.ends_with("_tests")
            || name.ends_with("_test");
        module.push_str("::");
        module.push_str(&name);
    }
    ModuleContext { krate, module, test: test || by_name }
}

fn parts(path: &Path) -> Vec<String> {
    path.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect()
}

fn stem(name: &str) -> String {
    ident(name.rsplit_once('.').map_or(name, |(stem, _)| stem))
}

fn ident(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::package;
    use super::*;

    #[test]
    fn files_stand_where_cargo_puts_them() {
        let manifest = "[package]\nname = \"my-svc\"\n[[bin]]\nname = \"tool\"\npath = \"tools/tool/main.rs\"\n";
        let packages = package::of_texts(&[("p/Cargo.toml", manifest)]);
        let at = |path: &str| {
            let context = context(packages.first(), Path::new(path), Path::new(""));
            (context.module, context.test)
        };
        for (path, module, test) in [
            ("p/src/lib.rs", "my_svc", false),
            ("p/src/main.rs", "my_svc", false),
            ("p/src/a/b.rs", "my_svc::a::b", false),
            ("p/src/a/mod.rs", "my_svc::a", false),
            ("p/src/a/tests.rs", "my_svc::a::tests", true),
            ("p/src/bin/job.rs", "my_svc::bin::job", false),
            ("p/src/bin/job/x.rs", "my_svc::bin::job::x", false),
            ("p/src/bin/job/main.rs", "my_svc::bin::job", false),
            ("p/tests/it.rs", "my_svc::tests::it", true),
            ("p/tests/it/main.rs", "my_svc::tests::it", true),
            ("p/build.rs", "my_svc::build", false),
            ("p/tools/tool/main.rs", "my_svc::bin::tool", false),
            ("p/tools/tool/x.rs", "my_svc::bin::tool::x", false),
        ] {
            assert_eq!(at(path), (module.to_owned(), test), "{path}");
        }
        let loose = context(None, Path::new("x/src/a.rs"), Path::new(""));
        assert_eq!((loose.krate.as_str(), loose.module.as_str()), ("x", "x::a"));
        let loose = context(None, Path::new("locks.rs"), Path::new(""));
        assert_eq!((loose.krate.as_str(), loose.module.as_str()), ("crate", "crate::locks"));
    }
}
