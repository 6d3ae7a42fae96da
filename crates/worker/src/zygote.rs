//! The zygote: boots PHP and the application once, then does nothing but fork workers and report their ends.
//!
//! It is started by the server with its control socket as standard input, and has one thread: each fork first counts. In a
//! resident pool the worker script waits in `hearth_handle_request()` on its own stack while the zygote's loop runs here, so
//! that every fork has the booted application below it.
//!
//! It ends when the server says so or goes away. Then it leaves without shutting PHP down: workers go on with what they share
//! with it.
//!
//! Runs in: zygote.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use ipc::control::{
    self, Boot, Fork, FromZygote, Mode, Process, Purpose, Report, Resource, ToZygote, ZYGOTE_SOCKET,
};
use ipc::logline::Level;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open, waitpid};

use crate::check;
use crate::front;
use crate::host::{self, Host};
use crate::isolation::{self, Prepared, Undo};
use crate::obstacles;
use crate::php::{self, Php};
use crate::process::{self, Forked};
use crate::serve::{self, Own, Shared};
use crate::setup;
use crate::title::Title;
use crate::warm::{self, Left, Silence};

/// Why a zygote cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Not started by a server, or the server is gone, or out of something.
    #[error("{0}: {1}")]
    Io(&'static str, #[source] io::Error),
    /// A message that makes no sense here.
    #[error("the server sent {0}")]
    Protocol(&'static str),
}

/// A booted zygote.
struct Zygote {
    socket: OwnedFd,
    boot: Boot,
    shared: Shared,
    php: Php<Host>,
    undo: Undo,
    report: Report,
    children: Vec<Child>,
}

struct Child {
    fork: Fork,
    pid: Pid,
    pidfd: OwnedFd,
}

/// How the loop of the zygote ends.
enum Outcome {
    /// The server wants the zygote to end, or is gone.
    Stop,
    /// This is the child.
    Worker(Box<serve::Start>),
}

/// The whole life of the process, including that of the workers forked from it; the exit code.
pub(crate) fn run() -> Result<i32, Error> {
    process::prepare().map_err(|error| Error::Io("preparing the process", error))?;
    process::die_with_parent().map_err(|error| Error::Io("binding the zygote to the server", error))?;
    let socket = process::take_descriptor(ZYGOTE_SOCKET)
        .map_err(|error| Error::Io("taking the control socket from standard input", error))?;
    let (boot, shared) = receive_boot(socket.as_fd())?;
    let outcome = match start(socket, boot, shared)? {
        Some(zygote) => zygote.run()?,
        None => return Ok(1),
    };
    match outcome {
        Outcome::Stop => Ok(0),
        Outcome::Worker(start) => Ok(serve::run(*start)),
    }
}

fn receive_boot(socket: BorrowedFd<'_>) -> Result<(Boot, Shared), Error> {
    let message =
        control::receive(socket).map_err(|error| Error::Io("waiting for the first message", error))?;
    let Some((ToZygote::Boot(boot), fds)) = message else {
        return Err(Error::Protocol("no boot message"));
    };
    let mut fds = fds.into_iter();
    let (Some(ctl), Some(est), Some(req)) = (fds.next(), fds.next(), fds.next()) else {
        return Err(Error::Protocol("a boot message without shared memory"));
    };
    let reactors: Vec<_> = fds.collect();
    if reactors.len() != boot.layout.reactors || boot.layout.check().is_err() {
        return Err(Error::Protocol("a boot message with impossible sizes"));
    }
    let shared = Shared {
        ctl,
        est,
        req,
        reactors,
    };
    Ok((boot, shared))
}

/// Boots, and tells the server how that went. `None`: it failed.
fn start(socket: OwnedFd, boot: Boot, shared: Shared) -> Result<Option<Zygote>, Error> {
    let begun = Instant::now();
    Title::new(
        &format!("hearth: zygote {} gen {}", boot.pool, boot.generation),
        "hearth:zygote",
    );
    if boot.purpose == Purpose::Check {
        let answer = check::check(&boot);
        control::send(socket.as_fd(), &answer, &[])
            .map_err(|error| Error::Io("reporting the check to the server", error))?;
        return Ok(None);
    }
    let (answer, booted) = match boot_php(&boot) {
        Ok((php, mut prepared)) => (
            FromZygote::Ready {
                php_version: php::version().to_owned(),
                boot_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
                undoing: prepared.undoing.take(),
                ini: php.ini(),
            },
            Some((php, prepared)),
        ),
        Err(reason) => (FromZygote::BootFailed { reason }, None),
    };
    control::send(socket.as_fd(), &answer, &[])
        .map_err(|error| Error::Io("reporting the boot to the server", error))?;
    Ok(booted.map(|(php, prepared)| Zygote {
        socket,
        boot,
        shared,
        php,
        undo: prepared.undo,
        report: prepared.report,
        children: Vec::new(),
    }))
}

fn boot_php(boot: &Boot) -> Result<(Php<Host>, Prepared), String> {
    setup::apply(&boot.process).map_err(|why| format!("pool.{}.{why}", boot.pool))?;
    if let Some(warning) = core_without_dump(&boot.process) {
        host::log(
            None,
            Level::WARNING,
            format!("pool.{}.{warning}", boot.pool).as_bytes(),
        );
    }
    let own = obstacles::descriptors();
    std::env::set_current_dir(&boot.dir).map_err(|error| format!("changing to {}: {error}", boot.dir))?;
    let resident = boot.mode == Mode::Resident;
    if resident {
        // SAFETY: one thread, and nobody holds a pointer into the environment.
        unsafe { std::env::set_var("HEARTH_WORKER", "1") };
    }
    let mut php = start_php(boot, &boot.ini)?;
    let unknown = check::unknown_settings(&php, boot);
    if !unknown.is_empty() {
        return Err(unknown.join("\n"));
    }
    for name in &boot.locked_ini {
        php.lock_setting(&c_string(name)?);
    }
    let mut left = None;
    if resident && boot.stay_in_dir {
        php.stay_in_directory();
    }
    if boot.purpose == Purpose::Inspect {
        php.tell_reads();
    }
    if boot.dev {
        php.errors_are_500();
    }
    if resident {
        let script = boot
            .script
            .as_deref()
            .ok_or("a resident pool needs a worker script")?;
        php.keep_front_controllers(front::sources(Path::new(script)));
        left = warm::start(&mut php, boot, &c_string(script)?).map_err(|what| explain(&what))?;
        if php.is_front_controller() {
            let text = format!("{script} boots once, and waits where it asks HttpFoundation for its request");
            host::log(None, Level::INFO, text.as_bytes());
        }
    }
    let mut php = php.with_exchange();
    let mut prepared = isolation::prepare(&mut php, boot, &own)?;
    if let Some((left, more)) = left.map(Left::report) {
        prepared.report.left_by_warmup = Some(left);
        prepared.report.left_out += u64::from(more);
    }
    Ok((php, prepared))
}

/// Starts the engine with the pool's settings, `ini` those of its ini files' names.
pub(crate) fn start_php(boot: &Boot, ini: &str) -> Result<Php<Silence>, String> {
    let forever = |text: CString| -> &'static CString { Box::leak(Box::new(text)) };
    let ini = forever(c_string(ini)?);
    let ini_path = boot.php_ini.as_deref().map(c_string).transpose()?.map(forever);
    Php::<Silence>::boot(ini, ini_path.map(CString::as_c_str))
        .ok_or_else(|| explain(&format!("PHP does not start{}", tight_limits(&boot.process))))
}

pub(crate) fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} contains a NUL byte"))
}

