//! The kernel's side of a rewind: which pages of this process were written to.
//!
//! `userfaultfd(2)` in its asynchronous write-protect mode (Linux 6.7 and later; no privilege) marks pages; the first write to a
//! marked page is a fault that the kernel resolves by itself, so neither PHP nor a system call notices. `PAGEMAP_SCAN` on
//! `/proc/self/pagemap` lists the pages that have lost their mark. The numbers are those of `include/uapi/linux/userfaultfd.h` and
//! `include/uapi/linux/fs.h` (6.7); the C library's headers are older.
//!
//! Both descriptors belong to one process's memory, so a worker opens its own.
//!
//! Runs in: zygote (to see whether it works) | worker.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use super::regions::PAGE;
use crate::process;

const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const UFFD_API: u64 = 0xaa;
const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 1 << 1;
const WRITEPROTECT_MODE_WP: u64 = 1 << 0;

const UFFDIO_API: u64 = iowr(0xaa, 0x3f, size_of::<ApiRequest>());
const UFFDIO_REGISTER: u64 = iowr(0xaa, 0x00, size_of::<Register>());
const UFFDIO_WRITEPROTECT: u64 = iowr(0xaa, 0x06, size_of::<WriteProtect>());
const PAGEMAP_SCAN: u64 = iowr(b'f' as u64, 16, size_of::<Scan>());
/// `_IO(0xaa, 0)`.
const USERFAULTFD_IOC_NEW: u64 = 0xaa00;

const PAGE_IS_WPALLOWED: u64 = 1 << 0;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;

/// `_IOWR` of `include/uapi/asm-generic/ioctl.h`.
const fn iowr(kind: u64, number: u64, size: usize) -> u64 {
    3 << 30 | (size as u64) << 16 | kind << 8 | number
}

#[repr(C)]
struct ApiRequest {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct WriteProtect {
    start: u64,
    len: u64,
    mode: u64,
}

#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Consecutive pages that a scan has found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    start: u64,
    end: u64,
    categories: u64,
}

impl Found {
    /// Addresses.
    pub(super) fn addresses(&self) -> Range<usize> {
        address(self.start)..address(self.end)
    }
}

/// What a scan looks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Looking {
    /// Pages that hold something, in memory or in swap.
    Present,
    /// Pages that were written to since they were protected.
    Written,
}

