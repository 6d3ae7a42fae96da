//! `hearth-worker`: the zygote, and the workers forked from it.
//!
//! Runs in: zygote | worker.

mod php;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(command) if command == "run" => run::main(arguments),
        _ => {
            eprintln!("usage: hearth-worker run [OPTION]… SCRIPT");
            ExitCode::from(2)
        }
    }
}