/// `what` with PHP's own words, if there are any.
fn explain(what: &str) -> String {
    let errors = host::take_boot_errors();
    if errors.is_empty() {
        what.to_owned()
    } else {
        format!("{what}:\n{errors}")
    }
}

/// A setting that another one leaves without effect.
fn core_without_dump(settings: &Process) -> Option<&'static str> {
    let mut limits = settings.rlimits.iter();
    let wants_core = limits.any(|&(resource, limit)| resource == Resource::Core && limit != Some(0));
    (wants_core && !settings.dumpable)
        .then_some("rlimits.core: no core file is written as long as `dumpable` is false")
}

/// Limits of memory that may be why PHP says nothing.
fn tight_limits(settings: &Process) -> String {
    let of_memory = |(resource, limit): &(Resource, Option<u64>)| {
        let is_of_memory = matches!(
            resource,
            Resource::As | Resource::Data | Resource::Memlock | Resource::Stack
        );
        let limit = limit.filter(|_| is_of_memory)?;
        Some(format!(
            "rlimits.{} = {limit}",
            format!("{resource:?}").to_lowercase()
        ))
    };
    let limits: Vec<String> = settings.rlimits.iter().filter_map(of_memory).collect();
    if limits.is_empty() {
        return String::new();
    }
    format!(
        " (is {} too little for it and its OPcache?)",
        limits.join(", or ")
    )
}

