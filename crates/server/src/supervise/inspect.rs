//! Boots PHP once, as serving would, with the application or without, asks the zygote what has become of it, and ends it. No worker
//! is forked.
//!
//! Called by `app`, for `hearth check`. Runs in: the command.

use std::os::fd::OwnedFd;
use std::time::Duration;

use ipc::control::{FromZygote, Ini, Report, Undoing};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::ending::Ending;
use super::process::Family;
use super::zygote::{Recipe, Zygote};
use super::{Booted, EVENTS, Event, StartError};
use crate::config;
use crate::dispatch::PoolShared;

/// Time between the end of a zygote and that of its output.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// What was booted.
#[derive(Debug)]
pub(crate) struct Inspection {
    /// `8.2.36`.
    pub(crate) php_version: String,
    /// How long the boot took.
    pub(crate) boot_ms: u64,
    /// How requests would be undone.
    pub(crate) undoing: Option<Undoing>,
    /// What the zygote says.
    pub(crate) report: Report,
    /// The last lines that it logged.
    pub(crate) said: Vec<String>,
}

/// What a check has found.
#[derive(Debug)]
pub(crate) struct Checked {
    /// `8.2.36`.
    pub(crate) php_version: String,
    /// What PHP has read.
    pub(crate) ini: Ini,
    /// Why the pool could not serve. A text about a setting begins with its key.
    pub(crate) problems: Vec<String>,
}

/// Boots the application and describes it. Must be called on a thread that lives until it returns.
pub(crate) async fn inspect(
    settings: &config::Pool,
    (pool, eventfds): (&PoolShared, Vec<OwnedFd>),
    warmup_requests: Vec<Vec<u8>>,
) -> Result<Inspection, StartError> {
    let recipe = Recipe::new(settings, pool.memory(), eventfds, warmup_requests).for_a_look();
    let (inspection, said) = once(&recipe, (settings, pool), inspected).await?;
    Ok(Inspection {
        said: said.lines().map(str::to_owned).collect(),
        ..inspection
    })
}

/// Boots PHP without the application. Must be called on a thread that lives until it returns.
pub(crate) async fn check(
    settings: &config::Pool,
    (pool, eventfds): (&PoolShared, Vec<OwnedFd>),
) -> Result<Checked, StartError> {
    let recipe = Recipe::new(settings, pool.memory(), eventfds, Vec::new()).for_a_check(settings);
    Ok(once(&recipe, (settings, pool), checked).await?.0)
}

/// Starts a zygote, listens to it, and ends it. What `listen` makes of it, and the last lines that it has logged.
async fn once<T>(
    recipe: &Recipe,
    (settings, pool): (&config::Pool, &PoolShared),
    listen: impl AsyncFnOnce(&Zygote, &mut mpsc::Receiver<Event>) -> Option<Result<T, String>>,
) -> Result<(T, String), StartError> {
    let (events, mut inbox) = mpsc::channel(EVENTS);
    let tasks = TaskTracker::new();
    let zygote = recipe
        .start(1, pool.memory(), events, (&tasks, &Family::default()))
        .map_err(|error| StartError::spawn(recipe.binary(), error))?;
    let timeout = settings.boot_timeout;
    let Ok(answer) = tokio::time::timeout(timeout, listen(&zygote, &mut inbox)).await else {
        zygote.process.kill();
        zygote.process.ended().await;
        return Err(StartError::Boot {
            reason: format!("it took longer than boot_timeout ({timeout:?})"),
        });
    };
    zygote.stop();
    zygote.process.ended().await;
    tasks.close();
    let ending = zygote.process.reap().unwrap_or(Ending::Unknown);
    // What it has printed is read to its end.
    let tail = zygote.tail.clone();
    drop((zygote, inbox));
    // Unless a program that the application has started keeps the pipe open.
    let _ = tokio::time::timeout(OUTPUT_GRACE, tasks.wait()).await;
    let said = tail.text();
    match answer {
        Some(Ok(answer)) => Ok((answer, said)),
        Some(Err(reason)) => Err(StartError::Boot { reason }),
        None => Err(StartError::unexplained(ending, &said)),
    }
}

/// What the zygote has found, or why it has not; `None`: it has died.
async fn checked(_: &Zygote, inbox: &mut mpsc::Receiver<Event>) -> Option<Result<Checked, String>> {
    while let Some(Event::Zygote { message, .. }) = inbox.recv().await {
        match message {
            FromZygote::Checked {
                php_version,
                ini,
                problems,
            } => {
                return Some(Ok(Checked {
                    php_version,
                    ini,
                    problems,
                }));
            }
            FromZygote::BootFailed { reason } => return Some(Err(reason)),
            _ => {}
        }
    }
    None
}

/// The zygote's answers, or why it did not boot; `None`: it has died.
async fn inspected(zygote: &Zygote, inbox: &mut mpsc::Receiver<Event>) -> Option<Result<Inspection, String>> {
    let mut ready = None;
    while let Some(event) = inbox.recv().await {
        let Event::Zygote { message, .. } = event else {
            break;
        };
        match message {
            FromZygote::Ready {
                php_version,
                boot_ms,
                undoing,
                ini,
            } => {
                ready = Some(Booted {
                    generation: zygote.generation,
                    php_version,
                    boot_ms,
                    undoing,
                    ini,
                });
                zygote.report();
            }
            FromZygote::Report(report) => {
                let booted = ready?;
                return Some(Ok(Inspection {
                    php_version: booted.php_version,
                    boot_ms: booted.boot_ms,
                    undoing: booted.undoing,
                    report: *report,
                    said: Vec::new(),
                }));
            }
            FromZygote::BootFailed { reason } => return Some(Err(reason)),
            FromZygote::Checked { .. }
            | FromZygote::Forked(_)
            | FromZygote::ForkFailed { .. }
            | FromZygote::Exited { .. } => {}
        }
    }
    None
}
