//! Whether [`super::run`] would come to serve here: everything that would keep it from that, in the words in which it says so itself.
//!
//! Leaves nothing behind: no file, no socket, and nothing of the application runs. Called by `cli`, for `hearth check`, and to explain
//! why a server did not start. Runs in: the command.

use std::io;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use super::{descriptors, has_certificates, not_bound};
use crate::admin::client::{self, Message};
use crate::admin::{STATUS, place};
use crate::config::{Config, Listen, Loaded, Mode, Place, Pool, Problem, Protocol};
use crate::dispatch::PoolShared;
use crate::edge::{Listener, tls};
use crate::logs::Logs;
use crate::report::{self, Status};
use crate::supervise::{self, ini};

/// Folders that are looked into for something to serve.
const FOLDERS_LOOKED_INTO: usize = 1000;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// What would keep the server from serving; the lines of the settings' file first.
    pub(crate) problems: Vec<Problem>,
    /// The PHP of each pool, if its worker says it.
    pub(crate) php: Vec<Option<Php>>,
    /// The server of this folder that runs already.
    pub(crate) running: Option<Running>,
}

/// The PHP of a pool.
#[derive(Debug)]
pub(crate) struct Php {
    /// `8.2.36`.
    pub(crate) version: String,
    /// The ini files in force.
    pub(crate) ini: report::Ini,
    /// What they say that no server should be run with, and what to do about it.
    pub(crate) warnings: Vec<String>,
}

/// A server of the folder.
#[derive(Debug)]
pub(crate) struct Running {
    /// Number of its process.
    pub(crate) pid: u32,
    /// Where it listens.
    listen: Vec<String>,
}

impl Running {
    fn listens_on(&self, listen: &Listen) -> bool {
        self.listen.contains(&listen.to_string())
    }
}

/// Looks at everything.
pub(crate) fn run(loaded: &Loaded) -> anyhow::Result<Findings> {
    let config = &loaded.config;
    let mut findings = Findings {
        running: running(config),
        ..Findings::default()
    };
    let mut problems = nothing_to_serve(loaded);
    if let Err(error) = descriptors::keep(&mut config.clone()) {
        problems.push(loaded.problem("pool.web.workers", error.to_string()));
    }
    problems.extend(outside(loaded, findings.running.as_ref()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("building the runtime")?;
    for pool in &config.pools {
        problems.extend(
            pool.unknown_account()
                .map(|why| loaded.problem(key_in(&why), why.clone())),
        );
        let (php, found) = runtime.block_on(php(loaded, pool))?;
        findings.php.push(php);
        problems.extend(found);
    }
    problems.sort();
    problems.dedup();
    findings.problems = problems;
    Ok(findings)
}

/// The classic pools in whose document root there is no file at all. Where files are watched, some may come.
pub(crate) fn nothing_to_serve(loaded: &Loaded) -> Vec<Problem> {
    let config = &loaded.config;
    let empty = config.pools.iter().filter(|pool| {
        let has_nothing = pool.mode == Mode::Classic && pool.script.is_none() && pool.rules.is_empty();
        has_nothing && !config.watch && !has_files(&pool.root)
    });
    let said = |pool: &Pool| {
        // The first pool has the document root of the project.
        let key = match &*pool.name {
            "web" => "root".to_owned(),
            name => format!("pool.{name}.root"),
        };
        let text = format!(
            "nothing to serve: there is no file in the document root {}; name the folder of an application, or set `{key}`",
            pool.root.display(),
        );
        loaded.problem(&key, text)
    };
    empty.map(said).collect()
}

/// Whether there is a file in `root` or below that has a URL. A very wide folder is taken for one that has.
fn has_files(root: &Path) -> bool {
    let mut folders = vec![root.to_owned()];
    for _ in 0..FOLDERS_LOOKED_INTO {
        let Some(folder) = folders.pop() else { return false };
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b".") || entry.file_name() == "hearth.toml" {
                continue;
            }
            match entry.path().metadata() {
                Ok(about) if about.is_file() => return true,
                Ok(about) if about.is_dir() && !entry.path().is_symlink() => folders.push(entry.path()),
                _ => {}
            }
        }
    }
    true
}

/// Logs, certificates and sockets.
fn outside(loaded: &Loaded, running: Option<&Running>) -> Vec<Problem> {
    let config = &loaded.config;
    let wrong = Logs::check(&config.log).into_iter();
    let mut problems: Vec<Problem> = wrong
        .map(|(setting, error)| loaded.problem(setting, error.to_string()))
        .collect();
    if let Err(error) = tls::describe(&config.tls).and_then(|_| has_certificates(config, &config.listen)) {
        problems.push(loaded.problem("tls.certificates", format!("{error:#}")));
    }
    for listen in &config.listen {
        if running.is_some_and(|server| server.listens_on(listen)) {
            continue;
        }
        if let Err(error) = Listener::check(listen) {
            problems.push(loaded.problem(key_of(listen), format!("{:#}", not_bound(listen, error))));
        }
    }
    // One that runs has it.
    if let Some(address) = config.admin_listen.filter(|_| running.is_none()) {
        let listen = Listen {
            place: Place::Tcp(address),
            protocol: Protocol::Http,
        };
        if let Err(error) = Listener::check(&listen) {
            problems.push(loaded.problem("admin_listen", format!("{:#}", not_bound(&listen, error))));
        }
    }
    problems
}

/// The setting that names a listening socket; `--listen` counts as `listen`.
fn key_of(listen: &Listen) -> &'static str {
    match listen.protocol {
        Protocol::Http => "listen",
        Protocol::Https => "tls.listen",
        Protocol::FastCgi => "fastcgi.listen",
    }
}

/// The server of this folder, if one answers.
fn running(config: &Config) -> Option<Running> {
    let paths = place::to_ask(&config.names, &config.admin_socket);
    let answer = client::send(&config.dir, &paths, Message::Ask(STATUS)).ok()?;
    let status = Status::deserialize(answer).ok()?;
    Some(Running {
        pid: status.pid,
        listen: status.listen.split(", ").map(str::to_owned).collect(),
    })
}

/// What the pool's own PHP says of itself, and why it could not serve.
async fn php(loaded: &Loaded, pool: &Pool) -> io::Result<(Option<Php>, Vec<Problem>)> {
    let created = PoolShared::create(pool, &loaded.config)?;
    let about_worker = format!("pool.{}.worker_binary", pool.name);
    Ok(
        match supervise::check(pool, (&created.shared, created.eventfds)).await {
            Ok(checked) => {
                let said = checked.problems.into_iter();
                let problems = said.map(|text| {
                    let key = key_in(&text).to_owned();
                    loaded.problem(&key, text)
                });
                let complaints = ini::complaints(&pool.name, &checked.ini).into_iter();
                let php = Php {
                    version: checked.php_version,
                    ini: ini::report(&checked.ini),
                    warnings: complaints.map(|(what, hint)| format!("{what}: {hint}")).collect(),
                };
                (Some(php), problems.collect())
            }
            Err(error) => (None, vec![loaded.problem(&about_worker, error.to_string())]),
        },
    )
}

/// The key with which a text about a setting begins.
fn key_in(text: &str) -> &str {
    text.split([' ', ':']).next().unwrap_or(text)
}
