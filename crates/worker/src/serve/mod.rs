//! A worker, from the fork to its end.
//!
//! ```text
//! fork ──► start: own arena, own descriptors, lifeline, title
//!          loop:  claim a slot ──► request from its head ──► PHP ──► response complete
//!          end:   drained │ script over
//! ```
//! The modes differ in one call: [`classic`] runs the script of the request from the top, [`resident`] wakes the script that
//! waits in `hearth_handle_request()`.
//!
//! How a worker ends: a drained one lets the worker script finish and shuts the engine down, as a child of php-fpm does (modules
//! may have something to flush; OPcache's shutdown only unmaps this process's view of the shared memory). One whose script has
//! ended leaves at once, since somebody waits for its successor. Neither runs the C library's exit handlers: what libraries
//! registered there while the zygote booted belongs to the zygote.
//!
//! Runs in: worker. Called by `zygote`, in the child.

mod classic;
pub(crate) mod request;
mod resident;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use ipc::control::{Fork, Mode, exit};
use ipc::layout::Layout;
use ipc::logline::Level;
use ipc::worker_side::{Identity, WorkerFds, WorkerSide};

use crate::host::{self, Host};
use crate::leaks::Sampler;
use crate::php::{End, Param, Php};
use crate::process;

/// What a worker starts with.
pub(crate) struct Start {
    /// PHP, as the zygote booted it.
    pub(crate) php: Php<Host>,
    /// How it runs.
    pub(crate) mode: Mode,
    /// Name of the pool.
    pub(crate) pool: String,
    /// Sizes of the shared memory.
    pub(crate) layout: Layout,
    /// One request in so many is looked at for what it leaves behind; 0: none.
    pub(crate) leak_check: u32,
    /// Which worker.
    pub(crate) fork: Fork,
    /// The pool's shared memory.
    pub(crate) shared: Shared,
    /// What came with the fork message.
    pub(crate) own: Own,
}

/// Descriptors of the pool's shared memory.
#[derive(Debug)]
pub(crate) struct Shared {
    /// CTL.
    pub(crate) ctl: OwnedFd,
    /// EST.
    pub(crate) est: OwnedFd,
    /// REQ.
    pub(crate) req: OwnedFd,
    /// One eventfd a reactor.
    pub(crate) reactors: Vec<OwnedFd>,
}

/// Descriptors of one worker.
#[derive(Debug)]
pub(crate) struct Own {
    /// RESP.
    pub(crate) resp: OwnedFd,
    /// ACK.
    pub(crate) ack: OwnedFd,
    /// Socket to the server.
    pub(crate) control: OwnedFd,
    /// Read end of a pipe whose write end the server has.
    pub(crate) lifeline: OwnedFd,
    /// Write end of a pipe to the server: standard output and error.
    pub(crate) output: OwnedFd,
}

impl Own {
    /// In the order of [`ipc::control::ToZygote::Fork`].
    pub(crate) fn from_fds(fds: Vec<OwnedFd>) -> Option<Self> {
        let mut fds = fds.into_iter();
        Some(Self {
            resp: fds.next()?,
            ack: fds.next()?,
            control: fds.next()?,
            lifeline: fds.next()?,
            output: fds.next()?,
        })
    }
}

/// Whether the worker can serve another request.
enum Step {
    Next,
    Ended(End),
}

/// Serves until the server or the script wants an end; the exit code.
pub(crate) fn run(mut start: Start) -> i32 {
    start.php.after_fork();
    let Fork { worker, .. } = start.fork;
    process::set_title(
        &format!("hearth: worker {} {worker}", start.pool),
        &format!("hearth:{}:{worker}", start.pool.get(..6).unwrap_or(&start.pool)),
    );
    match connect(start.layout, start.fork, start.shared, start.own) {
        // The lifeline stays open as long as the worker lives.
        Ok((host, _lifeline)) => {
            let sampler = Sampler::new(start.leak_check, worker);
            work(start.php, start.mode, (host, sampler))
        }
        Err(error) => {
            host::log(
                None,
                Level::ERROR,
                format!("starting the worker: {error}").as_bytes(),
            );
            exit::PROTOCOL
        }
    }
}

fn connect(layout: Layout, fork: Fork, shared: Shared, own: Own) -> io::Result<(Host, OwnedFd)> {
    process::die_with_writer_of(&own.lifeline)?;
    process::replace(&own.output, 1)?;
    process::replace(&own.output, 2)?;
    let (worker, incarnation) = fork.who();
    let side = WorkerSide::open(
        layout,
        Identity { worker, incarnation },
        WorkerFds {
            ctl: shared.ctl.as_fd(),
            est: shared.est.as_fd(),
            req: shared.req.as_fd(),
            resp: own.resp.as_fd(),
            ack: own.ack.as_fd(),
            reactors: shared.reactors,
        },
    )?;
    Ok((Host::new(side, own.control), own.lifeline))
}

fn work(mut php: Php<Host>, mode: Mode, (mut host, mut sampler): (Host, Sampler)) -> i32 {
    // Both are used for every request and keep their memory.
    let mut head = Vec::with_capacity(16 * 1024);
    let mut params = Vec::with_capacity(128);
    while host.begin(&mut head) {
        let mut variables: Vec<Param<'_>> = params;
        let request = request::read(&head, &mut variables);
        let step = match mode {
            Mode::Classic => classic::serve(&mut php, &mut host, &request),
            Mode::Resident => resident::serve(&mut php, &mut host, (&request, sampler.next())),
        };
        params = request::recycle(variables);
        if let Step::Ended(end) = step {
            host.say(
                Level::INFO,
                &format!("{}; a fresh worker takes over", describe(end)),
            );
            host.end();
            return exit::SCRIPT_ENDED;
        }
        host.end();
    }
    if mode == Mode::Resident {
        resident::drain(&mut php);
    }
    php.stop();
    exit::DRAINED
}

/// For the log.
pub(crate) const fn describe(end: End) -> &'static str {
    match end {
        End::None => "the worker script has not ended",
        End::Returned => "the worker script ran to its end",
        End::Exit => "the worker script called exit()",
        End::Exception => "an uncaught exception ended the worker script",
        End::Fatal => "a fatal error ended the worker script",
    }
}