impl Zygote {
    fn run(mut self) -> Result<Outcome, Error> {
        loop {
            let (message, ended) = self.wait()?;
            for index in ended.into_iter().rev() {
                let child = self.children.swap_remove(index);
                self.report_end(&child)?;
            }
            if !message {
                continue;
            }
            let received = match control::receive(self.socket.as_fd()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                received => received.map_err(|error| Error::Io("listening to the server", error))?,
            };
            match received {
                None | Some((ToZygote::Stop, _)) => return Ok(Outcome::Stop),
                Some((ToZygote::Report, _)) => {
                    self.tell(&FromZygote::Report(Box::new(self.report.clone())))?;
                }
                Some((ToZygote::Fork(fork), fds)) => {
                    let own =
                        Own::from_fds(fds).ok_or(Error::Protocol("a fork message without descriptors"))?;
                    if self.fork(fork, &own.lifeline)? {
                        return Ok(self.into_worker(fork, own));
                    }
                }
                Some((ToZygote::Boot(_), _)) => return Err(Error::Protocol("a second boot message")),
            }
        }
    }

    /// Waits for the server or a child: whether there is a message, and which children have ended, in order.
    fn wait(&self) -> Result<(bool, Vec<usize>), Error> {
        let mut fds = vec![PollFd::new(&self.socket, PollFlags::IN)];
        fds.extend(
            self.children
                .iter()
                .map(|child| PollFd::new(&child.pidfd, PollFlags::IN)),
        );
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => return Ok((false, Vec::new())),
            result => result.map_err(|error| Error::Io("waiting for the server", error.into()))?,
        };
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let message = ready.next().unwrap_or(false);
        let ended = ready.enumerate().filter(|(_, ready)| *ready);
        Ok((message, ended.map(|(index, _)| index).collect()))
    }

    /// Forks. True: this is the child, which reports itself.
    fn fork(&mut self, fork: Fork, lifeline: &OwnedFd) -> Result<bool, Error> {
        let reason = match process::other_threads() {
            Ok(threads) if threads.is_empty() => match process::fork() {
                Ok(Forked::Child) => return Ok(true),
                Ok(Forked::Parent(pid)) => return self.adopt(fork, pid, lifeline).map(|()| false),
                Err(error) => format!("fork: {error}"),
            },
            Ok(threads) => format!(
                "the application started threads while it booted ({}): a fork would leave them behind, with the locks they hold",
                threads.join(", ")
            ),
            Err(error) => format!("counting the threads: {error}"),
        };
        let failed = FromZygote::ForkFailed {
            worker: fork.worker,
            incarnation: fork.incarnation,
            reason,
        };
        self.tell(&failed).map(|()| false)
    }

    fn adopt(&mut self, fork: Fork, pid: Pid, lifeline: &OwnedFd) -> Result<(), Error> {
        // The child cannot have been reaped before, so the pid is its own. It may have been stopped before it could bind itself.
        process::bind_to_writer_of(lifeline, pid)
            .map_err(|error| Error::Io("binding a worker to the server", error))?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| Error::Io("opening a worker's pidfd", error.into()))?;
        self.children.push(Child { fork, pid, pidfd });
        self.tell(&FromZygote::Forked(fork))
    }

    fn report_end(&self, child: &Child) -> Result<(), Error> {
        let status = waitpid(Some(child.pid), WaitOptions::NOHANG)
            .ok()
            .flatten()
            .map(|(_, status)| status);
        let exited = FromZygote::Exited {
            worker: child.fork.worker,
            incarnation: child.fork.incarnation,
            code: status.and_then(WaitStatus::exit_status),
            signal: status.and_then(WaitStatus::terminating_signal),
        };
        self.tell(&exited)
    }

    fn tell(&self, message: &FromZygote) -> Result<(), Error> {
        control::send(self.socket.as_fd(), message, &[])
            .map_err(|error| Error::Io("talking to the server", error))
    }

    /// In the child: keeps what is a worker's and closes the rest.
    fn into_worker(self, fork: Fork, own: Own) -> Outcome {
        Outcome::Worker(Box::new(serve::Start {
            php: self.php,
            mode: self.boot.mode,
            undo: self.undo,
            pool: self.boot.pool,
            generation: self.boot.generation,
            layout: self.boot.layout,
            leak_check: self.boot.leak_check,
            fork,
            shared: self.shared,
            own,
        }))
    }
}
