//! Memfds, their seals, and mappings of the structs in [`crate::layout`].
//!
//! Each memfd is sealed against shrinking and growing before a worker sees it: a worker's `ftruncate` would otherwise let the
//! server die of SIGBUS. What workers may only read is sealed with `F_SEAL_FUTURE_WRITE` after the server mapped it writable.
//! The zygote maps nothing, it only passes descriptors on; a worker keeps its mappings from its own children with
//! [`Bytes::keep_from_children`]. Runs in: server | worker.

use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Whether a mapping may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only; the kernel refuses a writable mapping of a sealed memfd.
    Read,
    /// Both.
    ReadWrite,
}

/// What the receivers of a memfd's descriptor may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Map it writable.
    Writable,
    /// Map it read-only; the creator's mapping stays writable.
    ReadOnly,
}

/// Creates a zeroed memfd of `len` bytes, maps it writable, and seals it for whom it is shared with. Only who has a descriptor of
/// it gets at it: its mode lets nobody open it by `/proc/PID/fd`, where a memfd is open to everybody at first.
pub fn create(name: &str, len: usize, share: Share) -> io::Result<(OwnedFd, Bytes)> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    fchmod(&fd, Mode::empty())?;
    ftruncate(&fd, len as u64)?;
    let map = Bytes::new(fd.as_fd(), len, Access::ReadWrite)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW;
    fcntl_add_seals(
        &fd,
        match share {
            Share::Writable => seals | SealFlags::SEAL,
            Share::ReadOnly => seals | SealFlags::FUTURE_WRITE | SealFlags::SEAL,
        },
    )?;
    Ok((fd, map))
}

/// A shared mapping of raw bytes. Unmapped when dropped.
#[derive(Debug)]
pub struct Bytes {
    start: NonNull<c_void>,
    len: usize,
    access: Access,
}

// SAFETY: the mapping belongs to the process, not to a thread; all access goes through copies of bytes or atomics.
unsafe impl Send for Bytes {}
// SAFETY: as above; `copy_in` and `copy_out` document who may call them when.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Maps the first `len` bytes of `fd`.
    pub fn new(fd: BorrowedFd<'_>, len: usize, access: Access) -> io::Result<Self> {
        let prot = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing of ours.
        let start = unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, fd, 0) }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, access })
    }

    /// Bytes mapped.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// A mapping is never empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Children forked from this process do not get the mapping: they must not outlive the worker with a hand on it.
    pub fn keep_from_children(&self) -> io::Result<()> {
        // SAFETY: the range is exactly our mapping; DONTFORK changes nothing in this process.
        unsafe { madvise(self.start.as_ptr(), self.len, Advice::LinuxDontFork) }?;
        Ok(())
    }

    /// Takes [`Self::keep_from_children`] back.
    pub fn share_with_children(&self) -> io::Result<()> {
        // SAFETY: the range is exactly our mapping; DOFORK changes nothing in this process.
        unsafe { madvise(self.start.as_ptr(), self.len, Advice::LinuxDoFork) }?;
        Ok(())
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// When the range is outside of the mapping, or the mapping is read-only (a bug of the caller).
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) {
        assert!(self.access == Access::ReadWrite, "a write to a read-only mapping");
        self.check(offset, bytes.len());
        // SAFETY: `check` keeps the start inside of the mapping.
        let target = unsafe { self.start.as_ptr().cast::<u8>().add(offset) };
        // SAFETY: the range is inside of a writable mapping (asserted above); the protocol makes this
        // process the only one that touches the range now, and `bytes` is private memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }

    /// Appends `len` bytes from `offset` to `out`. What the other side writes meanwhile may be torn; it is checked as input.
    ///
    /// # Panics
    /// When the range is outside of the mapping (a bug of the caller).
    pub fn copy_out(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
        self.check(offset, len);
        out.reserve(len);
        // SAFETY: `check` keeps the start inside of the mapping.
        let source = unsafe { self.start.as_ptr().cast::<u8>().add(offset) };
        let old = out.len();
        // SAFETY: `reserve` made room for `len` more bytes after `old`.
        let target = unsafe { out.as_mut_ptr().add(old) };
        // SAFETY: source is inside of the mapping, target inside of the reserved room; they cannot overlap.
        unsafe { std::ptr::copy_nonoverlapping(source, target, len) };
        // SAFETY: the `len` bytes after `old` were written just now.
        unsafe { out.set_len(old + len) };
    }

    /// The bytes of a range that only the trusted server writes, and not while the slice lives (a claimed request area).
    ///
    /// # Safety
    /// No process writes the range while the slice lives.
    ///
    /// # Panics
    /// When the range is outside of the mapping (a bug of the caller).
    pub unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        self.check(offset, len);
        // SAFETY: `check` keeps the start inside of the mapping.
        let start = unsafe { self.start.as_ptr().cast::<u8>().add(offset) };
        // SAFETY: inside of the mapping, initialised (memfds are zeroed), and not written meanwhile: the caller's promise.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    fn check(&self, offset: usize, len: usize) {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "{len} bytes at {offset} in a mapping of {}",
            self.len
        );
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and all borrows of it have ended with `self`.
        let _ = unsafe { munmap(self.start.as_ptr(), self.len) };
    }
}

/// A struct that may be mapped from zeroed bytes which another process changes at will.
///
/// # Safety
/// Implementors are `repr(C)`, valid for every bit pattern, and have only atomics as fields.
pub unsafe trait Shared {}

// SAFETY: atomics only, `repr(C)`.
unsafe impl Shared for crate::layout::Ctl {}
// SAFETY: atomics only, `repr(C)`.
unsafe impl Shared for crate::layout::Est {}
// SAFETY: atomics only, `repr(C)`.
unsafe impl Shared for crate::layout::Resp {}
// SAFETY: atomics only, `repr(C)`.
unsafe impl Shared for crate::layout::Ack {}

/// A shared mapping of one `T`.
#[derive(Debug)]
pub struct Map<T: Shared> {
    bytes: Bytes,
    of: PhantomData<T>,
}

impl<T: Shared> Map<T> {
    /// Creates the memfd and maps it writable.
    pub fn create(name: &str, share: Share) -> io::Result<(OwnedFd, Self)> {
        let (fd, bytes) = create(name, size_of::<T>(), share)?;
        Ok((
            fd,
            Self {
                bytes,
                of: PhantomData,
            },
        ))
    }

    /// Maps what the other side created.
    pub fn open(fd: BorrowedFd<'_>, access: Access) -> io::Result<Self> {
        let bytes = Bytes::new(fd, size_of::<T>(), access)?;
        Ok(Self {
            bytes,
            of: PhantomData,
        })
    }

    /// The raw bytes, to copy from and to.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl<T: Shared> std::ops::Deref for Map<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: mappings are page-aligned (all alignments here are ≤ 128), as long as T, zeroed or written as a `Shared`, for
        // which every bit pattern is valid, and every field is an atomic, so other writers are no data race.
        unsafe { self.bytes.start.cast::<T>().as_ref() }
    }
}
