//! What is known of the terminal.

use super::args::ColorWhen;
use codespan_reporting::term::termcolor::{Ansi, NoColor, WriteColor};
use std::io::{IsTerminal, Write};

/// Width of text that goes elsewhere than to a terminal: output does not depend on where it was made.
const DEFAULT_WIDTH: usize = 120;

/// Columns of the terminal on standard output.
pub fn width() -> usize {
    if !std::io::stdout().is_terminal() {
        return DEFAULT_WIDTH;
    }
    terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0).clamp(60, 200))
}

/// Whether to colour standard output. The command line wins over `NO_COLOR`, that over `CLICOLOR_FORCE`, that over
/// `CLICOLOR`, that over what the terminal can do.
pub fn colors(when: ColorWhen) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let forced = set("CLICOLOR_FORCE").is_some_and(|v| v != "0");
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto if set("NO_COLOR").is_some() => false,
        ColorWhen::Auto if forced => true,
        ColorWhen::Auto => {
            set("CLICOLOR").is_none_or(|v| v != "0")
                && set("TERM").is_none_or(|v| v != "dumb")
                && std::io::stdout().is_terminal()
        }
    }
}

/// A writer that colours, or does not.
pub fn writer<'a>(out: impl Write + 'a, colors: bool) -> Box<dyn WriteColor + 'a> {
    if colors { Box::new(Ansi::new(out)) } else { Box::new(NoColor::new(out)) }
}
