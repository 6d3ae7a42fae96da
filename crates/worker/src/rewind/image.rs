//! The image: a copy of the zygote's private memory once the application has booted, from which every request starts.
//!
//! The copy is in a file in memory, mapped privately: a forked worker that differs from its zygote in a few pages (what the C
//! library writes in a child) changes them in its own view of the copy. The memory itself is then mapped from the same file, so that
//! it is there once, a fork need not copy its page tables, and what a process has written to can be told ([`super::kernel`]).
//!
//! Runs in: zygote. Its result is used in: worker.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};

use super::hot::Entry;
use super::kernel::{self, Looking, Pagemap};
use super::regions::{self, Kind, PAGE, Region};
use super::sanitized;
use crate::php::Php;

/// Idle memory of so many bytes in one piece is not mapped from the file: to write to it for the first time would cost a page there
/// as well.
const IDLE_MIN: usize = 1 << 20;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// It holds nothing: nobody reads it before writing it.
    pub(super) idle: bool,
    /// It comes from the image's file.
    pub(super) mapped: bool,
    /// It is put back after every request.
    pub(super) hot: bool,
    /// How many requests wrote to it while it was not hot.
    pub(super) age: u8,
}

/// Memory as it was when the application had booted.
#[derive(Debug)]
pub(crate) struct Image {
    pub(super) regions: Vec<Region>,
    /// One for each page of each region.
    pub(super) pages: Vec<Page>,
    /// Where the copy of page 0 is. It can be written only while it changes.
    copy: *mut c_void,
    /// A checksum of each page of the copy, if that is to be compared as well.
    checksums: Option<Vec<u64>>,
    /// End of the C library's heap.
    pub(super) heap_end: usize,
    /// Pages that are held.
    pub(crate) held: usize,
}

