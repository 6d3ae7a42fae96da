//! Pages that nearly every request writes to. They are not watched but copied each time, which is a tenth of what a fault costs.
//!
//! A page gets hot when it has been written to between two of its looks; one hot page at a time is tried without being copied, so
//! that the set follows what the application does.
//!
//! Runs in: worker.

use std::io;
use std::ops::Range;

use super::clib::{kernels_part, thread_pointer};
use super::image::{Image, Page};
use super::kernel::Marker;
use super::regions::{self, PAGE};
use super::sanitized;

/// Requests that wrote to a page before it is hot.
const HOT_AT: u8 = 2;
/// One hot page is watched again once in so many requests.
const COOL_EVERY: u32 = 64;
/// How much of the memory around the thread pointer belongs to the thread: static thread-local variables below it, the C library's
/// own block (less than 0x900 bytes in glibc 2.36 to 2.43) behind it.
const THREAD_BELOW: usize = 8192;
const THREAD_ABOVE: usize = 0x900;

/// The hot pages.
#[derive(Debug, Default)]
pub(super) struct Hot {
    pages: Vec<Entry>,
    /// Pages of the thread itself: always copied, but for the kernel's part of them.
    pinned: Vec<Entry>,
    /// Which page is tried next.
    next: usize,
    /// The page that is watched again, until it is written to.
    trial: Option<Entry>,
    requests: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: usize,
    number: usize,
}

/// Counts a write to a page that is not hot; true if it is from now on.
pub(super) fn warm_up(page: &mut Page) -> bool {
    page.age = page.age.saturating_add(1);
    page.hot = page.age >= HOT_AT;
    page.hot
}

/// Puts one page back.
pub(super) fn put_back(image: &Image, address: usize, number: usize) {
    // SAFETY: the page belongs to the image: PHP's memory, which nobody uses while PHP stands still, and no Rust object of ours.
    unsafe {
        sanitized::copy(
            image.source(number),
            std::ptr::with_exposed_provenance_mut(address),
            PAGE,
        );
    }
}

impl Hot {
    /// Adds the page, which is not in yet.
    pub(super) fn add(&mut self, address: usize, number: usize) {
        self.pages.push(Entry { address, number });
    }

    /// Takes the thread's own pages out of the learning.
    pub(super) fn pin(&mut self, image: &mut Image) {
        let thread = thread_pointer();
        let first = (thread - THREAD_BELOW) & !(PAGE - 1);
        for address in (first..thread + THREAD_ABOVE).step_by(PAGE) {
            let Some(region) = regions::at(&image.regions, address) else {
                continue;
            };
            let number = Image::number(region, address);
            if let Some(page) = image.pages.get_mut(number) {
                page.hot = true;
                self.pinned.push(Entry { address, number });
            }
        }
    }

    /// Puts all of them back.
    pub(super) fn put_back(&self, image: &Image) {
        for entry in &self.pages {
            put_back(image, entry.address, entry.number);
        }
        let kernels = kernels_part();
        for entry in &self.pinned {
            put_back_around(image, *entry, &kernels);
        }
    }

    /// Once in a while one of them is watched again, and hot after the next write.
    pub(super) fn cool_one(&mut self, image: &mut Image, marker: &Marker) -> io::Result<()> {
        self.requests = self.requests.wrapping_add(1);
        if !self.requests.is_multiple_of(COOL_EVERY) || self.pages.is_empty() {
            return Ok(());
        }
        self.next = (self.next + 1) % self.pages.len();
        let entry = self.pages.swap_remove(self.next);
        if let Some(page) = image.pages.get_mut(entry.number) {
            page.hot = false;
            page.age = HOT_AT - 1;
        }
        self.trial = Some(entry);
        marker.protect(&(entry.address..entry.address + PAGE))
    }

    /// The page that is watched again.
    pub(super) fn trial(&self) -> Option<Range<usize>> {
        self.trial.map(|entry| entry.address..entry.address + PAGE)
    }

    /// It has been written to, and is hot once more.
    pub(super) fn end_trial(&mut self) {
        self.trial = None;
    }
}

fn put_back_around(image: &Image, entry: Entry, kernels: &Range<usize>) {
    let end = entry.address + PAGE;
    let before = entry.address..kernels.start.clamp(entry.address, end);
    let after = kernels.end.clamp(entry.address, end)..end;
    for piece in [before, after] {
        let source = image
            .source(entry.number)
            .wrapping_add(piece.start - entry.address);
        // SAFETY: as in `put_back`; the thread's variables are the C library's and PHP's, the host has none.
        unsafe {
            sanitized::copy(
                source,
                std::ptr::with_exposed_provenance_mut(piece.start),
                piece.len(),
            );
        }
    }
}
