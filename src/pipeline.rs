//! From a workspace to findings: lowering, linking, models, analysis, rules.

mod parts;
mod wanted;

use crate::analysis::Analyzer;
use crate::analysis::lock::Locks;
use crate::discover::Workspace;
use crate::finding::{Confidence, Finding};
use crate::fix;
use crate::frontend::sql::{Dialect, schema::SchemaFacts};
use crate::frontend::{self, pooler, pooler::PoolerFacts};
use crate::ir::Unit;
use crate::link::Program;
use crate::model::{self, Models};
use crate::rule::Context;
use crate::source::{FileId, Language, Problem, ProblemKind, SourceFile, Sources, Span};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::BTreeSet;

/// What a run is asked to do, apart from what to read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Also judge tests, benches, examples and `#[cfg(test)]` code.
    pub include_tests: bool,
    /// Ids of the rules to run; `None` runs all.
    pub rules: Option<Vec<&'static str>>,
    /// The built-in models with the user's own; `None`: the built-in ones.
    pub models: Option<Models>,
    /// Which connection strings go through a pooler and which do not.
    pub dsn: DsnHints,
}

/// What the user says about connection strings: names of environment variables, config keys or host names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DsnHints {
    /// These reach the database directly, whatever poolers are configured.
    pub direct: Vec<String>,
    /// These go through the pooler.
    pub pooled: Vec<String>,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The texts that spans refer to.
    pub sources: Sources,
    /// All findings, of every severity and confidence, sorted by path, place and rule.
    pub findings: Vec<Finding>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// Numbers for the summary.
    pub stats: Stats,
    /// Key templates of all locks that were understood, whether anything was found about them or not.
    pub locks: BTreeSet<String>,
    /// Places that were not judged: tests, without [`Options::include_tests`].
    pub unjudged: Vec<Span>,
}

/// Numbers for the summary line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Files whose text was looked at.
    pub files_read: usize,
    /// Files parsed and lowered.
    pub files_lowered: usize,
    /// Files that could not be read at all.
    pub files_unread: usize,
    /// Items, statements or settings that could not be parsed.
    pub items_unread: usize,
    /// Calls with a lock word or a modelled name that got effects.
    pub understood: usize,
    /// Those that got none, with what is known of them.
    pub not_understood: Vec<(Span, String)>,
    /// Calls that send something made where it cannot be followed, in functions that do not speak of locks.
    pub not_followed: Vec<(Span, String)>,
    /// Rust files that no `mod` declaration reaches.
    pub unreached: Vec<String>,
}

/// Rounds of loading further files: callers of what takes or gives back locks, and what runs under them.
const ROUNDS: usize = 2;

/// Stack of the threads that parse and analyse: nested input is bounded, but parsers recurse.
const STACK: usize = 64 << 20;

/// Runs everything on a workspace. Deterministic: the same workspace gives the same outcome for any number of threads.
pub fn run(mut workspace: Workspace, options: &Options) -> Outcome {
    let mut all = std::mem::take(&mut workspace.parts);
    if all.is_empty() {
        return run_and(workspace, options, |_, _| ()).0;
    }
    all.insert(0, workspace);
    let pool = pool();
    Outcome::joined(parts::each(all, |mut workspace| {
        on(pool.as_ref(), || workspace.settle());
        analyse(workspace, options, pool.as_ref(), |_, _| ()).0
    }))
}

/// [`run`], and what `look` makes of the facts and findings.
pub fn run_and<T: Send + Default>(
    workspace: Workspace,
    options: &Options,
    look: impl FnOnce(&Context<'_>, &[Finding]) -> T + Send,
) -> (Outcome, T) {
    let pool = pool();
    let judged = on_a_deep_stack(|| analyse(workspace, options, pool.as_ref(), look));
    let Some((outcome, seen, program)) = judged else { return Default::default() };
    // Millions of small parts: they are given back while the report is written, or not at all when the process ends first.
    std::thread::spawn(move || drop(program));
    (outcome, seen)
}

/// Lets `look` see the program and its locks: for `ir` and `ir --why`.
pub fn inspect<T: Send>(workspace: Workspace, look: impl FnOnce(&Program, &Locks) -> T + Send) -> Option<T> {
    let pool = pool();
    on_a_deep_stack(|| {
        let options = Options { include_tests: true, ..Options::default() };
        let known = understand(workspace, &options, pool.as_ref());
        let analyzer = Analyzer::new(&known.program, true);
        look(&known.program, &Locks::decide(&analyzer, true))
    })
}

fn on_a_deep_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| match std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run) {
        Ok(handle) => Some(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
        Err(_) => None,
    })
}

