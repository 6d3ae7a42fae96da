//! Descriptors: those of the boot are what they were, all others are closed.
//!
//! Each one of the boot has a second name right above the last of them; PHP can close the first one, but has no word for the second.
//!
//! Runs in: worker.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, SeekFrom, fcntl_getfl, fcntl_setfl, flock};

use crate::process::{close_from, open_descriptors};

/// The descriptors that a worker starts with.
#[derive(Debug)]
pub(crate) struct Descriptors {
    saved: Vec<Saved>,
    /// Files whose position a request may move without telling.
    seekable: Vec<(RawFd, u64)>,
    /// The highest one of the boot that has a second name.
    last_boot: RawFd,
    /// The highest one that is open between two requests.
    last: RawFd,
}

#[derive(Debug)]
struct Saved {
    number: RawFd,
    copy: OwnedFd,
    flags: OFlags,
    close_on_exec: bool,
}

impl Descriptors {
    /// Those that are open now.
    pub(crate) fn save() -> io::Result<Self> {
        fill_holes()?;
        let open = open_descriptors()?;
        let last_boot = open.iter().copied().max().unwrap_or(2);
        let mut all = Self {
            saved: Vec::with_capacity(open.len()),
            seekable: Vec::new(),
            last_boot,
            last: last_boot,
        };
        for number in open {
            // SAFETY: it was listed as open, and only this thread opens and closes.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            if let Some(position) = own_position(fd)? {
                all.seekable.push((number, position));
            }
            let copy = rustix::io::fcntl_dupfd_cloexec(fd, last_boot + 1)?;
            all.last = all.last.max(copy.as_raw_fd());
            all.saved.push(Saved {
                number,
                copy,
                flags: fcntl_getfl(fd)?,
                close_on_exec: is_close_on_exec(fd)?,
            });
        }
        Ok(all)
    }

    /// The highest descriptor that a request finds open, and could close.
    pub(super) fn last_of_boot(&self) -> RawFd {
        self.last_boot
    }

    /// Closes what the request has opened. With `all`, also opens again what it may have closed, gives open files their flags, and
    /// drops locks.
    pub(crate) fn restore(&self, all: bool) -> io::Result<()> {
        if all {
            for saved in &self.saved {
                saved.restore()?;
            }
            self.unlock()?;
        }
        for (number, position) in &self.seekable {
            // SAFETY: open: it is one of the boot.
            let fd = unsafe { BorrowedFd::borrow_raw(*number) };
            rustix::fs::seek(fd, SeekFrom::Start(*position))?;
        }
        close_from(self.last + 1)
    }

    /// Locks by `flock()` belong to the open file, which outlives the request. Those by `fcntl()` are the process's, and were lost
    /// when the first name was replaced (`fcntl_locking(2)`).
    fn unlock(&self) -> io::Result<()> {
        for (number, _) in &self.seekable {
            // SAFETY: open: it is one of the boot.
            let fd = unsafe { BorrowedFd::borrow_raw(*number) };
            flock(fd, FlockOperation::Unlock)?;
        }
        Ok(())
    }

    /// What is open now but should not be, or the other way round; for the self-check.
    pub(super) fn differences(&self) -> io::Result<Vec<RawFd>> {
        let open = open_descriptors()?;
        let lost = self
            .saved
            .iter()
            .map(|saved| saved.number)
            .filter(|number| !open.contains(number));
        let stray = open.iter().copied().filter(|&number| number > self.last);
        Ok(lost.chain(stray).collect())
    }
}

impl Saved {
    fn restore(&self) -> io::Result<()> {
        rename(&self.copy, self.number, self.close_on_exec)?;
        // The flags belong to the open file, which both names share.
        if fcntl_getfl(&self.copy)? != self.flags {
            fcntl_setfl(&self.copy, self.flags)?;
        }
        Ok(())
    }
}

/// Has `number`, a descriptor of the boot, name what `fd` names.
fn rename(fd: &OwnedFd, number: RawFd, close_on_exec: bool) -> io::Result<()> {
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: no Rust object owns what the number names now.
    if unsafe { libc::syscall(libc::SYS_dup3, fd.as_raw_fd(), number, flags) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn is_close_on_exec(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(rustix::io::fcntl_getfd(fd)?.contains(rustix::io::FdFlags::CLOEXEC))
}

/// Names every free number below the last one that is open, so that what a request opens lies above all that is kept.
fn fill_holes() -> io::Result<()> {
    let open = open_descriptors()?;
    let last = open.iter().copied().max().unwrap_or(2);
    for number in (0..last).filter(|number| !open.contains(number)) {
        let filler = rustix::fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        // The lowest free number is taken first.
        debug_assert_eq!(filler.as_raw_fd(), number);
        std::mem::forget(filler);
    }
    Ok(())
}

/// Gives this process a file position of its own where it shares one with its zygote; the position.
fn own_position(fd: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
    let flags = fcntl_getfl(fd)?;
    if !matches!(kind, FileType::RegularFile | FileType::Directory) || flags.contains(OFlags::PATH) {
        return Ok(None);
    }
    // The host's own views of the process have no position that counts.
    if rustix::fs::fstatfs(fd)?.f_type == rustix::fs::PROC_SUPER_MAGIC {
        return Ok(None);
    }
    let Ok(position) = rustix::fs::tell(fd) else {
        return Ok(None);
    };
    if is_lock_of_opcache(fd) {
        return Ok(None);
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    // A file that may not be opened anew (its rights have changed) is shared, as under php-fpm after a fork.
    let kept = flags.difference(OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC | OFlags::NOFOLLOW);
    if let Ok(own) = rustix::fs::open(path, kept | OFlags::CLOEXEC, Mode::empty()) {
        rename(&own, fd.as_raw_fd(), is_close_on_exec(fd)?)?;
        rustix::fs::seek(fd, SeekFrom::Start(position))?;
    }
    Ok(Some(position))
}

/// OPcache's lock, an unlinked file that nobody reads or writes (php-src `ext/opcache/zend_shared_alloc.c`): to put back its position would
/// be a system call for nothing after each request.
fn is_lock_of_opcache(fd: BorrowedFd<'_>) -> bool {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    name.is_ok_and(|name| name.to_string_lossy().contains("/.ZendSem."))
        && rustix::fs::fstat(fd).is_ok_and(|file| file.st_nlink == 0)
}