fn address(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The pages of a process, as the kernel knows them.
#[derive(Debug)]
pub(super) struct Pagemap(OwnedFd);

impl Pagemap {
    /// Of this process. The file belongs to root unless the process is dumpable; so that becomes true, for as long as it takes. Only
    /// where the server runs as the same user can a process of that user use the moment (see `privileges`).
    pub(super) fn open() -> io::Result<Self> {
        let open = || {
            rustix::fs::open(
                c"/proc/self/pagemap",
                OFlags::RDONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        let opened = match open() {
            Err(rustix::io::Errno::ACCESS) => {
                process::set_dumpable(true)?;
                let opened = open();
                process::set_dumpable(false)?;
                opened
            }
            opened => opened,
        };
        Ok(Self(opened?))
    }

    /// Fills `found` with what there is in `range`; how many entries, and the address to go on from.
    pub(super) fn scan(
        &self,
        range: &Range<usize>,
        looking: Looking,
        found: &mut [Found],
    ) -> io::Result<(usize, usize)> {
        let (mask, anyof, wanted) = match looking {
            Looking::Present => (0, PAGE_IS_PRESENT | PAGE_IS_SWAPPED, PAGE_IS_PRESENT),
            Looking::Written => (PAGE_IS_WPALLOWED | PAGE_IS_WRITTEN, 0, PAGE_IS_WRITTEN),
        };
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: 0,
            start: range.start as u64,
            end: range.end as u64,
            walk_end: 0,
            vec: found.as_mut_ptr().expose_provenance() as u64,
            vec_len: found.len() as u64,
            max_pages: 0,
            category_inverted: 0,
            category_mask: mask,
            category_anyof_mask: anyof,
            return_mask: wanted,
        };
        let count = ioctl(&self.0, PAGEMAP_SCAN, &mut scan)?;
        Ok((count, address(scan.walk_end)))
    }

    /// Calls `each` with every page in `range` that is in memory, or in swap and not marked as unwritten: its address, and whether it
    /// is still that of the file behind the mapping (`proc_pid_pagemap(5)`: bits 63, 62, 57 and 61). What is marked and not in
    /// memory is what it was, or was never there.
    pub(super) fn each_present(
        &self,
        range: &Range<usize>,
        mut each: impl FnMut(usize, bool),
    ) -> io::Result<()> {
        const ENTRY: usize = 8;
        let mut buffer = [0_u8; 512 * ENTRY];
        let mut at = range.start;
        while at < range.end {
            let wanted = ((range.end - at) / PAGE * ENTRY).min(buffer.len());
            let Some(entries) = buffer.get_mut(..wanted) else {
                break;
            };
            let got = rustix::io::pread(&self.0, &mut *entries, (at / PAGE * ENTRY) as u64)?;
            if got < ENTRY {
                break;
            }
            for entry in entries.as_chunks::<ENTRY>().0.iter().take(got / ENTRY) {
                let bits = u64::from_ne_bytes(*entry);
                let is = |bit: u32| bits >> bit & 1 == 1;
                if is(63) || (is(62) && !is(57)) {
                    each(at, is(61));
                }
                at += PAGE;
            }
        }
        Ok(())
    }
}

/// Marks pages as unwritten.
#[derive(Debug)]
pub(super) struct Marker(OwnedFd);

impl Marker {
    /// For this process. Fails with what to do where the kernel does not offer it.
    pub(super) fn open() -> Result<Self, String> {
        let marker = Self(open_userfaultfd()?);
        let mut api = ApiRequest {
            api: UFFD_API,
            features: FEATURE_WP_UNPOPULATED | FEATURE_WP_ASYNC | FEATURE_WP_HUGETLBFS_SHMEM,
            ioctls: 0,
        };
        ioctl(&marker.0, UFFDIO_API, &mut api)
            .map_err(|_| "the kernel is older than 6.7 (userfaultfd without WP_ASYNC)".to_owned())?;
        Ok(marker)
    }

    /// Lets pages of `range` be marked.
    pub(super) fn register(&self, range: &Range<usize>) -> io::Result<()> {
        let mut register = Register {
            start: range.start as u64,
            len: range.len() as u64,
            mode: REGISTER_MODE_WP,
            ioctls: 0,
        };
        ioctl(&self.0, UFFDIO_REGISTER, &mut register).map(drop)
    }

    /// Marks the pages of `range`: the next write to each shows in a scan.
    pub(super) fn protect(&self, range: &Range<usize>) -> io::Result<()> {
        let mut protect = WriteProtect {
            start: range.start as u64,
            len: range.len() as u64,
            mode: WRITEPROTECT_MODE_WP,
        };
        ioctl(&self.0, UFFDIO_WRITEPROTECT, &mut protect).map(drop)
    }
}

fn open_userfaultfd() -> Result<OwnedFd, String> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
    // SAFETY: userfaultfd(2) takes flags and touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    let error = io::Error::last_os_error();
    let fd = match i32::try_from(fd) {
        Ok(fd) if fd >= 0 => fd,
        _ => return open_device().map_err(|_| explain(&error)),
    };
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A container may be given the device where its seccomp profile forbids the call.
fn open_device() -> io::Result<OwnedFd> {
    let device = rustix::fs::open(c"/dev/userfaultfd", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: this request takes flags, not a pointer.
    let fd = unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            USERFAULTFD_IOC_NEW,
            libc::O_CLOEXEC | libc::O_NONBLOCK,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no userfaultfd".to_owned(),
        Some(libc::EPERM) => {
            "userfaultfd is not permitted here (a container's seccomp profile; see docs/isolation.md)"
                .to_owned()
        }
        _ => format!("userfaultfd: {error}"),
    }
}

fn ioctl<T>(fd: &OwnedFd, request: u64, argument: &mut T) -> io::Result<usize> {
    let pointer: *mut c_void = std::ptr::from_mut(argument).cast();
    // SAFETY: the argument is the structure that the request reads and writes; what it points to (`Scan::vec`) lives and is
    // exclusively borrowed as long as the call runs.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, pointer) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
