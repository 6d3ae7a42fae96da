//! `hearth`: the command line of the server.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    hearth::cli::main(hearth::app::run)
}