impl Image {
    /// Takes it. PHP waits for a request and has been sealed; one thread. With `checksums`, a change of the copy itself will be seen.
    pub(crate) fn take<E: crate::php::Exchange + 'static>(
        php: &mut Php<E>,
        checksums: bool,
    ) -> io::Result<Self> {
        // Both before the regions are read: memory that is mapped later belongs to nobody's request.
        let idle = php.free_memory();
        let pagemap = Pagemap::open()?;
        let regions = regions::find(&pagemap)?;
        let count = regions.iter().map(Region::pages).sum::<usize>();
        let mut image = Self {
            regions,
            pages: vec![Page::default(); count],
            copy: std::ptr::null_mut(),
            checksums: None,
            heap_end: heap_end(),
            held: 0,
        };
        for range in &idle {
            image.mark_idle(range);
        }
        let file = memfd_create(c"hearth-image", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        // Nobody opens it by `/proc/PID/fd`.
        fchmod(&file, Mode::empty())?;
        ftruncate(&file, (count * PAGE) as u64)?;
        image.copy = map(&file, count * PAGE, MapFlags::SHARED)?;
        let held = image.fill(&pagemap)?;
        image.held = held.len();
        // SAFETY: the mapping made above; nothing points into it.
        unsafe { munmap(image.copy, count * PAGE) }?;
        // Who maps it from now on has a copy of its own of what it writes.
        let all = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, all)?;
        image.copy = map(&file, count * PAGE, MapFlags::PRIVATE)?;
        image.map_memory(&file, &held)?;
        image.close()?;
        if checksums {
            image.checksums = Some((0..count).map(|page| image.checksum(page)).collect());
        }
        Ok(image)
    }

    /// The same image, for a fork that does not outlive it: the mapping of the copy is the process's own.
    pub(super) fn share(&self) -> Self {
        Self {
            regions: self.regions.clone(),
            pages: self.pages.clone(),
            checksums: self.checksums.clone(),
            ..*self
        }
    }

    /// Where the copy of `page` is.
    pub(super) fn source(&self, page: usize) -> *mut u8 {
        self.copy.cast::<u8>().wrapping_add(page * PAGE)
    }

    /// Number of the page at `address`, which is in `region`.
    pub(super) fn number(region: &Region, address: usize) -> usize {
        region.first_page + (address - region.addresses.start) / PAGE
    }

    /// In a worker: a fork is not quite its parent, nor is the parent quite what it was when the image was taken. What differs now
    /// belongs to this worker's image, and is not the file's any more, nor is what was never mapped from it: those pages are
    /// returned. Of all others no copy is left.
    pub(super) fn adopt_differences(&mut self, pagemap: &Pagemap) -> io::Result<Vec<Entry>> {
        self.protect(MprotectFlags::READ | MprotectFlags::WRITE)?;
        let mut own = Vec::new();
        let mut adopted = Vec::new();
        let mut equal: Vec<Range<usize>> = Vec::new();
        for region in &self.regions {
            pagemap.each_present(&region.addresses, |address, is_file| {
                let number = Self::number(region, address);
                let Some(page) = self.pages.get(number).filter(|page| !page.idle) else {
                    return;
                };
                if page.mapped && is_file {
                    return;
                }
                let is_equal = self.is_equal(address, number);
                if !is_equal {
                    self.copy_page(address, number);
                    adopted.push(number);
                }
                match equal.last_mut() {
                    _ if !is_equal || !page.mapped => own.push(Entry { address, number }),
                    Some(last) if last.end == address => last.end += PAGE,
                    _ => equal.push(address..address + PAGE),
                }
            })?;
        }
        // Nothing is dropped before all is known: dropping is done by memory of these pages.
        for pages in equal {
            kernel::give_back(&pages)?;
        }
        self.close()?;
        for number in adopted {
            let checksum = self.checksum(number);
            if let Some(known) = self.checksums.as_mut().and_then(|all| all.get_mut(number)) {
                *known = checksum;
            }
        }
        Ok(own)
    }

    /// Nothing writes to the copy, not even by mistake, until it is to change.
    fn close(&self) -> io::Result<()> {
        self.protect(MprotectFlags::READ)
    }

    fn protect(&self, flags: MprotectFlags) -> io::Result<()> {
        // SAFETY: the mapping made by `take`, which nothing of Rust's lies in and only this module writes to.
        unsafe { mprotect(self.copy, self.pages.len() * PAGE, flags) }?;
        Ok(())
    }

    /// Pages of the copy that are not what they were when it was taken, if that was asked for.
    pub(super) fn spoilt(&self) -> impl Iterator<Item = usize> {
        let known = self.checksums.iter().flatten().enumerate();
        known
            .filter(|&(page, checksum)| self.checksum(page) != *checksum)
            .map(|(page, _)| page)
    }

    /// Of a page of the copy.
    fn checksum(&self, page: usize) -> u64 {
        let words: *const u64 = self.source(page).cast_const().cast();
        (0..PAGE / size_of::<u64>()).fold(0, |sum: u64, index| {
            // SAFETY: within a page of the copy, which is aligned.
            let word = unsafe { words.wrapping_add(index).read() };
            (sum.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
        })
    }

    /// Whether the page at `address` holds what the image says.
    pub(super) fn is_equal(&self, address: usize, number: usize) -> bool {
        // SAFETY: a page of a readable mapping of this process, to which nobody writes during the comparison, and one of the copy.
        unsafe { sanitized::is_equal(std::ptr::with_exposed_provenance(address), self.source(number)) }
    }

    fn copy_page(&self, address: usize, number: usize) {
        // SAFETY: `address` is a page of a readable mapping of this process, which is not a Rust object of ours: everything of the
        // host is in shared memory and in the executable. The target is a page of the copy, made by `take`.
        unsafe {
            sanitized::copy(
                std::ptr::with_exposed_provenance(address),
                self.source(number),
                PAGE,
            );
        }
    }

    fn mark_idle(&mut self, range: &Range<usize>) {
        let mut at = range.start.next_multiple_of(PAGE);
        while at + PAGE <= range.end {
            let Some(region) = regions::at(&self.regions, at) else {
                return;
            };
            if let Some(page) = self.pages.get_mut(Self::number(region, at)) {
                page.idle = true;
            }
            at += PAGE;
        }
    }

    /// Copies what is there, and says which pages that were. One that nobody has touched is zero, as the file is; only a file's has
    /// content of its own. What a fork would wipe is left out, and so is zero.
    fn fill(&self, pagemap: &Pagemap) -> io::Result<Vec<usize>> {
        let mut held = Vec::new();
        for region in self.regions.iter().filter(|region| !region.is_wiped) {
            let mut copy_in = |addresses: Range<usize>| {
                for at in addresses.step_by(PAGE) {
                    let number = Self::number(region, at);
                    if self.pages.get(number).is_none_or(|page| !page.idle) {
                        self.copy_page(at, number);
                        held.push(number);
                    }
                }
            };
            if region.kind == Kind::File {
                copy_in(region.addresses.clone());
            } else {
                pagemap.each(&region.addresses, Looking::Present, copy_in)?;
            }
        }
        Ok(held)
    }

    /// The pieces of a region that requests can see.
    pub(super) fn used(&self, region: &Region) -> Vec<Range<usize>> {
        if region.is_huge {
            return vec![region.addresses.clone()];
        }
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let pages = self
            .pages
            .get(region.first_page..region.first_page + region.pages());
        for (index, page) in pages.unwrap_or_default().iter().enumerate() {
            let at = region.addresses.start + index * PAGE;
            match pieces.last_mut() {
                _ if page.idle => {}
                Some(last) if at - last.end < IDLE_MIN => last.end = at + PAGE,
                _ => pieces.push(at..at + PAGE),
            }
        }
        pieces
    }

    /// Idle memory that comes in long pieces.
    pub(super) fn long_idle(&self) -> Vec<Range<usize>> {
        let mut idle = Vec::new();
        for region in &self.regions {
            let mut at = region.addresses.start;
            for piece in self.used(region) {
                idle.push(at..piece.start);
                at = piece.end;
            }
            idle.push(at..region.addresses.end);
        }
        idle.retain(|piece| piece.len() >= IDLE_MIN);
        idle
    }
}

fn map(file: &impl AsFd, len: usize, how: MapFlags) -> io::Result<*mut c_void> {
    // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
    let start = unsafe {
        mmap(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            how,
            file,
            0,
        )
    }?;
    Ok(start)
}

/// The program break.
pub(super) fn heap_end() -> usize {
    // SAFETY: sbrk(0) changes nothing.
    unsafe { libc::sbrk(0) }.expose_provenance()
}
