//! The configuration of a run: `leaselint.toml`, or a table in `Cargo.toml`.

use super::{Failure, select};
use crate::config::{self, Config};
use crate::discover::{self, Request};
use crate::model::Models;
use std::path::{Path, PathBuf};

/// A configuration and where it was read.
#[derive(Debug, Default)]
pub struct Settings {
    /// What it says.
    pub config: Config,
    /// The file, relative to the root of the run, and its text.
    pub source: Option<(String, String)>,
    /// The root of the run.
    pub root: PathBuf,
    /// The built-in models with the configuration's own.
    pub models: Option<Models>,
}

/// Reads the file named on the command line, or the nearest one between what is checked and the root.
pub fn load(request: &Request, named: Option<&Path>) -> Result<Settings, Failure> {
    let (root, base) =
        if request.stdin.is_some() { (request.cwd.clone(), request.cwd.clone()) } else { discover::places(request)? };
    let found = match named {
        Some(path) => Some(read(&request.cwd.join(path), path).and_then(|text| parse(path, text, &[]))?),
        None => search(&root, &base)?,
    };
    let Some((path, text, Some(config))) = found else {
        return Ok(Settings { root, ..Settings::default() });
    };
    let shown = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
    let models = models(&config, &shown)?;
    Ok(Settings { config, source: Some((shown, text)), root, models })
}

type Found = (PathBuf, String, Option<Config>);

fn search(root: &Path, base: &Path) -> Result<Option<Found>, Failure> {
    const TABLES: [[&str; 3]; 2] = [["workspace", "metadata", "leaselint"], ["package", "metadata", "leaselint"]];
    for directory in base.ancestors().take_while(|dir| dir.starts_with(root)) {
        let path = directory.join(config::FILE);
        if path.is_file() {
            return parse(&path, read(&path, &path)?, &[]).map(Some);
        }
        let manifest = directory.join("Cargo.toml");
        // A manifest that cannot be read is reported by discovery.
        let Ok(text) = std::fs::read_to_string(&manifest) else { continue };
        if !text.contains("leaselint") || text.parse::<toml::Table>().is_err() {
            continue;
        }
        for table in TABLES {
            let found = parse(&manifest, text.clone(), &table)?;
            if found.2.is_some() {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

fn read(path: &Path, shown: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|e| Failure(format!("cannot read `{}`: {}", shown.display(), discover::reason(&e))))
}

fn parse(path: &Path, text: String, table: &[&str]) -> Result<Found, Failure> {
    let rules: Vec<_> = select::all().collect();
    match config::parse(&text, table, &rules) {
        Ok(config) => Ok((path.to_path_buf(), text, config)),
        Err(errors) => {
            let file = crate::source::SourceFile::new(
                crate::source::FileId(0),
                path.file_name().unwrap_or_default().to_string_lossy(),
                crate::source::Language::Config,
                text,
            );
            let lines = errors.iter().map(|error| {
                let (line, column) = file.line_column(u32::try_from(error.span.start).unwrap_or(u32::MAX));
                format!("{}:{line}:{column}: {}", file.path, error.message)
            });
            Err(Failure(lines.collect::<Vec<_>>().join("\nerror: ")))
        }
    }
}

fn models(config: &Config, file: &str) -> Result<Option<Models>, Failure> {
    if config.models.is_empty() {
        return Ok(None);
    }
    let mut models = Models::builtin().clone();
    for (i, table) in config.models.iter().enumerate() {
        models
            .add_table(&format!("{file}: [[model]] {}", i + 1), table.clone())
            .map_err(|errors| Failure(errors.join("\nerror: ")))?;
    }
    Ok(Some(models))
}

/// Writes a new configuration file.
pub fn init() -> Result<u8, Failure> {
    let create = || {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(config::FILE)?;
        std::io::Write::write_all(&mut file, config::TEMPLATE.as_bytes())
    };
    create().map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Failure(format!("`{}` is there already", config::FILE)),
        _ => Failure(format!("cannot write `{}`: {}", config::FILE, discover::reason(&e))),
    })?;
    super::print(&format!("wrote {}\n", config::FILE))?;
    Ok(super::CLEAN)
}
