//! Descriptors that a service manager hands to a process it starts: the protocol of `sd_listen_fds(3)`.
//!
//! It is here because taking a descriptor by its number is unsafe, which the server may not be. Runs in: server.

use std::env;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// The first number.
const FIRST: RawFd = 3;

/// The descriptors that are meant for this process, close-on-exec from now on, each with its name (`FileDescriptorName=` of a unit;
/// empty where there is none). They can be taken once.
pub fn take() -> io::Result<Vec<(OwnedFd, String)>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name| env::var(name).ok()?.parse::<RawFd>().ok();
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    // Relaxed: a flag on its own.
    if number("LISTEN_PID") != Some(pid) || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").unwrap_or(0);
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    (FIRST..FIRST.saturating_add(count))
        .map(|number| Ok((take_one(number)?, names.next().unwrap_or_default().to_owned())))
        .collect()
}

fn take_one(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: used for the two calls below only; if the number is not open, the first of them says so.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(fd)?;
    fcntl_setfd(fd, flags | FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and by LISTEN_PID and LISTEN_FDS whoever started this process has given it to it; `take` asks once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