/// Threads with stacks as deep, as many as the caller has.
fn pool() -> Option<ThreadPool> {
    ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).stack_size(STACK).build().ok()
}

fn on<T: Send>(pool: Option<&ThreadPool>, run: impl FnOnce() -> T + Send) -> T {
    match pool {
        Some(pool) => pool.install(run),
        None => run(),
    }
}

/// A workspace after lowering, linking and models.
struct Known {
    program: Program,
    poolers: PoolerFacts,
    problems: Vec<Problem>,
    stats: Stats,
    /// Files that no crate root reaches.
    unreached: BTreeSet<FileId>,
    /// Versions of the client crates.
    versions: model::Versions,
}

fn understand(mut workspace: Workspace, options: &Options, pool: Option<&ThreadPool>) -> Known {
    let lower_all = |workspace: &Workspace, files: &[FileId]| -> Vec<Unit> {
        on(pool, || files.par_iter().map(|id| lower(workspace, *id)).collect())
    };
    let mut files: Vec<FileId> = workspace.sources.iter().map(|f| f.id).collect();
    let mut units = lower_all(&workspace, &files);
    let schema = settle_sql(&workspace, &files, &mut units);
    let models = options.models.as_ref().unwrap_or(Models::builtin());
    let mut program = Program::default();
    program.schema = schema;
    let mut round = 0;
    let more = |workspace: &mut Workspace, program: &Program| {
        let names = wanted::names(program);
        on(pool, || workspace.more(&names))
    };
    let understood = loop {
        program.join(workspace.sources.clone(), units);
        let understood =
            model::apply(&mut program, models, &versions(&workspace, &files, models), options.include_tests);
        let more = if round == ROUNDS { Vec::new() } else { more(&mut workspace, &program) };
        if more.is_empty() {
            break understood;
        }
        units = lower_all(&workspace, &more);
        files.extend(more);
        round += 1;
    };
    let configs: Vec<&SourceFile> = workspace.sources.iter().filter(|f| f.language == Language::Config).collect();
    let mut poolers = pooler::read(&configs);
    poolers.declare(&options.dsn.direct, &options.dsn.pooled);
    let mut problems = workspace.problems.clone();
    problems.extend(program.problems.iter().cloned());
    problems.extend(poolers.problems.iter().cloned());
    problems.sort();
    problems.dedup();

    let unread = |kind| problems.iter().filter(|p| p.kind == kind).count();
    let mut not_understood: Vec<(Span, String)> =
        understood.missed.into_iter().map(|m| (m.span, format!("`{}`: {}", m.name, m.why))).collect();
    not_understood.extend(program.opaque.iter().map(|span| (*span, "macro that could not be read".to_string())));
    not_understood.sort();
    let stats = Stats {
        files_read: workspace.files_read,
        files_lowered: files.iter().filter(|id| workspace.sources.get(**id).language != Language::Config).count(),
        files_unread: unread(ProblemKind::FileUnread),
        items_unread: unread(ProblemKind::PartUnread),
        understood: understood.understood,
        not_understood,
        not_followed: understood.open.into_iter().map(|m| (m.span, format!("`{}`: {}", m.name, m.why))).collect(),
        unreached: workspace.unreached.iter().map(|id| workspace.sources.get(*id).path.clone()).collect(),
    };
    let versions = versions(&workspace, &files, models);
    Known { program, poolers, problems, stats, unreached: workspace.unreached, versions }
}

