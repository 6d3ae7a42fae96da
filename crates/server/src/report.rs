//! What the server says of itself: plain data. `hearth status --json` prints it as it is, so names and meanings of fields are stable;
//! new ones may come. `docs/status.md` lists them.
//!
//! Filled by `supervise` and `app`, carried by `admin`, shown by `cli`. Runs in: server.

use std::fmt;
use std::fs::File;
use std::ops::AddAssign;
use std::sync::Arc;

use ipc::control::LeakKind;
use serde::{Deserialize, Serialize};

/// A whole server at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Of `hearth`: `0.1.0`.
    pub(crate) version: String,
    /// Its process id.
    pub(crate) pid: u32,
    /// What it is at.
    pub(crate) state: ServerState,
    /// Since its start.
    pub(crate) uptime_seconds: f64,
    /// The address that is bound, with its real port.
    pub(crate) listen: String,
    /// The project folder.
    pub(crate) dir: String,
    /// Its pools.
    pub(crate) pools: Vec<Pool>,
}

/// The main loop answers: that is all there is to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Health {
    /// Its process id.
    pub(crate) pid: u32,
    /// What it is at.
    pub(crate) state: ServerState,
}

/// Whether requests can be served now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Readiness {
    /// They can.
    pub(crate) ready: bool,
    /// What is in the way.
    pub(crate) reason: Option<String>,
}

/// What a reload has brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reloaded {
    /// Number of the generation that gets the requests from now on.
    pub(crate) generation: u32,
    /// The project folder that it booted.
    pub(crate) dir: String,
    /// `8.2.31`.
    pub(crate) php_version: String,
    /// How long PHP and the application took to boot.
    pub(crate) boot_ms: u64,
    /// From the order to the first request that may go to it.
    pub(crate) seconds: f64,
    /// What could not be done, and how it is done.
    pub(crate) warnings: Vec<String>,
}

/// What is to be served from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReloadOrder {
    /// Another project folder, absolute; else the one that is served, and where a link leads by now.
    pub(crate) to: Option<String>,
}

/// How to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StopOrder {
    /// Running requests are ended; else they finish.
    pub(crate) now: bool,
}

/// A server that has been told to stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stopping {
    /// Its process id.
    pub(crate) pid: u32,
    /// The most that it gives its requests: `stop_delay` and `stop_timeout`.
    pub(crate) seconds: f64,
    /// Where that process has this id; absent where it cannot be told.
    pub(crate) pid_namespace: Option<String>,
}

/// The namespace of this process's id, for whoever asks whether it is the same as its own.
pub(crate) fn pid_namespace() -> Option<String> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    link.into_os_string().into_string().ok()
}

/// What an upgrade has brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Upgraded {
    /// Process id of the server from now on.
    pub(crate) pid: i32,
    /// Process id of the one before, which finishes its requests.
    pub(crate) former_pid: u32,
    /// From the order to then.
    pub(crate) seconds: f64,
}

/// What a server is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServerState {
    /// The application boots; no request is served yet.
    Starting,
    /// It serves.
    Serving,
    /// It was told to end; running requests finish.
    Stopping,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pool {
    /// As in `[pool.web]`.
    pub(crate) name: String,
    /// The project folder that it serves.
    pub(crate) dir: String,
    /// `classic` or `resident`.
    pub(crate) mode: String,
    /// The worker script or front controller.
    pub(crate) script: Option<String>,
    /// As set: `none`, …; absent in classic mode, where each request starts from nothing.
    pub(crate) isolation: Option<String>,
    /// As set: `clean`, `requests`, `none`; absent in classic mode.
    pub(crate) warmup: Option<String>,
    /// The zygotes: the one that forks, last, and those of which only workers are left.
    pub(crate) generations: Vec<Generation>,
    /// By number.
    pub(crate) workers: Vec<Worker>,
    /// Requests that no worker has yet.
    pub(crate) queue: Queue,
    /// Since the start of the server.
    pub(crate) totals: Totals,
    /// Why processes that it should have are missing; absent while all is well.
    pub(crate) trouble: Option<Trouble>,
}

/// Processes do not start, or end again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    /// What went wrong last.
    pub(crate) reason: String,
    /// Boots in a row that have failed.
    pub(crate) failed_boots: u32,
    /// Until the next attempt, while there is none.
    pub(crate) retry_seconds: Option<f64>,
}

/// A zygote and what it booted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Generation {
    /// 1 for the first.
    pub(crate) number: u32,
    /// Where it stands.
    pub(crate) state: GenerationState,
    /// The zygote's process id, while it lives.
    pub(crate) pid: Option<i32>,
    /// `8.2.31`, once it has booted.
    pub(crate) php_version: Option<String>,
    /// From the start of PHP to the first request that the application waits for, once it has booted.
    pub(crate) boot_ms: Option<u64>,
    /// How its workers undo what a request did, once it has booted; absent where nothing is undone.
    pub(crate) isolation: Option<Isolation>,
    /// The ini files that PHP has read, once it has booted.
    pub(crate) ini: Option<Ini>,
}

/// Ini files that PHP has read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ini {
    /// The php.ini.
    pub(crate) loaded: Option<String>,
    /// Those of folders.
    pub(crate) scanned: Vec<String>,
}

impl fmt::Display for Ini {
    /// The files of a folder are counted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.loaded.as_deref().unwrap_or("no php.ini"))?;
        let folder = |file: &String| file.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned();
        for files in self.scanned.chunk_by(|one, next| folder(one) == folder(next)) {
            match files {
                [one] => write!(f, ", {one}")?,
                [first, ..] => write!(f, ", {} ({} files)", folder(first), files.len())?,
                [] => {}
            }
        }
        Ok(())
    }
}

