//! The command line: flags, help, exit codes, and how errors look.
//!
//! Reads the configuration and hands it on; serves nothing itself. Called by `main` with the function that serves.
//! Runs in: server.
#![expect(
    clippy::doc_markdown,
    reason = "doc comments of flags are the help text, where backticks would show"
)]

mod check;
mod https;
mod image;
mod leaks;
mod logging;
mod reload;
mod serve;
mod status;
mod stop;
mod table;
mod tips;
mod upgrade;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::app::Launch;
use crate::config::{Errors, Problem, Reading, Sources, variables};

/// Serves until it is told to stop: `app::run`.
pub type Run = fn(Launch) -> anyhow::Result<()>;

const EXIT_CODES: &str = "\
Exit status:
  0  serve: stopped as asked; check: fit to serve; reload, rollback, upgrade, stop: done; status, leaks: answered
  1  serve: not started, or failed; check: would not come to serve; reload, rollback, upgrade: nothing has changed;
     stop: not ended in time; all but serve and check: no server answers; leaks: no pool is looked at
  2  wrong usage, or an error in the configuration

Environment:
  HEARTH_…  a setting, stronger than the file and weaker than flags: HEARTH_LISTEN, HEARTH_POOL_WEB_WORKERS
  PORT      port to listen on, at all addresses, unless HEARTH_LISTEN or --listen says where
  RUST_LOG  log filter, for instance \"hearth=debug\"; overrides log.level and log.php_level
  NO_COLOR  if set and not empty, no colours";

const FILES: &str = "\
Files:
  DIR/hearth.toml  settings, read when it is there and --config names no other file;
                   docs/config.toml lists every setting with its default";

/// PHP application server: php-fpm's semantics at worker speed.
#[derive(Debug, Parser)]
#[command(name = "hearth", version, after_help = EXIT_CODES, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a PHP application until SIGTERM or Ctrl-C
    ///
    /// Without settings, Symfony, Laravel, WordPress, a worker.php or plain PHP files are recognised in DIR, and what was
    /// chosen is printed with the reason. The server is ready when it prints "hearth: ready on URL".
    ///
    /// SIGTERM, SIGQUIT or Ctrl-C: running requests finish, for at most stop_timeout. A second one ends them at once. Before that
    /// SIGTERM and SIGQUIT let stop_delay pass, while the readiness probe fails and requests are served on.
    #[command(after_help = EXIT_CODES, after_long_help = format!("{FILES}\n\n{EXIT_CODES}"))]
    Serve(Serving),
    /// Check settings and PHP without serving
    ///
    /// Prints the resolved settings with the reasons for them, and PHP's version. Exit status 1 if hearth serve would not come to
    /// serve here: for a user that does not exist, a log that cannot be written, a port in use by another than the server of this
    /// folder, a setting that PHP does not have, a syntax error in the entry script, a folder with nothing to serve. All is named
    /// at once. Nothing of the application runs, and no file is left behind.
    ///
    /// With --image, also boots the application as hearth serve would, and describes what every request would start from: size of
    /// the image, classes, objects, destructors that run with each request, open files, generators of random numbers,
    /// reads of the request while there is none, and what is wrong with any of it. Exit status 1 if the application does not boot, or
    /// cannot be isolated.
    #[command(after_help = EXIT_CODES, after_long_help = format!("{FILES}\n\n{EXIT_CODES}"))]
    Check(Checking),
    /// Show what a running server is at
    ///
    /// Pools with their generations, isolation and queue; workers with their state, current request, requests served, age and
    /// memory. Asks the server of DIR on its admin socket; only the user that started it, and root, may.
    #[command(after_help = EXIT_CODES)]
    Status(Watching),
    /// List what requests leave behind in workers that are not isolated
    ///
    /// With isolation "none" the server looks at some requests (pool.web.leak_check): globals, statics, properties, settings,
    /// handlers, open files, memory by route, … that are not as they were before. docs/isolation.md says what to do about them.
    #[command(after_help = EXIT_CODES)]
    Leaks(Target),
    /// Have a running server read its settings and code anew
    ///
    /// The application boots beside the one that serves, and answers a health request; then it gets the requests, and the old one
    /// finishes those that it has. If it does not boot, or does not answer, the old one serves on, and the reason is
    /// printed (exit status 1). Where DIR is or contains a link, it is followed anew. SIGHUP does the same, with the outcome in the log.
    #[command(after_help = EXIT_CODES)]
    Reload(Reloading),
    /// Stop a running server
    ///
    /// Running requests finish, as after SIGTERM: stop_delay and stop_timeout hold. Returns when the server has ended.
    #[command(after_help = EXIT_CODES)]
    Stop(Ending),
    /// Have the hearth that is installed by now take the place of a running server
    ///
    /// It is started with the same arguments, gets the sockets, boots the application and answers a health request; then it takes
    /// over, and the old one finishes its requests. If it does not start, the old one serves on, and the reason is printed (exit
    /// status 1). SIGUSR2 does the same, with the outcome in the log.
    #[command(after_help = EXIT_CODES)]
    Upgrade(Target),
    /// Have a running server return to the code and settings before the last reload
    ///
    /// They are kept booted for reload.keep_previous, so this takes a moment. A second rollback returns from the first.
    #[command(after_help = EXIT_CODES)]
    Rollback(Target),
}

