//! `ir`: how a file is understood.

use super::{CLEAN, Failure};
use crate::analysis::lock::{self, Locks};
use crate::discover::Workspace;
use crate::ir::{FunctionId, Value, dump};
use crate::link::Program;
use crate::pipeline;
use std::path::Path;

/// Prints the IR of a file with the effects of its calls, or what is known of the locks at a line (`--why FILE:LINE`).
pub fn run(file: &Path, why: Option<&str>) -> Result<u8, Failure> {
    let bytes = std::fs::read(file).map_err(|e| Failure(format!("cannot read `{}`: {e}", file.display())))?;
    let workspace = Workspace::single(&file.to_string_lossy(), &bytes);
    let line = match why {
        None => None,
        Some(text) => {
            let number = text.rsplit(':').next().and_then(|n| n.parse::<usize>().ok());
            Some(number.ok_or_else(|| Failure(format!("`--why {text}` wants FILE:LINE")))?)
        }
    };
    let text = pipeline::inspect(workspace, |program, locks| match line {
        Some(line) => why_text(program, locks, line),
        None => program
            .functions()
            .map(|(id, f)| dump::function(f, program.sources.get(f.file())) + &effects(program, id))
            .collect(),
    });
    super::print(&text.unwrap_or_default())?;
    Ok(CLEAN)
}

/// The effects of a function's calls, one a line.
fn effects(program: &Program, id: FunctionId) -> String {
    let f = program.function(id);
    let mut out = String::new();
    for (_, _, call) in f.calls() {
        let Some(trip) = &call.effect else { continue };
        for effect in &trip.effects {
            let (line, column) = program.sources.get(effect.span.file).line_column(effect.span.start);
            let on = lock::key(effect);
            let on = if *on == Value::Unknown { String::new() } else { format!(" `{}`", lock::show(on)) };
            out.push_str(&format!("  effect {}{on} {}  {line}:{column}\n", effect.command, lock::summary(effect)));
        }
        if let Some(reply) = &trip.reply {
            out.push_str(&format!("    held {:?} lost {:?} failed {:?}\n", reply.held, reply.lost, reply.failed));
        }
    }
    out
}

/// Lock, claim or neither, for every acquisition on a line.
fn why_text(program: &Program, locks: &Locks, line: usize) -> String {
    let mut out = String::new();
    for taken in &locks.locks {
        let site = taken.taken.site();
        let span = program.function(site.function).op(site.at).span;
        if program.sources.get(span.file).line(span.start) != line {
            continue;
        }
        out.push_str(&format!(
            "{}: {} on `{}`: {}: {}\n",
            program.sources.place(span),
            taken.taken.effect.command,
            lock::show(&taken.taken.key),
            taken.decision.name(),
            taken.why
        ));
        for (release, (how, _)) in &taken.releases {
            let used = &locks.releases[*release];
            out.push_str(&format!(
                "  released by {} at {} ({})\n",
                used.effect.command,
                program.sources.place(used.effect.span),
                how.name()
            ));
        }
        for (prolong, how) in &taken.prolongs {
            let used = &locks.prolongs[*prolong];
            out.push_str(&format!(
                "  prolonged by {} at {} ({})\n",
                used.effect.command,
                program.sources.place(used.effect.span),
                how.name()
            ));
        }
    }
    if out.is_empty() {
        out.push_str("nothing is acquired on this line as far as can be seen\n");
    }
    out
}
