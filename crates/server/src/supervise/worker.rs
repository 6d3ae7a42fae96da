//! One worker: what it is forked with, and what the server keeps of it. Runs in: server.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ipc::control::{self, FromWorker, ToWorker};
use ipc::scoreboard::{Stage, Undone, WorkerBlock};
use ipc::server_side::WorkerMemory;
use ipc::slot::{Gen, Incarnation, SlotId, WorkerId};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::error;

use super::Event;
use super::ending::Ending;
use super::leaks::Book;
use super::output::{self, Speaker};
use super::policy::Record;
use super::process::Process;
use super::socket::{Received, Socket};
use super::stacks::Stacks;
use super::upkeep::Vitals;
use super::words::Words;
use crate::config;
use crate::dispatch::{PoolShared, RequestId};
use crate::report::Smaps;

/// How long the zygote's report about a dead worker is waited for.
const REPORT_GRACE: Duration = Duration::from_millis(250);
/// The same for one that was told to end: no request waits for it to be settled, and on a busy machine the zygote may take its time.
const REPORT_GRACE_AT_END: Duration = Duration::from_secs(2);

/// Which worker: its number and how often that was forked.
pub(super) type Who = (WorkerId, Incarnation);

/// What the zygote gets for a fork, in the order of `ipc::control`.
#[derive(Debug)]
pub(super) struct ForkFds {
    memory: Arc<WorkerMemory>,
    control: OwnedFd,
    lifeline: OwnedFd,
    output: OwnedFd,
}

impl ForkFds {
    pub(super) fn borrow(&self) -> [BorrowedFd<'_>; 5] {
        [
            self.memory.resp_fd(),
            self.memory.ack_fd(),
            self.control.as_fd(),
            self.lifeline.as_fd(),
            self.output.as_fd(),
        ]
    }
}

/// The server's ends of what a worker is forked with.
#[derive(Debug)]
pub(super) struct Unborn {
    pub(super) incarnation: Incarnation,
    socket: Arc<Socket>,
    output: pipe::Receiver,
    lifeline: OwnedFd,
    /// How it ended, as its zygote says: its first message may still be on its way.
    pub(super) ended: Option<Ending>,
    /// There will be no first message.
    pub(super) is_silent: bool,
}

impl Unborn {
    /// Creates everything a new worker needs.
    pub(super) fn create(incarnation: Incarnation, memory: Arc<WorkerMemory>) -> io::Result<(Self, ForkFds)> {
        let (ours, control) = control::pair()?;
        control::ask_for_sender(ours.as_fd())?;
        let (lifeline_read, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let (output_read, output) = pipe_with(PipeFlags::CLOEXEC)?;
        let unborn = Self {
            incarnation,
            socket: Arc::new(Socket::new(ours)?),
            output: pipe::Receiver::from_owned_fd(output_read)?,
            lifeline,
            ended: None,
            is_silent: false,
        };
        Ok((
            unborn,
            ForkFds {
                memory,
                control,
                lifeline: lifeline_read,
                output,
            },
        ))
    }

    /// Waits for the worker's first message, or the end of its socket, which becomes an event.
    pub(super) fn listen(&self, worker: WorkerId, env: &Surroundings<'_>) {
        let (incarnation, socket) = (self.incarnation, Arc::clone(&self.socket));
        let events = env.events.clone();
        env.tasks.spawn(async move {
            let greeting = Event::WorkerReady {
                worker,
                incarnation,
                heard: socket.receive().await.transpose(),
            };
            // The supervisor is gone only when the server has stopped.
            let _ = events.send(greeting).await;
        });
    }

    /// Ends the worker, if there is one, and reports that none is left. The closed lifeline kills it; the other end of its socket
    /// is held by the order to fork, by the zygote and by the worker alone, and by nobody once all three are gone: a process that
    /// ends gives back its memory before its descriptors (Linux `do_exit`), so from then on it writes to no slot.
    pub(super) fn give_up(self, worker: WorkerId, cause: Cause, env: &Surroundings<'_>) -> Lost {
        let Self {
            incarnation,
            socket,
            lifeline,
            ..
        } = self;
        drop(lifeline);
        let events = env.events.clone();
        env.tasks.spawn(async move {
            socket.closed().await;
            // The supervisor is gone only when the server has stopped.
            let _ = events.send(Event::WorkerGone { worker, incarnation }).await;
        });
        Lost { incarnation, cause }
    }

    /// The worker runs: from now on it is listened to.
    pub(super) fn born(
        self,
        (generation, who): (u32, Who),
        (process, rollup): (Process, Option<File>),
        env: &Surroundings<'_>,
    ) -> Worker {
        let (now, process) = (Instant::now(), Arc::new(process));
        let pool = Arc::clone(env.pool);
        let stacks = Arc::new(Stacks::default());
        env.tasks.spawn(output::pump(
            self.output,
            Speaker::Worker(
                who,
                Arc::clone(&pool),
                (Arc::clone(&stacks), Arc::clone(env.words)),
            ),
        ));
        env.tasks.spawn(answer(
            who,
            self.socket,
            Arc::clone(&process),
            (pool, Arc::clone(env.leaks), env.events.clone()),
        ));
        env.tasks
            .spawn(watch(who, Arc::clone(&process), env.events.clone()));
        Worker {
            generation,
            incarnation: who.1,
            born: now,
            vitals: Vitals::new(env.recycling, now),
            process,
            smaps: Smaps(rollup.map(Arc::new)),
            stacks,
            gone_since: None,
            killed: None,
            _lifeline: self.lifeline,
        }
    }
}

/// A worker that may have been forked, by a zygote that has not said so in a way that can be used. There is no pidfd to wait for.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) incarnation: Incarnation,
    pub(super) cause: Cause,
}