/// Flags of `status`.
#[derive(Args, Debug)]
struct Watching {
    #[command(flatten)]
    target: Target,
    /// Show it again each second, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// Flags of `stop`.
#[derive(Args, Debug)]
struct Ending {
    #[command(flatten)]
    target: Target,
    /// End running requests at once
    #[arg(long)]
    now: bool,
}

/// Flags of `reload`.
#[derive(Args, Debug)]
struct Reloading {
    #[command(flatten)]
    target: Target,
    /// Serve this folder from now on, with its hearth.toml if the server was not started with --config
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

/// Flags that say which server is asked, and how the answer is shown.
#[derive(Args, Debug)]
struct Target {
    /// Folder of the application that the server serves
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Configuration file that the server was started with, instead of DIR/hearth.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Setting that the server was started with; may be repeated, and only admin_socket counts
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Admin socket of the server, whatever the settings say
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON, for machines; docs/status.md lists the fields
    #[arg(long)]
    json: bool,
}

/// Flags of `serve`.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
struct Serving {
    #[command(flatten)]
    settings: Settings,
    /// Compare all memory with the image after each request; for tests
    ///
    /// The same as --set pool.web.paranoid=true: with isolation "request", a worker whose memory is not what it was before the
    /// request is replaced, and the log says what differs. Takes milliseconds a request.
    #[arg(long)]
    paranoid: bool,
    /// Reload when a PHP file, a template or a setting of the application changes
    ///
    /// Requests wait for the new code. Code that does not boot is shown as an error page, with file and line, until the next change.
    /// The same as --set watch=true.
    #[arg(long)]
    watch: bool,
    /// For development: --watch, and PHP shows errors in pages (display_errors), with status 500
    #[arg(long)]
    dev: bool,
    /// Serve HTTPS, too, with a certificate for localhost [default: at 127.0.0.1:8443]
    ///
    /// It is signed by an authority of this user's, made when it is needed first; the server says how browsers come to trust it.
    /// Where it listens says tls.listen. Certificates that the settings name go before it.
    #[arg(long)]
    https: bool,
}

impl From<Serving> for Sources {
    fn from(flags: Serving) -> Self {
        let mut sources = Self::from(flags.settings);
        sources.dev = flags.dev;
        if flags.paranoid {
            sources.set.push("pool.web.paranoid=true".to_owned());
        }
        if flags.watch || flags.dev {
            sources.set.push("watch=true".to_owned());
        }
        if flags.dev {
            // What is set by hand goes before it.
            sources.set.insert(0, "pool.web.ini.display_errors=1".to_owned());
        }
        sources
    }
}

/// Flags of `check`.
#[derive(Args, Debug)]
struct Checking {
    #[command(flatten)]
    settings: Settings,
    /// Boot the application, and describe what requests start from
    #[arg(long)]
    image: bool,
}

/// Flags that say where settings come from.
#[derive(Args, Debug)]
struct Settings {
    /// Folder of the application
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Configuration file, instead of DIR/hearth.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Override one setting; may be repeated
    ///
    /// KEY is dotted, as pool.web.workers. VALUE is read as TOML, else taken as a string: --set pool.web.workers=4
    /// --set limits.body_bytes="64 MiB"
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl From<Settings> for Sources {
    fn from(flags: Settings) -> Self {
        Self {
            dir: flags.dir,
            file: flags.config,
            listen: flags.listen,
            https: None,
            environment: variables(),
            set: flags.set,
            dev: false,
            reading: Reading::Disk,
        }
    }
}

/// Why a command ended without success.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The settings are wrong; exit status 2.
    #[error(transparent)]
    Settings(#[from] Errors),
    /// A server would not come to serve here; exit status 1.
    #[error("{}", list(.0))]
    Unfit(Vec<Problem>),
    /// The same, found out after it had failed to; exit status 1.
    #[error("{}\nwhile starting: {error:#}", list(.problems))]
    Explained {
        problems: Vec<Problem>,
        /// What it had failed with.
        error: anyhow::Error,
    },
    /// Starting or serving failed; exit status 1.
    #[error("{0:#}")]
    Run(#[from] anyhow::Error),
}

fn list(problems: &[Problem]) -> String {
    match problems {
        [one] => one.to_string(),
        many => {
            let lines: Vec<String> = many.iter().map(|problem| format!("\n  {problem}")).collect();
            format!("{} things keep hearth from serving{}", many.len(), lines.concat())
        }
    }
}

/// Runs the command that the arguments of the process name.
pub fn main(run: Run) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(mut error) => {
            tips::add(&mut error);
            // Help and version come here too, with code 0. Nothing is left to tell a closed terminal.
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let outcome = match cli.command {
        Command::Serve(flags) => {
            let https = flags.https;
            serve::serve(flags.into(), https, run)
        }
        Command::Check(flags) => check::check(&flags.settings.into(), flags.image),
        Command::Status(flags) => status::status(&flags),
        Command::Leaks(target) => leaks::leaks(&target),
        Command::Reload(flags) => reload::reload(&flags),
        Command::Rollback(target) => reload::rollback(&target),
        Command::Stop(flags) => stop::stop(&flags),
        Command::Upgrade(target) => upgrade::upgrade(&target),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let label = if colours(&std::io::stderr()) {
                "\x1b[1;31merror:\x1b[0m"
            } else {
                "error:"
            };
            // Nothing is left to tell a closed terminal; the exit status says it as well.
            let _ = writeln!(std::io::stderr(), "{label} {failure}");
            match failure {
                Failure::Settings(_) => ExitCode::from(2),
                Failure::Run(_) | Failure::Unfit(_) | Failure::Explained { .. } => ExitCode::FAILURE,
            }
        }
    }
}

/// Whether `stream` may be coloured: a terminal, and NO_COLOR (no-color.org) unset or empty.
fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_become_sources() {
        let cli = Cli::parse_from([
            "hearth",
            "serve",
            "app",
            "--listen",
            "127.0.0.1:0",
            "--set",
            "a=1",
            "--set",
            "b=2",
        ]);
        let Command::Serve(flags) = cli.command else {
            panic!("serve was asked for")
        };
        let sources = Sources::from(flags);
        assert_eq!(sources.dir, PathBuf::from("app"));
        assert_eq!(sources.listen.as_deref(), Some("127.0.0.1:0"));
        assert_eq!(sources.set, ["a=1", "b=2"]);
        assert_eq!(sources.file, None);
    }

    #[test]
    fn paranoid_is_short_for_a_setting() {
        let cli = Cli::parse_from(["hearth", "serve", "--paranoid", "--set", "a=1"]);
        let Command::Serve(flags) = cli.command else {
            panic!("serve was asked for")
        };
        assert_eq!(Sources::from(flags).set, ["a=1", "pool.web.paranoid=true"]);
    }

    #[test]
    fn an_error_of_the_server_is_one_line_with_its_causes() {
        let error = anyhow::anyhow!("address in use").context("binding 127.0.0.1:80");
        assert_eq!(
            Failure::from(error).to_string(),
            "binding 127.0.0.1:80: address in use"
        );
    }
}
