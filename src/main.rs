//! argv in, exit code out.

fn main() -> std::process::ExitCode {
    leaselint::cli::run(std::env::args_os())
}