/// What the SQL files say of the schema; of a routine that several of them define, only the live definition stays.
fn settle_sql(workspace: &Workspace, files: &[FileId], units: &mut [Unit]) -> SchemaFacts {
    let mut schema = SchemaFacts::default();
    let mut scripts = Vec::new();
    for (id, unit) in files.iter().zip(units) {
        let file = workspace.sources.get(*id);
        if file.language == Language::Sql {
            schema.join(&frontend::sql::schema::facts(&file.text, Dialect::Unknown));
            scripts.push((file.path.clone(), unit));
        }
    }
    frontend::sql::supersede(&mut scripts);
    schema
}

fn analyse<T>(
    workspace: Workspace,
    options: &Options,
    pool: Option<&ThreadPool>,
    look: impl FnOnce(&Context<'_>, &[Finding]) -> T,
) -> (Outcome, T, Program) {
    let known = understand(workspace, options, pool);
    let (mut findings, locks, seen) = judge(&known, options, look);
    // What no crate root reaches is probably not built: a finding there is less sure.
    for finding in findings.iter_mut().filter(|f| known.unreached.contains(&f.span.file)) {
        finding.confidence = match finding.confidence {
            Confidence::High => Confidence::Medium,
            Confidence::Medium | Confidence::Low => Confidence::Low,
        };
    }
    let Known { mut program, problems, stats, .. } = known;
    let unjudged = if options.include_tests {
        Vec::new()
    } else {
        program.functions.iter().filter(|f| f.test).map(|f| f.whole).collect()
    };
    let outcome = Outcome { findings, problems, stats, locks, unjudged, sources: std::mem::take(&mut program.sources) };
    (outcome, seen, program)
}

/// Explores the program and asks every rule.
fn judge<T>(
    known: &Known,
    options: &Options,
    look: impl FnOnce(&Context<'_>, &[Finding]) -> T,
) -> (Vec<Finding>, BTreeSet<String>, T) {
    let Known { program, poolers, versions, .. } = known;
    let analyzer = Analyzer::new(program, options.include_tests);
    let locks = Locks::decide(&analyzer, options.include_tests);
    let context = Context::new(program, &analyzer, &locks, poolers, options.include_tests);
    let mut findings = Vec::new();
    for rule in crate::rules::all() {
        if options.rules.as_ref().is_none_or(|wanted| wanted.contains(&rule.id)) {
            (rule.check)(&context, &mut findings);
        }
    }
    let path = |f: &Finding| program.sources.get(f.span.file).path.clone();
    findings.sort_by_cached_key(|f| (path(f), f.span, f.rule, f.message.clone()));
    findings.dedup_by(|a, b| a.rule == b.rule && a.span == b.span);
    fix::offer(&context, versions, &mut findings);
    let keys = locks.locks.iter().map(|lock| context.show(lock.taken.function, &lock.taken.key));
    let keys = keys.chain(crate::inventory::keys(&context)).collect();
    let seen = look(&context, &findings);
    (findings, keys, seen)
}

/// Versions and features of the modelled crates: those of the first file whose package depends on them.
fn versions(workspace: &Workspace, files: &[FileId], models: &Models) -> model::Versions {
    let mut versions = model::Versions::new();
    for id in files {
        let Some(package) = workspace.package(*id) else { continue };
        for dependency in package.dependencies.values() {
            let krate = &dependency.package;
            let modelled = models.files.iter().any(|file| file.head.krate == *krate);
            if let (true, Some(version)) = (modelled && !versions.contains_key(krate), &dependency.version) {
                versions.insert(krate.clone(), version.clone());
                let features = dependency.features.iter();
                versions.extend(features.map(|feature| (format!("{krate}/{feature}"), String::new())));
            }
        }
    }
    versions
}

fn lower(workspace: &Workspace, id: FileId) -> Unit {
    let file = workspace.sources.get(id);
    match file.language {
        Language::Rust => frontend::rust::lower(file, &workspace.context(id)),
        Language::Sql => frontend::sql::lower(file),
        Language::Lua => frontend::lua::lower(file, &workspace.context(id)),
        Language::Config => Unit::default(),
    }
}