/// Where a generation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GenerationState {
    /// PHP and the application start.
    Booting,
    /// It forks workers, which get the requests.
    Ready,
    /// It gets no requests any more; those it has may end.
    Draining,
    /// It is idle, and kept for `hearth rollback`.
    Kept,
    /// The zygote is dead; workers of it may serve on.
    Gone,
}

/// How a request is undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Isolation {
    /// What is used: `rewind`, `fork`.
    pub(crate) method: String,
    /// Why this one, as a sentence.
    pub(crate) reason: String,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Worker {
    /// Its number in the pool.
    pub(crate) number: u16,
    /// Its process id.
    pub(crate) pid: i32,
    /// The zygote that forked it.
    pub(crate) generation: u32,
    /// What it is at.
    pub(crate) state: WorkerState,
    /// Since its fork.
    pub(crate) age_seconds: f64,
    /// Requests that it has answered, by the server's own count.
    pub(crate) requests: u64,
    /// What it runs.
    pub(crate) request: Option<Request>,
    /// What it has taken to put the worker back, where requests are rewound.
    pub(crate) rewind: Option<Rewind>,
    /// Where the system tells.
    pub(crate) memory: Option<Memory>,
    /// Where that is read.
    #[serde(skip)]
    pub(crate) smaps: Smaps,
}

/// What rewinding has taken of a worker since its fork, by its own word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rewind {
    /// Pages that were copied back.
    pub(crate) copied_pages: u64,
    /// Pages of which the request's copy was dropped.
    pub(crate) dropped_pages: u64,
    /// How often all memory was looked through.
    pub(crate) looks: u64,
    /// Pages that are copied after each request at present.
    pub(crate) hot_pages: u64,
    /// Time in all.
    pub(crate) seconds: f64,
}

/// A worker's `/proc/self/smaps_rollup`, opened by itself: it shows that process for ever.
#[derive(Clone, Debug, Default)]
pub(crate) struct Smaps(pub(crate) Option<Arc<File>>);

impl PartialEq for Smaps {
    /// What is said is the same whatever it was read from.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What a worker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WorkerState {
    /// Forked, not ready yet.
    Starting,
    /// Waits for a request.
    Idle,
    /// Runs one.
    Running,
    /// Was told to end, and does.
    Ending,
    /// Was killed; its end has not been seen yet.
    Killed,
}

/// A request in the hands of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// As in the log.
    pub(crate) id: String,
    /// Since the worker took it.
    pub(crate) seconds: f64,
    /// Absent once the response is complete, while the script goes on.
    pub(crate) method: Option<String>,
    /// As sent by the client, cut to 256 characters; absent as `method` is.
    pub(crate) uri: Option<String>,
}

/// Memory of a process, in bytes (`/proc/PID/smaps_rollup`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// What it alone uses: would be free without it.
    pub(crate) private_bytes: u64,
    /// What others use as well: the image of the zygote, libraries, `OPcache`.
    pub(crate) shared_bytes: u64,
}

/// Requests that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Queue {
    /// How many.
    pub(crate) waiting: usize,
    /// How many may.
    pub(crate) length: usize,
}

/// Sums over all workers that a pool has had. What workers say of themselves is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    /// Requests that workers have answered.
    pub(crate) requests: u64,
    /// Workers forked.
    pub(crate) forked: u64,
    /// Workers that ended otherwise than they should.
    pub(crate) died: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.forked += more.forked;
        self.died += more.died;
    }
}

/// What requests were seen to leave behind: `hearth leaks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leaks {
    /// Its pools.
    pub(crate) pools: Vec<PoolLeaks>,
}

/// What requests of one pool were seen to leave behind, since the server's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PoolLeaks {
    /// As in `[pool.web]`.
    pub(crate) name: String,
    /// One request in so many is looked at; 0: none, as set, or as none can leave anything behind.
    pub(crate) leak_check: u32,
    /// Requests that were looked at.
    pub(crate) sampled: u64,
    /// What was found; what keeps happening first.
    pub(crate) found: Vec<Found>,
    /// Findings that are not in the list, since it is full.
    pub(crate) unlisted: u64,
    /// Memory by route, the largest sum first.
    pub(crate) routes: Vec<RouteMemory>,
}

/// One thing that requests leave behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// What it is.
    pub(crate) kind: LeakKind,
    /// Its name in the application.
    pub(crate) name: String,
    /// `file:line`, the file relative to the project folder where it is below that.
    pub(crate) place: Option<String>,
    /// Types and sizes before and after the request at which it was seen last.
    pub(crate) change: String,
    /// It happened again and again in one worker.
    pub(crate) repeated: bool,
    /// Requests that did it, of those that were looked at.
    pub(crate) times: u64,
    /// The first of them, as in the log.
    pub(crate) first_request: String,
    /// Their routes; the first few.
    pub(crate) routes: Vec<String>,
    /// What can be done about it.
    pub(crate) hint: String,
}

/// Memory that requests of one route leave in use in PHP's heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RouteMemory {
    /// `GET /users/{id}`.
    pub(crate) route: String,
    /// Requests that were looked at.
    pub(crate) sampled: u64,
    /// Those after which more was in use than before.
    pub(crate) grew: u64,
    /// The sum over all.
    pub(crate) kept_bytes: i64,
}
