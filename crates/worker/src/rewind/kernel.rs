//! The kernel's side of a rewind: which pages of this process are not the image's any more.
//!
//! Memory that is put back is mapped privately from the image's file. The kernel never lets such a mapping write to a page of
//! the file: the first write, whoever makes it on the thread's behalf, is a fault, which gives the process a copy of its own. Of that
//! page `/proc/self/pagemap` says that it is no file's (`proc_pid_pagemap(5)`, bit 61; without privilege since Linux 4.2). To drop
//! the copy is to have the file's page again.
//!
//! `PAGEMAP_SCAN` (Linux 6.7; the numbers are those of `include/uapi/linux/fs.h`) lists such pages; of an older kernel the entries
//! are read one by one, which takes no longer where most pages are there.
//!
//! The descriptor belongs to one process's memory, so a worker opens its own.
//!
//! Runs in: zygote (to see whether it works) | worker.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::regions::PAGE;
use crate::process;

const PAGEMAP_SCAN: u64 = iowr(b'f' as u64, 16, size_of::<Scan>());

const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;

/// Bytes of an entry of `/proc/self/pagemap`.
const ENTRY: usize = 8;
/// Entries that are read at a time.
const ENTRIES: usize = 512;

/// `_IOWR` of `include/uapi/asm-generic/ioctl.h`.
const fn iowr(kind: u64, number: u64, size: usize) -> u64 {
    3 << 30 | (size as u64) << 16 | kind << 8 | number
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

/// Pages that a scan looks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Looking {
    /// Pages that hold something, in memory or in swap.
    Present,
    /// Those of them that are this process's own, not the file's behind the mapping.
    Private,
}

impl Looking {
    /// True for the entry of such a page. Bits 63, 62 and 61: in memory, in swap, of a file.
    const fn is_met_by(self, entry: u64) -> bool {
        let is_there = entry >> 62 != 0;
        match self {
            Self::Present => is_there,
            Self::Private => is_there && !is_file(entry),
        }
    }
}

const fn is_file(entry: u64) -> bool {
    entry >> 61 & 1 == 1
}

