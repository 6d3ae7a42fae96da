//! `hearth-worker`: the zygote, and the workers forked from it.
//!
//! Runs in: zygote | worker.

mod arena;
mod body;
mod check;
mod contents;
mod front;
mod host;
mod isolation;
mod leaks;
mod obstacles;
mod php;
mod privileges;
mod process;
mod rewind;
mod run;
mod serve;
mod setup;
mod title;
mod touched;
mod warm;
mod zygote;

use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "\
usage: hearth-worker run [OPTION]… SCRIPT   run a script without a server
       hearth-worker --version
`hearth-worker zygote` is started by `hearth serve`.";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(command) if command == "run" => run::main(arguments),
        Some(command) if command == "zygote" => {
            drop(arguments);
            match zygote::run() {
                Ok(code) => process::quit(code),
                Err(error) => {
                    eprintln!("hearth-worker: {error}");
                    process::quit(1)
                }
            }
        }
        Some(command) if command == "--version" => {
            let version = env!("CARGO_PKG_VERSION");
            // Nobody is told when standard output is closed.
            let _ = writeln!(
                std::io::stdout(),
                "hearth-worker {version} (PHP {})",
                php::version()
            );
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
