//! Signs of life on long runs, on a terminal only.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Runs shorter than this show nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two signs.
const TICK: Duration = Duration::from_millis(250);

/// Shows what the run is at until it is dropped.
#[derive(Debug, Default)]
pub struct Progress {
    state: Arc<(Mutex<State>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    phase: &'static str,
    ended: bool,
}

impl Progress {
    /// Begins, if standard error is a terminal that can take a line back. `quiet`: nothing is shown.
    pub fn start(quiet: bool, phase: &'static str) -> Progress {
        let able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        if quiet || !able || !std::io::stderr().is_terminal() {
            return Progress::default();
        }
        let mut progress = Progress::default();
        progress.phase(phase);
        let state = progress.state.clone();
        progress.thread = std::thread::Builder::new().name("progress".to_owned()).spawn(move || show(&state)).ok();
        progress
    }

    /// Says what comes now.
    pub fn phase(&self, phase: &'static str) {
        if let Ok(mut state) = self.state.0.lock() {
            state.phase = phase;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Ok(mut state) = self.state.0.lock() {
            state.ended = true;
        }
        self.state.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn show(shared: &(Mutex<State>, Condvar)) {
    let begin = Instant::now();
    let mut wait = PATIENCE;
    let mut shown = false;
    let Ok(mut state) = shared.0.lock() else { return };
    while !state.ended {
        let Ok((next, timeout)) = shared.1.wait_timeout(state, wait) else { return };
        state = next;
        if timeout.timed_out() && !state.ended {
            let _ = write!(std::io::stderr(), "{}", line(state.phase, begin.elapsed()));
            shown = true;
            wait = TICK;
        }
    }
    if shown {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

/// The line, in place of the last one.
fn line(phase: &str, elapsed: Duration) -> String {
    format!("\r\x1b[K{phase}, {} s", elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shown_where_no_terminal_is() {
        // Tests run with standard error captured or not; quiet runs never show anything.
        let progress = Progress::start(true, "reading");
        assert!(progress.thread.is_none());
        progress.phase("analysing");
    }

    #[test]
    fn a_line_takes_the_place_of_the_last() {
        assert_eq!(line("reading", Duration::from_millis(2900)), "\r\x1b[Kreading, 2 s");
    }
}
