//! What zygote and workers ask of libc and the kernel for themselves: settings of the heap, signals, threads, fork.
//!
//! Runs in: zygote | worker. Called by `zygote` and `serve`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{
    DumpableBehavior, Pid, Signal, kill_process, set_dumpable_behavior, set_parent_process_death_signal,
};

use crate::arena;

/// Settings that hold for the zygote and everything forked from it.
pub(crate) fn prepare() -> io::Result<()> {
    // What the server's parent has left open is nobody's business here, and every request would find it.
    close_from(3)?;
    // One heap that grows at its end and never moves: what a request changed can then be found and put back.
    for (name, value) in [
        (libc::M_MMAP_MAX, 0),
        (libc::M_TRIM_THRESHOLD, libc::c_int::MAX),
        (libc::M_ARENA_MAX, 1),
        (libc::M_TOP_PAD, 1 << 20),
    ] {
        // SAFETY: mallopt() only sets a parameter; the process has one thread.
        unsafe { libc::mallopt(name, value) };
    }
    // A huge page would be copied as a whole when a worker writes one byte of it.
    rustix::thread::disable_transparent_huge_pages(true)?;
    ignore(libc::SIGPIPE);
    // Ctrl-C goes to the whole foreground group; what it means is the server's decision.
    ignore(libc::SIGINT);
    Ok(())
}

