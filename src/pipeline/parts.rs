//! Systems that have nothing to do with one another, judged side by side.

use super::{Outcome, STACK, Stats};
use crate::discover::Workspace;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Judges each workspace on its own, at most as many at a time as there are threads, so that only those are in memory.
/// The outcomes come in the order of the workspaces.
pub(super) fn each(workspaces: Vec<Workspace>, judge: impl Fn(Workspace) -> Outcome + Sync) -> Vec<Outcome> {
    let mut queue: Vec<(usize, Workspace)> = workspaces.into_iter().enumerate().collect();
    // The longest first: one that begins last would be waited for.
    queue.sort_by_key(|(index, workspace)| (std::cmp::Reverse(workspace.size()), *index));
    let queue: Vec<Mutex<Option<(usize, Workspace)>>> =
        queue.into_iter().map(|entry| Mutex::new(Some(entry))).collect();
    let next = AtomicUsize::new(0);
    // Not rayon's: while one of its threads waits for the lowering of a file it would begin another workspace.
    let work = || {
        let mut done = Vec::new();
        while let Some(slot) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
            let taken = slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            done.extend(taken.map(|(index, workspace)| (index, judge(workspace))));
        }
        done
    };
    let threads = rayon::current_num_threads().min(queue.len());
    let mut done: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).ok();
        let handles: Vec<_> = (0..threads).filter_map(start).collect();
        let joined = handles.into_iter().map(|h| h.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.flatten().collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

impl Outcome {
    /// All outcomes as one.
    pub(super) fn joined(outcomes: Vec<Outcome>) -> Outcome {
        let mut outcomes = outcomes.into_iter();
        let mut all = outcomes.next().unwrap_or_default();
        for outcome in outcomes {
            all.join(outcome);
        }
        let Outcome { sources, findings, problems, .. } = &mut all;
        // Each is sorted within its files.
        findings.sort_by_cached_key(|finding| sources.get(finding.span.file).path.clone());
        problems.sort();
        problems.dedup();
        all
    }

    fn join(&mut self, other: Outcome) {
        let Outcome { sources, mut findings, mut problems, mut stats, locks, mut unjudged } = other;
        let by = self.sources.append(sources);
        let in_findings = findings.iter_mut().flat_map(|finding| finding.spans_mut());
        let in_problems = problems.iter_mut().filter_map(|problem| problem.span.as_mut());
        let in_stats = stats.not_understood.iter_mut().chain(&mut stats.not_followed).map(|(span, _)| span);
        for span in in_findings.chain(in_problems).chain(in_stats).chain(&mut unjudged) {
            span.file.0 += by;
        }
        self.findings.extend(findings);
        self.problems.extend(problems);
        self.locks.extend(locks);
        self.unjudged.extend(unjudged);
        self.stats.join(stats);
    }
}

impl Stats {
    fn join(&mut self, other: Stats) {
        let Stats {
            files_read,
            files_lowered,
            files_unread,
            items_unread,
            understood,
            not_understood,
            not_followed,
            unreached,
        } = other;
        self.files_read += files_read;
        self.files_lowered += files_lowered;
        self.files_unread += files_unread;
        self.items_unread += items_unread;
        self.understood += understood;
        self.not_understood.extend(not_understood);
        self.not_followed.extend(not_followed);
        self.unreached.extend(unreached);
    }
}
