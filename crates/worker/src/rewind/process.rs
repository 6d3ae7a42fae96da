//! What a request can change in its process besides memory and descriptors: mappings, working directory, umask, timers, signals.
//!
//! Calls are watched (`sapi/interpose.c`), so only what was touched costs something.
//!
//! Runs in: worker.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

use super::Stuck;
use super::image::heap_end;
use super::regions::{PAGE, mappings};
use crate::process;
use crate::touched::Touched;

/// Signals are numbered from 1 to here (signal(7)).
const LAST_SIGNAL: libc::c_int = 64;

/// What the process was like before the first request.
pub(super) struct State {
    directory: OwnedFd,
    umask: Mode,
    handlers: Vec<(libc::c_int, libc::sigaction)>,
    mask: libc::sigset_t,
    /// All mappings, and their size together as the kernel counts it (`proc_pid_statm(5)`).
    mapped: Vec<Range<usize>>,
    size: usize,
    statm: OwnedFd,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// Refuses what cannot be undone.
pub(super) fn check(touched: &Touched) -> Result<(), Stuck> {
    if touched.has(Touched::UNREWINDABLE) {
        return Err(Stuck::Request(format!("the request called {}()", touched.call())));
    }
    if touched.has(Touched::THREADS) {
        // One that has ended is no harm: a resolver's, for instance.
        let threads = process::other_threads()?;
        if !threads.is_empty() {
            return Err(Stuck::Request(format!(
                "the request left threads behind ({})",
                threads.join(", ")
            )));
        }
    }
    Ok(())
}

/// Buries children that requests have left and that are over. True: others are not.
pub(super) fn bury_children() -> bool {
    loop {
        match rustix::process::wait(rustix::process::WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            // There is none.
            Err(_) => return false,
        }
    }
}

/// Gives back what the C library's heap has grown by. It never shrinks by itself (see [`crate::process`]).
pub(super) fn set_heap_end(end: usize) -> Result<(), Stuck> {
    let now = heap_end();
    if now == end {
        return Ok(());
    }
    if now < end {
        // What comes in its place would not be the image's.
        return Err(Stuck::Request(
            "the request shrank the C library's heap".to_owned(),
        ));
    }
    // SAFETY: the system call itself: the C library's own word for the end is put back with its memory. Nothing of the host is on
    // that heap.
    let result = unsafe { libc::syscall(libc::SYS_brk, end) };
    if usize::try_from(result).ok() != Some(end) {
        return Err(io::Error::from(io::ErrorKind::OutOfMemory).into());
    }
    Ok(())
}

impl State {
    /// As it is now. Everything that the host maps for itself is mapped.
    pub(super) fn save() -> io::Result<Self> {
        let open =
            |path: &std::ffi::CStr, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        let mut state = Self {
            directory: open(c".", OFlags::PATH | OFlags::DIRECTORY)?,
            umask,
            handlers: (1..=LAST_SIGNAL).filter_map(handler).collect(),
            mask: mask(),
            mapped: Vec::new(),
            size: 0,
            statm: open(c"/proc/self/statm", OFlags::RDONLY)?,
        };
        // Room first, so that reading does not change what is read.
        let text = std::fs::read_to_string("/proc/self/maps")?;
        state.mapped = mappings(&text).map(|mapping| mapping.addresses).collect();
        state.size = state.size_now()?;
        Ok(state)
    }

    /// Unmaps what the request has mapped.
    pub(super) fn unmap(&self, touched: &Touched, look: bool) -> Result<(), Stuck> {
        for mapping in touched.mappings() {
            unmap(&mapping.addresses())?;
        }
        let unsure = touched.has(Touched::MAPPINGS | Touched::THREADS);
        if unsure || (look && self.size_now()? != self.size) {
            self.unmap_strangers()?;
        }
        Ok(())
    }