/// Closes what is open from `first` on: descriptors that nobody in Rust owns.
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    /// An older container engine refuses a call that it does not know. It is not asked again: to be refused writes to `errno`, which
    /// is the request's. Relaxed: one thread.
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);
    if !IS_REFUSED.load(Ordering::Relaxed) {
        // SAFETY: as the caller says, nobody owns one of these.
        if unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS) => IS_REFUSED.store(true, Ordering::Relaxed),
            _ => return Err(io::Error::last_os_error()),
        }
    }
    for fd in open_descriptors()?.into_iter().filter(|fd| *fd >= first) {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// The zygote dies with the server.
pub(crate) fn die_with_parent() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Whether other processes of the user may look into this one and all forked from it, and whether a core file may be written of it.
pub(crate) fn set_dumpable(is_dumpable: bool) -> io::Result<()> {
    let behavior = if is_dumpable {
        DumpableBehavior::Dumpable
    } else {
        DumpableBehavior::NotDumpable
    };
    Ok(set_dumpable_behavior(behavior)?)
}

fn ignore(signal: libc::c_int) {
    // SAFETY: SIG_IGN runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Ends the process at once: no destructors, no exit handlers (those of libraries may belong to the zygote).
pub(crate) fn quit(code: i32) -> ! {
    // SAFETY: _exit() has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Moves the descriptor numbered `number` away, close-on-exec, and opens `/dev/null` in its place.
pub(crate) fn take_descriptor(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: used for the duplication only; if the number is not open, the call below says so.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let own = rustix::io::fcntl_dupfd_cloexec(inherited, 3)?;
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    replace(&null, number)?;
    Ok(own)
}

/// Makes `number` another name of `fd`, kept over exec.
pub(crate) fn replace(fd: &OwnedFd, number: i32) -> io::Result<()> {
    // SAFETY: dup2() on two numbers; the one replaced is a standard stream, owned by nobody in Rust.
    if unsafe { libc::dup2(fd.as_raw_fd(), number) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Ends the process by `signal`, as if it had been caught by it here.
pub(crate) fn die_of(signal: i32) {
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: raise() has no preconditions.
    unsafe { libc::raise(signal) };
}

/// What a fork returns.
pub(crate) enum Forked {
    /// In the parent: the child's process id.
    Parent(rustix::process::Pid),
    /// In the child. Its arena is its own.
    Child,
}

/// Forks. The child has its own copy of the host's memory.
pub(crate) fn fork() -> io::Result<Forked> {
    let memory = arena::Copy::prepare()?;
    // SAFETY: the process has one thread (`other_threads` was asked), so the child may run any code.
    match unsafe { libc::fork() } {
        0 => match memory.install() {
            Ok(()) => Ok(Forked::Child),
            // Nothing can be said here: allocating would write into the zygote's memory.
            Err(_) => quit(ipc::control::exit::PROTOCOL),
        },
        // No process has a number below 1.
        pid => rustix::process::Pid::from_raw(pid.max(0))
            .map(Forked::Parent)
            .ok_or_else(io::Error::last_os_error),
    }
}

/// Names of the threads beside this one. A fork would leave them behind, with whatever locks they hold.
pub(crate) fn other_threads() -> io::Result<Vec<String>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // proc(5): num_threads is field 20.
    if stat_field(&stat, 20) == Some(1) {
        return Ok(Vec::new());
    }
    let me = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut names = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let id = entry?.file_name().to_string_lossy().into_owned();
        if id != me {
            // A thread that has just ended has no name any more, and does not count.
            names.extend(std::fs::read_to_string(format!("/proc/self/task/{id}/comm")));
        }
    }
    Ok(names.iter().map(|name| name.trim_end().to_owned()).collect())
}

/// The numbers of this process's open descriptors.
pub(crate) fn open_descriptors() -> io::Result<Vec<RawFd>> {
    let folder = rustix::fs::open(
        c"/proc/self/fd",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let own = folder.as_raw_fd();
    let mut buffer = Vec::with_capacity(4096);
    let mut entries = rustix::fs::RawDir::new(&folder, buffer.spare_capacity_mut());
    let mut open = Vec::new();
    while let Some(entry) = entries.next() {
        let name = entry?
            .file_name()
            .to_str()
            .ok()
            .and_then(|name| name.parse::<RawFd>().ok());
        open.extend(name.filter(|&number| number != own));
    }
    Ok(open)
}

/// Kills `worker`, this process or a child of it that was not waited for, when the last writer of `lifeline` (a pipe) is gone: when
/// the server is, or gives the worker up. The kernel does it, so it works whatever PHP is doing, and if a signal has stopped the
/// worker. Unlike `PR_SET_PDEATHSIG` it is not about the parent, which is the zygote.
pub(crate) fn bind_to_writer_of(lifeline: &OwnedFd, worker: Pid) -> io::Result<()> {
    const F_SETSIG: libc::c_int = 10;
    let fd = lifeline.as_raw_fd();
    for (command, argument) in [
        (libc::F_SETOWN, worker.as_raw_nonzero().get()),
        (F_SETSIG, libc::SIGKILL),
        (libc::F_SETFL, libc::O_RDONLY | libc::O_ASYNC),
    ] {
        // SAFETY: these commands of fcntl() take an int and touch no memory of ours.
        if unsafe { libc::fcntl(fd, command, argument) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // Before O_ASYNC was set nobody would have been told.
    let mut fds = [PollFd::from_borrowed_fd(lifeline.as_fd(), PollFlags::empty())];
    poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )?;
    if fds.iter().any(|fd| fd.revents().contains(PollFlags::HUP)) {
        kill_process(worker, Signal::KILL)?;
    }
    Ok(())
}

/// Field `number` of `/proc/self/stat`, counted from 1 as in proc(5). Not for the first two.
pub(crate) fn stat_field(stat: &str, number: usize) -> Option<usize> {
    // The name, field 2, is in parentheses and may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split_ascii_whitespace().nth(number - 3)?.parse().ok()
}

/// Writes all of `bytes` to standard error, the output pipe to the server. Nobody is told when it is broken.
pub(crate) fn write_stderr(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(std::io::stderr(), bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stat_field;

    #[test]
    fn fields_are_counted_behind_whatever_name_the_process_has() {
        let stat = "7 (a) b ( 1 2) S 1 7 7";
        assert_eq!(stat_field(stat, 4), Some(1));
        assert_eq!(stat_field(stat, 6), Some(7));
        assert_eq!(stat_field(stat, 7), None);
        assert_eq!(stat_field("nonsense", 4), None);
    }
}
