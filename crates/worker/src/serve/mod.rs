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
mod forked;
pub(crate) mod request;
mod resident;

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ipc::control::{self, Fork, FromWorker, Mode, exit};
use ipc::layout::Layout;
use ipc::logline::Level;
use ipc::worker_side::{Identity, WorkerFds, WorkerSide};
use rustix::fs::{OFlags, open};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::host::{self, Host};
use crate::isolation::Undo;
use crate::leaks::Sampler;
use crate::php::{End, Find, Param, Php, Request};
use crate::rewind::{Descriptors, Rewinder};
use crate::title::Title;
use crate::{privileges, process};

/// What a worker starts with.
pub(crate) struct Start {
    /// PHP, as the zygote booted it.
    pub(crate) php: Php<Host>,
    /// How it runs.
    pub(crate) mode: Mode,
    /// How requests are undone.
    pub(crate) undo: Undo,
    /// Name of the pool.
    pub(crate) pool: String,
    /// Number of the zygote.
    pub(crate) generation: u32,
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

/// Whether the worker can serve another request; why not.
enum Step {
    Next,
    Ended(Level, Cow<'static, str>),
}

/// How requests are served, and undone.
enum Way {
    Classic,
    Resident(Sampler),
    Rewound { rewinder: Box<Rewinder>, paranoid: bool },
    Forked(Descriptors),
}

impl Way {
    fn new(
        (mode, undo, sampler): (Mode, Undo, Sampler),
        php: &mut Php<Host>,
        host: &Host,
    ) -> Result<Self, String> {
        Ok(match (mode, undo) {
            (Mode::Classic, _) => Self::Classic,
            (Mode::Resident, Undo::Nothing) => Self::Resident(sampler),
            (Mode::Resident, Undo::Rewind { image, paranoid }) => Self::Rewound {
                rewinder: Box::new(Rewinder::new(image, php)?),
                paranoid,
            },
            (Mode::Resident, Undo::Fork) => {
                host.share_with_children()
                    .map_err(|error| format!("sharing memory with forks: {error}"))?;
                let descriptors =
                    Descriptors::save().map_err(|error| format!("saving the descriptors: {error}"))?;
                Self::Forked(descriptors)
            }
        })
    }

    fn serve(&mut self, php: &mut Php<Host>, host: &mut Host, request: &Request<'_>) -> Step {
        match self {
            Self::Classic => classic::serve(php, host, request),
            Self::Resident(sampler) => resident::serve(php, host, (request, sampler.next())),
            Self::Rewound { .. } => resident::serve(php, host, (request, Find::Nothing)),
            Self::Forked(_) => forked::serve(php, host, request).unwrap_or_else(|error| {
                Step::Ended(Level::INFO, format!("forking for a request: {error}").into())
            }),
        }
    }

    /// After the request, and after its response.
    fn undo(&mut self, php: &mut Php<Host>, host: &Host) -> Step {
        let (rewinder, paranoid) = match self {
            Self::Classic | Self::Resident(_) => return Step::Next,
            Self::Rewound { rewinder, paranoid } => (rewinder, paranoid),
            // The fork's open files are this process's, too: where it left them, the next one would find them.
            Self::Forked(descriptors) => {
                return descriptors.restore(true).map_or_else(
                    |error| Step::Ended(Level::INFO, format!("restoring the descriptors: {error}").into()),
                    |()| Step::Next,
                );
            }
        };
        if let Err(stuck) = rewinder.rewind(php) {
            return Step::Ended(Level::INFO, stuck.to_string().into());
        }
        host.tell_undone(rewinder.undone());
        if *paranoid {
            match rewinder.differences() {
                Ok(report) if report.is_empty() => {}
                Ok(report) => return Step::Ended(Level::INFO, format!("not rewound: {report}").into()),
                Err(error) => {
                    return Step::Ended(
                        Level::INFO,
                        format!("comparing memory with the image: {error}").into(),
                    );
                }
            }
        }
        Step::Next
    }
}

/// Serves until the server or the script wants an end; the exit code.
pub(crate) fn run(mut start: Start) -> i32 {
    start.php.after_fork();
    let Fork { worker, .. } = start.fork;
    let mut title = Title::new(
        &format!("hearth: worker {} {worker} gen {}", start.pool, start.generation),
        &format!("hearth:{}:{worker}", start.pool.get(..6).unwrap_or(&start.pool)),
    );
    match connect(start.layout, start.fork, start.shared, start.own) {
        // The lifeline stays open as long as the worker lives.
        Ok((host, _lifeline)) => {
            start.php.answer_signals();
            let sampler = Sampler::new(start.leak_check, worker);
            title.idle();
            work(start.php, (start.mode, start.undo, sampler), (host, title))
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
    process::bind_to_writer_of(&own.lifeline, getpid())?;
    introduce(own.control.as_fd())?;
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

/// Tells the server that this process is the worker. PHP has done nothing in it yet.
fn introduce(control: BorrowedFd<'_>) -> io::Result<()> {
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty())?;
    // The server could not open it if it runs as the same user, or has few privileges.
    let smaps = open(
        c"/proc/self/smaps_rollup",
        OFlags::RDONLY | OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    let mut fds = vec![pidfd.as_fd()];
    fds.extend(smaps.as_ref().map(AsFd::as_fd));
    control::send(control, &FromWorker::Ready, &fds)
}

fn work(
    mut php: Php<Host>,
    (mode, undo, sampler): (Mode, Undo, Sampler),
    (mut host, mut title): (Host, Title),
) -> i32 {
    // Both are used for every request and keep their memory.
    let mut head = Vec::with_capacity(16 * 1024);
    let mut params = Vec::with_capacity(128);
    let mut way = match Way::new((mode, undo, sampler), &mut php, &host) {
        Ok(way) => way,
        Err(error) => {
            host.say(Level::ERROR, &format!("starting the worker: {error}"));
            return exit::PROTOCOL;
        }
    };
    // From now on it belongs to requests.
    if let Err(error) = privileges::give_up_shield() {
        host.say(Level::ERROR, &format!("starting the worker: {error}"));
        return exit::PROTOCOL;
    }
    while host.begin(&mut head) {
        let mut variables: Vec<Param<'_>> = params;
        let request = request::read(&head, &mut variables);
        title.running(request.method.as_bytes(), request.uri.as_bytes());
        let step = way.serve(&mut php, &mut host, &request);
        params = request::recycle(variables);
        host.end();
        let step = match step {
            Step::Next => way.undo(&mut php, &host),
            ended @ Step::Ended(..) => ended,
        };
        if let Step::Ended(level, why) = step {
            host.say(level, &format!("{why}; a fresh worker takes over"));
            return exit::SCRIPT_ENDED;
        }
        title.idle();
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
