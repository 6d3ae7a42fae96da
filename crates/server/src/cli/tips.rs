//! Tips for flags that other servers have. Called by `main`. Runs in: the command.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Flags that `hearth` does not have, and what does the same.
const ELSEWHERE: [(&[&str], &str); 7] = [
    (
        &[
            "--port",
            "--host",
            "--bind",
            "--address",
            "--addr",
            "-p",
            "-l",
            "-a",
            "-S",
        ],
        "use '--listen ADDRESS:PORT', for instance '--listen 127.0.0.1:8080'",
    ),
    (
        &["--workers", "--worker", "-w", "-j"],
        "use '--set pool.web.workers=N'",
    ),
    (
        &["--root", "--docroot", "--document-root", "--dir", "-t", "-r"],
        "name the folder without a flag: 'hearth serve DIR'; for its document root use '--set root=FOLDER'",
    ),
    (
        &["--user", "-u"],
        "to run PHP as another user, use '--set pool.web.user=NAME'",
    ),
    (
        &["--group", "-g"],
        "to run PHP with another group, use '--set pool.web.group=NAME'",
    ),
    (&["-c", "--conf", "-f"], "use '--config FILE'"),
    (
        &["-d", "--define", "--ini"],
        "use '--set pool.web.ini.NAME=VALUE'",
    ),
];

/// Adds the tip that fits an unknown flag, in the place of the one that takes it for a value.
pub(super) fn add(error: &mut Error) {
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return;
    };
    let name = flag.split('=').next().unwrap_or(flag);
    let known = ELSEWHERE.iter().find(|(names, _)| names.contains(&name));
    if let Some((_, tip)) = known {
        let tips = vec![StyledStr::from(*tip)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        error.remove(ContextKind::SuggestedArg);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_flag_of_another_server_gets_a_tip() {
        for (flag, tip) in [
            ("--port=80", "--listen ADDRESS:PORT"),
            ("-p", "--listen ADDRESS:PORT"),
            ("--workers", "pool.web.workers=N"),
        ] {
            let mut error = Cli::try_parse_from(["hearth", "serve", flag]).unwrap_err();
            add(&mut error);
            let said = error.to_string();
            assert!(said.contains("tip: ") && said.contains(tip), "{said}");
            assert!(!said.contains("as a value"), "{said}");
        }
    }
}