/// Why a worker is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The zygote died before it said whether it had forked.
    ZygoteDied,
    /// What said that it is the worker is another process.
    Untrue,
    /// The server could not look at it, for this reason.
    Unseen(String),
    /// It ended before it could be taken.
    Ended,
    /// It did not say in time that it runs.
    Mute,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZygoteDied => "its zygote died while it was forked",
            Self::Untrue => "another process said that it is the worker",
            Self::Unseen(reason) => reason,
            Self::Ended => "it ended as soon as it was forked",
            Self::Mute => {
                "it was forked and said nothing: a signal has stopped it, or the machine is too busy"
            }
        })
    }
}

/// What a worker's tasks need.
pub(super) struct Surroundings<'a> {
    pub(super) pool: &'a Arc<PoolShared>,
    pub(super) leaks: &'a Arc<Book>,
    pub(super) words: &'a Arc<Words>,
    pub(super) recycling: &'a config::Recycling,
    pub(super) events: &'a mpsc::Sender<Event>,
    pub(super) tasks: &'a TaskTracker,
}

/// One live worker.
#[derive(Debug)]
pub(super) struct Worker {
    /// That of its zygote.
    pub(super) generation: u32,
    pub(super) incarnation: Incarnation,
    /// When its fork was reported.
    pub(super) born: Instant,
    pub(super) process: Arc<Process>,
    /// Where its memory is read.
    pub(super) smaps: Smaps,
    /// Who waits for its word on a request.
    pub(super) stacks: Arc<Stacks>,
    pub(super) vitals: Vitals,
    /// When its pidfd fired.
    pub(super) gone_since: Option<Instant>,
    /// Why the server killed it.
    killed: Option<&'static str>,
    /// The worker ends when this closes: with the server, whatever happens to it.
    _lifeline: OwnedFd,
}

impl Worker {
    /// Kills it. The first reason stays.
    pub(super) fn kill(&mut self, reason: &'static str) {
        self.killed.get_or_insert(reason);
        self.process.kill();
    }

    /// When it is no longer waited for that somebody says how it ended.
    pub(super) fn report_due(&self) -> Option<Instant> {
        let grace = if self.vitals.is_leaving() {
            REPORT_GRACE_AT_END
        } else {
            REPORT_GRACE
        };
        self.gone_since.map(|at| at + grace)
    }

    /// Why the server killed it, if it did.
    pub(super) fn killed(&self) -> Option<&'static str> {
        self.killed
    }
}

/// What is known about a worker's requests, read once. All but the first is the worker's own word, from the scoreboard: it is
/// believed as far as it can be true.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// Those that it has answered.
    pub(super) requests: u64,
    /// What it runs.
    pub(super) running: Option<RequestId>,
    /// When it took that: nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) since: u64,
    /// `None`: what it says makes no sense.
    pub(super) stage: Option<Stage>,
    /// What rewinding has taken.
    pub(super) undone: Undone,
    record: Record,
}

