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
use super::kernel;
use super::regions::PAGE;
use super::sanitized;

/// Requests that wrote to a page before it is hot.
const HOT_AT: u8 = 2;
/// One hot page is watched again once in so many requests.
pub(super) const COOL_EVERY: u32 = 64;
/// How much of the memory around the thread pointer belongs to the thread: static thread-local variables below it, the C library's
/// own block (less than 0x900 bytes in glibc 2.36 to 2.43) behind it.
const THREAD_BELOW: usize = 8192;
const THREAD_ABOVE: usize = 0x900;

/// The hot pages.
#[derive(Debug, Default)]
pub(super) struct Hot {
    pages: Vec<Entry>,
    /// Pages that are not the file's in this process, above all those of the thread itself: always copied, except the
    /// kernel's part of them.
    own: Vec<Entry>,
    /// Which page is tried next.
    next: usize,
    /// The page that is watched again, until it is written to.
    trial: Option<Entry>,
    requests: u32,
}

/// A page of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) address: usize,
    /// In the image.
    pub(super) number: usize,
}

/// The thread's own pages.
pub(super) fn thread_pages() -> Range<usize> {
    let thread = thread_pointer();
    (thread - THREAD_BELOW) & !(PAGE - 1)..(thread + THREAD_ABOVE).next_multiple_of(PAGE)
}

/// Counts a write to a page that is not hot; true if it is from now on.
pub(super) fn warm_up(page: &mut Page) -> bool {
    page.age = page.age.saturating_add(1);
    page.hot = page.age >= HOT_AT;
    page.hot
}

/// Puts one page back.
pub(super) fn put_back(image: &Image, entry: Entry) {
    // SAFETY: the page belongs to the image: PHP's memory, which nobody uses while PHP stands still, and no Rust object of ours.
    unsafe {
        sanitized::copy(
            image.source(entry.number),
            std::ptr::with_exposed_provenance_mut(entry.address),
            PAGE,
        );
    }
}

impl Hot {
    /// Adds the page, which is not in yet.
    pub(super) fn add(&mut self, entry: Entry) {
        self.pages.push(entry);
    }

    /// Takes a page out of the learning: to drop it would not put it back.
    pub(super) fn keep(&mut self, image: &mut Image, entry: Entry) {
        if let Some(page) = image.pages.get_mut(entry.number) {
            page.hot = true;
            self.own.push(entry);
        }
    }

    /// How many pages are copied after each request.
    pub(super) fn len(&self) -> usize {
        self.pages.len() + self.own.len()
    }

    /// Puts all of them back.
    pub(super) fn put_back(&self, image: &Image) {
        for entry in &self.pages {
            put_back(image, *entry);
        }
        let kernels = kernels_part();
        for entry in &self.own {
            put_back_around(image, *entry, &kernels);
        }
    }

    /// Once in a while one of them is watched again, and hot after the next write. True: that moved the thread's counter of faults.
    pub(super) fn cool_one(&mut self, image: &mut Image) -> io::Result<bool> {
        self.requests = self.requests.wrapping_add(1);
        if !self.requests.is_multiple_of(COOL_EVERY) || self.pages.is_empty() {
            return Ok(false);
        }
        self.next = (self.next + 1) % self.pages.len();
        let entry = self.pages.swap_remove(self.next);
        if let Some(page) = image.pages.get_mut(entry.number) {
            page.hot = false;
            page.age = HOT_AT - 1;
        }
        self.trial = Some(entry);
        kernel::renew(&(entry.address..entry.address + PAGE))?;
        Ok(true)
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
