//! The command line: arguments in, reports and an exit code out.

mod accept;
mod args;
mod check;
mod edit;
mod explain;
mod ir;
mod locks;
mod only;
mod poolers;
mod progress;
mod select;
mod settings;
mod silence;
mod terminal;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Nothing found.
const CLEAN: u8 = 0;
/// Something found.
const FOUND: u8 = 1;
/// The run did not work.
const FAILED: u8 = 2;

/// Stack of every thread: deep syntax is refused at a depth that this holds, also in debug builds.
const STACK: usize = 64 << 20;

/// Why a run did not work: a message for people, lowercase, no final stop.
#[derive(Debug)]
struct Failure(String);

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure(format!("cannot write the report: {error}"))
    }
}

impl From<crate::discover::Error> for Failure {
    fn from(error: crate::discover::Error) -> Failure {
        Failure(error.to_string())
    }
}

/// Runs the program. `argv` starts with the program's name; as a cargo subcommand `leaselint` follows.
pub fn run(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut argv: Vec<OsString> = argv.into_iter().collect();
    if argv.get(1).is_some_and(|arg| arg == "leaselint") {
        argv.remove(1);
    }
    let cli = match Cli::try_parse_from(argv) {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is no reason to fail over a help text.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { FAILED } else { CLEAN });
        }
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(cli.check.threads.unwrap_or(0)).stack_size(STACK).build();
    let result = match pool {
        Ok(pool) => pool.install(|| dispatch(&cli)),
        Err(error) => Err(Failure(format!("cannot start threads: {error}"))),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(Failure(message)) => {
            let _ = writeln!(io::stderr(), "error: {message}");
            ExitCode::from(FAILED)
        }
    }
}

fn dispatch(cli: &Cli) -> Result<u8, Failure> {
    match &cli.command {
        None if cli.check.completions.is_some() => completions(cli.check.completions),
        None if cli.check.list => explain::list(&cli.check),
        None => check::run(&cli.check),
        Some(Command::Explain { rule }) => explain::explain(rule),
        Some(Command::Init) => settings::init(),
        Some(Command::Poolers(args)) => poolers::run(args),
        Some(Command::Locks(args)) => locks::run(args),
        Some(Command::Schema { of }) => explain::schema(*of),
        Some(Command::Ir { file, why }) => ir::run(file, why.as_deref()),
    }
}

fn completions(shell: Option<Shell>) -> Result<u8, Failure> {
    const NAME: &str = "cargo-leaselint";
    let mut script = Vec::new();
    if let Some(shell) = shell {
        clap_complete::generate(shell, &mut Cli::command().name(NAME).bin_name(NAME), NAME, &mut script);
    }
    let mut script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        // The generator writes the hyphen of the name in two ways, so that no subcommand would be found.
        Some(Shell::Bash) => script = script.replace("cargo__subcmd__leaselint", "cargo__leaselint"),
        Some(Shell::Fish) => script = fish(&script),
        _ => {}
    }
    print(&script)?;
    Ok(CLEAN)
}

/// The script for fish with what the generator leaves out: values of an option that has none yet, rules to explain, and the
/// same for `cargo leaselint`. Bash has no place for the latter; zsh's own script for cargo calls ours.
fn fish(script: &str) -> String {
    let parse = "    argparse -s (__fish_cargo_leaselint_global_optspecs) -- $cmd 2>/dev/null\n";
    let again = format!("{parse}    or begin\n        set -e cmd[-1]\n    {parse}    end\n");
    let rules: Vec<&str> = select::all().map(|rule| rule.id).collect();
    script.replacen(parse, &again, 1)
        + &format!(
            "complete -c cargo-leaselint -n \"__fish_cargo_leaselint_using_subcommand explain\" -f -a \"{}\"\n\
            complete -c cargo -n \"__fish_seen_subcommand_from leaselint\" -f -a \"(complete -C (string replace -r \
            '^\\s*cargo\\s+leaselint' cargo-leaselint -- (commandline -cp)))\"\n",
            rules.join(" ")
        )
}

/// Writes to standard output. A reader that went away is not an error.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    ignore_closed(out.write_all(text.as_bytes()).and_then(|()| out.flush())).map_err(Failure::from)
}

fn ignore_closed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