    /// Unmaps what is in no mapping of the image. What the C library maps for itself (a thread's stack, a locale) is not seen by
    /// watching calls.
    fn unmap_strangers(&self) -> Result<(), Stuck> {
        let text = std::fs::read_to_string("/proc/self/maps")?;
        for mapping in mappings(&text) {
            if mapping.name.starts_with('[') {
                continue;
            }
            let mut at = mapping.addresses.start;
            while at < mapping.addresses.end {
                let known = self.mapped.partition_point(|known| known.end <= at);
                let next = self.mapped.get(known).map_or(usize::MAX, |known| known.start);
                let stranger = at..mapping.addresses.end.min(next.max(at));
                if !stranger.is_empty() {
                    unmap(&stranger)?;
                }
                at = self
                    .mapped
                    .get(known)
                    .map_or(usize::MAX, |known| known.end)
                    .max(stranger.end);
            }
        }
        Ok(())
    }

    /// A signal that the request has sent to itself and blocked must not reach the next one. Ignoring it drops it (sigaction(2)).
    fn forget_pending(&self) -> io::Result<()> {
        let pending = pending();
        for (signal, action) in &self.handlers {
            // SAFETY: reads the set.
            if unsafe { libc::sigismember(&raw const pending, *signal) } == 1 {
                // SAFETY: runs no code of ours.
                unsafe { libc::signal(*signal, libc::SIG_IGN) };
                set_handler(*signal, action)?;
            }
        }
        Ok(())
    }

    /// Pages that are mapped.
    fn size_now(&self) -> io::Result<usize> {
        let mut buffer = [0; 128];
        let count = rustix::io::pread(&self.statm, &mut buffer, 0)?;
        let text = buffer.get(..count).unwrap_or_default();
        let first = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let number = str::from_utf8(first).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Puts back what was touched; with `all`, everything that can be touched unseen.
    pub(super) fn restore(&self, touched: &Touched, all: bool) -> Result<(), Stuck> {
        if all || touched.has(Touched::DIRECTORY) {
            rustix::process::fchdir(&self.directory)?;
        }
        if all || touched.has(Touched::UMASK) {
            rustix::process::umask(self.umask);
        }
        if all || touched.has(Touched::TIMERS) {
            stop_timers()?;
        }
        if touched.has(Touched::SIGNALS) {
            for (signal, action) in &self.handlers {
                set_handler(*signal, action)?;
            }
        }
        if touched.has(Touched::MASK) {
            self.forget_pending()?;
        }
        if all || touched.has(Touched::MASK) {
            set_mask(&self.mask)?;
        }
        Ok(())
    }
}

fn unmap(range: &Range<usize>) -> rustix::io::Result<()> {
    let len = range.len().next_multiple_of(PAGE);
    // SAFETY: a mapping made by the request, which is over; nothing of the host is in it, since everything that the host maps was
    // mapped before the first request.
    unsafe { rustix::mm::munmap(std::ptr::with_exposed_provenance_mut(range.start), len) }
}

fn stop_timers() -> io::Result<()> {
    let never = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
    };
    for which in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
        // SAFETY: reads the structure; null means that nobody asks for the old value.
        succeed(unsafe { libc::setitimer(which, &raw const never, std::ptr::null_mut()) })?;
    }
    Ok(())
}

fn handler(signal: libc::c_int) -> Option<(libc::c_int, libc::sigaction)> {
    let mut action = std::mem::MaybeUninit::uninit();
    // SAFETY: fills the structure and changes nothing. Numbers that the C library keeps for itself are refused.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    let changeable = result == 0 && signal != libc::SIGKILL && signal != libc::SIGSTOP;
    // SAFETY: filled if the result says so.
    changeable.then(|| (signal, unsafe { action.assume_init() }))
}

fn set_handler(signal: libc::c_int, action: &libc::sigaction) -> io::Result<()> {
    // SAFETY: a handler that was set before, by PHP or the host.
    succeed(unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) })
}

fn mask() -> libc::sigset_t {
    // SAFETY: fills the set and changes nothing.
    signals(|set| unsafe { libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), set) })
}

/// Signals that wait because they are blocked.
fn pending() -> libc::sigset_t {
    // SAFETY: fills the set and changes nothing.
    signals(|set| unsafe { libc::sigpending(set) })
}

/// The set that `fill` is given to fill; empty if it does not.
fn signals(fill: impl FnOnce(*mut libc::sigset_t) -> libc::c_int) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: makes an empty set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    fill(set.as_mut_ptr());
    // SAFETY: sigemptyset() has initialised it.
    unsafe { set.assume_init() }
}

fn set_mask(mask: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: a mask that was in force before.
    succeed(unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) })
}

fn succeed(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