impl Figures {
    pub(super) fn read(pool: &PoolShared, who: Who) -> Self {
        let scoreboard = pool.memory().worker(who.0);
        let said = scoreboard.map(|block| Self::said(block, |id| pool.has_held(who, id)));
        Self {
            requests: pool.answered_by(who),
            ..said.unwrap_or_default()
        }
    }

    /// `held` tells which requests the worker can speak of.
    fn said(block: &WorkerBlock, held: impl Fn(RequestId) -> bool) -> Self {
        // Relaxed throughout: for the log and for back-off; after a death nobody writes any more.
        let request = RequestId(block.request.load(Ordering::Relaxed));
        let stage = Stage::from_number(block.stage.load(Ordering::Relaxed));
        Self {
            requests: 0,
            running: Some(request).filter(|&id| stage == Some(Stage::Running) && held(id)),
            since: block.since.load(Ordering::Relaxed),
            stage,
            undone: block.undone(),
            record: Record {
                claimed: request != RequestId(0),
                finished: block.requests.load(Ordering::Relaxed) > 0,
            },
        }
    }

    pub(super) const fn record(&self) -> Record {
        self.record
    }
}

/// Answers what a worker asks on its socket, until it closes.
async fn answer(
    who: Who,
    socket: Arc<Socket>,
    process: Arc<Process>,
    (pool, leaks, events): (Arc<PoolShared>, Arc<Book>, mpsc::Sender<Event>),
) {
    let kill = |error: &str| {
        error!(
            pool = pool.name(),
            worker = who.0.0,
            error,
            "worker killed: it sent what is not understood"
        );
        process.kill();
    };
    loop {
        let received = socket.receive().await;
        match received.and_then(|received| received.map(Received::bare).transpose()) {
            Ok(Some(FromWorker::BodyFd { slot, generation })) => {
                let file = pool.spooled_body(who, SlotId(slot), Gen::new(generation));
                let fd = file.as_ref().map(|spool| spool.file().as_fd());
                let answer = ToWorker::Body { slot, generation };
                if socket.send(&answer, fd.as_slice()).await.is_err() {
                    return;
                }
            }
            Ok(Some(FromWorker::Leaks(found))) => {
                if pool.has_held(who, RequestId(found.request)) {
                    leaks.note(who, &found);
                }
            }
            // The supervisor is gone only when the server has stopped.
            Ok(Some(FromWorker::ReloadWanted)) => {
                let _ = events.send(Event::ReloadWanted { worker: who.0 }).await;
            }
            Ok(None) => return,
            Ok(Some(FromWorker::Ready)) => return kill("it has said that it is ready before"),
            Err(error) => return kill(&error.to_string()),
        }
    }
}

async fn watch((worker, incarnation): Who, process: Arc<Process>, events: mpsc::Sender<Event>) {
    process.ended().await;
    // The supervisor is gone only when the server has stopped.
    let _ = events.send(Event::WorkerGone { worker, incarnation }).await;
}

#[cfg(test)]
mod tests {
    use ipc::layout::Layout;
    use ipc::server_side::PoolMemory;

    use super::*;

    #[test]
    fn a_scribbled_scoreboard_names_no_request_and_counts_none() {
        let memory = PoolMemory::create(Layout {
            reactors: 1,
            slots_per_reactor: 64,
            request_area: 4096,
        });
        let memory = memory.unwrap();
        let block = memory.worker(WorkerId(0)).unwrap();
        // Relaxed: one thread.
        block.stage.store(Stage::Running as u32, Ordering::Relaxed);
        block.request.store(7, Ordering::Relaxed);
        block.requests.store(u64::MAX, Ordering::Relaxed);
        let figures = Figures::said(block, |id| id == RequestId(8));
        assert_eq!((figures.running, figures.requests), (None, 0));
        block.request.store(8, Ordering::Relaxed);
        block.stage.store(77, Ordering::Relaxed);
        let figures = Figures::said(block, |id| id == RequestId(8));
        assert_eq!((figures.running, figures.stage), (None, None));
        block.stage.store(Stage::Running as u32, Ordering::Relaxed);
        let figures = Figures::said(block, |id| id == RequestId(8));
        assert_eq!(figures.running, Some(RequestId(8)));
    }
}