fn address(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The ways to find pages.
#[derive(Clone, Copy, Debug)]
enum Listing {
    /// `PAGEMAP_SCAN`.
    Scan,
    /// Entry by entry.
    Read,
}

/// The pages of a process, as the kernel knows them.
#[derive(Debug)]
pub(super) struct Pagemap {
    file: OwnedFd,
    listing: Listing,
}

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
        let mut pagemap = Self {
            file: opened?,
            listing: Listing::Scan,
        };
        let mut found = [Found::default()];
        // Whatever the reason is, reading is the other way.
        if pagemap
            .scan(&(PAGE..2 * PAGE), Looking::Present, &mut found)
            .is_err()
        {
            pagemap.listing = Listing::Read;
        }
        Ok(pagemap)
    }

    /// True if this kernel tells a page of a file from a process's own copy of it.
    pub(super) fn tells_copies(&self) -> io::Result<bool> {
        let file = memfd_create(c"hearth-probe", MemfdFlags::CLOEXEC)
            .map_err(|error| io::Error::new(error.kind(), format!("memfd_create: {error}")))?;
        ftruncate(&file, 2 * PAGE as u64)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                2 * PAGE,
                rights,
                MapFlags::PRIVATE,
                &file,
                0,
            )
        }?;
        let pages = start.expose_provenance()..start.expose_provenance() + 2 * PAGE;
        touch(&pages);
        // SAFETY: the first byte of the second page of it.
        unsafe { start.cast::<u8>().wrapping_add(PAGE).write_volatile(1) };
        let mut found = [Found::default(); 2];
        let listed = self.scan(&pages, Looking::Private, &mut found);
        // SAFETY: the mapping made above, which nobody uses any more.
        unsafe { munmap(start, 2 * PAGE) }?;
        let (count, _) = listed?;
        let [only, _] = found;
        Ok(count == 1 && only.addresses() == (pages.start + PAGE..pages.end))
    }

    /// Calls `each` with every piece of `range` that is looked for.
    pub(super) fn each(
        &self,
        range: &Range<usize>,
        looking: Looking,
        mut each: impl FnMut(Range<usize>),
    ) -> io::Result<()> {
        let mut found = [Found::default(); 64];
        let mut rest = range.clone();
        while rest.start < rest.end {
            let (count, next) = self.scan(&rest, looking, &mut found)?;
            for piece in found.iter().take(count) {
                each(piece.addresses());
            }
            rest.start = next;
        }
        Ok(())
    }

    /// Fills `found` with what there is in `range`; how many entries, and the address to go on from.
    pub(super) fn scan(
        &self,
        range: &Range<usize>,
        looking: Looking,
        found: &mut [Found],
    ) -> io::Result<(usize, usize)> {
        match self.listing {
            Listing::Scan => self.scan_at_once(range, looking, found),
            Listing::Read => self.scan_by_reading(range, looking, found),
        }
    }

    fn scan_at_once(
        &self,
        range: &Range<usize>,
        looking: Looking,
        found: &mut [Found],
    ) -> io::Result<(usize, usize)> {
        // A category that is returned splits the pieces where it changes. One that is inverted and required must be absent.
        let (unwanted, returned) = match looking {
            Looking::Present => (0, PAGE_IS_PRESENT),
            Looking::Private => (PAGE_IS_FILE, PAGE_IS_FILE),
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
            category_inverted: unwanted,
            category_mask: unwanted,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: returned,
        };
        let pointer: *mut c_void = std::ptr::from_mut(&mut scan).cast();
        // SAFETY: the structure that the request reads and writes; `found`, to which it points, is exclusively borrowed as long as
        // the call runs.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, pointer) };
        let count = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
        Ok((count, address(scan.walk_end)))
    }

    fn scan_by_reading(
        &self,
        range: &Range<usize>,
        looking: Looking,
        found: &mut [Found],
    ) -> io::Result<(usize, usize)> {
        let mut count = 0;
        let mut full_at = range.end;
        self.read(range, |at, entry| {
            if !looking.is_met_by(entry) {
                return true;
            }
            let (start, end) = (at as u64, (at + PAGE) as u64);
            match found.get_mut(..count).and_then(<[Found]>::last_mut) {
                Some(last) if last.end == start => last.end = end,
                _ => {
                    let Some(next) = found.get_mut(count) else {
                        full_at = at;
                        return false;
                    };
                    *next = Found {
                        start,
                        end,
                        categories: 0,
                    };
                    count += 1;
                }
            }
            true
        })?;
        Ok((count, full_at))
    }

    /// Calls `each` with every page in `range` that is in memory or in swap: its address, and whether it is the file's behind the
    /// mapping.
    pub(super) fn each_present(
        &self,
        range: &Range<usize>,
        mut each: impl FnMut(usize, bool),
    ) -> io::Result<()> {
        self.read(range, |at, entry| {
            if Looking::Present.is_met_by(entry) {
                each(at, is_file(entry));
            }
            true
        })
    }

    /// Calls `each` with address and entry of every page in `range`, until it returns false.
    fn read(&self, range: &Range<usize>, mut each: impl FnMut(usize, u64) -> bool) -> io::Result<()> {
        let mut buffer = [0_u8; ENTRIES * ENTRY];
        let mut at = range.start;
        while at < range.end {
            let wanted = ((range.end - at) / PAGE * ENTRY).min(buffer.len());
            let (entries, _) = buffer.split_at_mut(wanted);
            let got = rustix::io::pread(&self.file, &mut *entries, (at / PAGE * ENTRY) as u64)?;
            if got < ENTRY {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for entry in entries.as_chunks::<ENTRY>().0.iter().take(got / ENTRY) {
                if !each(at, u64::from_ne_bytes(*entry)) {
                    return Ok(());
                }
                at += PAGE;
            }
        }
        Ok(())
    }
}

/// Makes the pages the file's again, there to be read: the next write to each is a fault, and shows in a scan.
pub(super) fn renew(pages: &Range<usize>) -> io::Result<()> {
    if pages.is_empty() {
        return Ok(());
    }
    give_back(pages)?;
    // Else the next read would be a fault as well.
    touch(pages);
    Ok(())
}

/// Gives pages back to the system. What was mapped from the image is the file's again at the next use; idle memory is zero.
pub(super) fn give_back(pages: &Range<usize>) -> io::Result<()> {
    // SAFETY: memory of PHP that is put back to the image by this, or marked idle: nobody reads it before writing it.
    unsafe {
        madvise(
            std::ptr::with_exposed_provenance_mut(pages.start),
            pages.len(),
            Advice::LinuxDontNeed,
        )
    }?;
    Ok(())
}

fn touch(pages: &Range<usize>) {
    for at in pages.clone().step_by(PAGE) {
        let byte: *const u8 = std::ptr::with_exposed_provenance(at);
        // SAFETY: a page of a readable mapping.
        let _ = unsafe { byte.read_volatile() };
    }
}
