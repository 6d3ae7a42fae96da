//! Rewind: after each request the worker's private memory is what it was in the zygote when the application had booted, and so
//! are its descriptors, working directory, umask, timers and signals.
//!
//! ```text
//! zygote   boot, warm up ──► seal ──► Image::take ──► fork ──► fork ──► …
//! worker   Rewinder::new ──► request ──► rewind ──► request ──► rewind ──► …
//! ```
//! The host is not part of what is put back: it runs on the main stack, has its memory in shared mappings (`arena`) and its
//! variables in the executable. How written pages are found is in [`kernel`]; most are written by every request, so they are
//! copied without asking ([`hot`]).
//!
//! Not put back, as under php-fpm: what is shared with other processes (`OPcache`, `APCu`, files, the network).
//!
//! Runs in: zygote | worker. Called by: `zygote`, `serve`.

mod check;
mod clib;
mod descriptors;
mod hot;
mod image;
mod kernel;
mod process;
mod regions;
mod sanitized;
mod verify;

use std::io;
use std::ops::Range;

pub(crate) use check::self_check;
pub(crate) use descriptors::Descriptors;
use hot::Hot;
pub(crate) use image::Image;
use kernel::{Found, Looking, Marker, Pagemap};
use process::State;
pub(crate) use regions::PAGE;
use regions::Region;

use crate::php::{Exchange, Php};
use crate::touched::{Memory, Touched};

/// Entries of a scan. A request that wrote to more pieces of memory needs another one.
const FOUND: usize = 64;
/// Idle memory of so many bytes in one piece is not protected at all.
const UNPROTECTED_MIN: usize = 1 << 20;
/// Protected pieces with fewer bytes between them are scanned as one: a scan costs more than the pages it walks over.
const SCAN_GAP: usize = 2 << 20;
/// What cannot be seen by watching calls is looked for once in so many requests.
const LOOK_EVERY: u64 = 64;

/// Idle memory is given back once in so many requests. Each page of it that is used again is a fault, which costs a look at all
/// pages.
const GIVE_BACK_EVERY: u64 = 16 * LOOK_EVERY;

/// Why a worker cannot go on after a request.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// The request did something that cannot be undone.
    Request(String),
    /// The kernel refuses.
    Kernel(io::Error),
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request(what) => write!(f, "{what}, which cannot be undone"),
            Self::Kernel(error) => write!(f, "undoing a request: {error}"),
        }
    }
}

impl From<io::Error> for Stuck {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error)
    }
}

impl From<rustix::io::Errno> for Stuck {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Kernel(error.into())
    }
}

/// Whether this kernel lets memory be rewound; what to do if not.
pub(crate) fn is_possible() -> Result<(), String> {
    Marker::open()?;
    let pagemap = Pagemap::open().map_err(|error| format!("/proc/self/pagemap: {error}"))?;
    let mut found = [Found::default()];
    pagemap
        .scan(&(PAGE..2 * PAGE), Looking::Written, &mut found)
        .map(drop)
        .map_err(|error| format!("/proc/self/pagemap cannot be scanned: {error}"))
}

/// Puts a worker back to the image.
#[derive(Debug)]
pub(crate) struct Rewinder {
    image: Image,
    pagemap: Pagemap,
    marker: Marker,
    /// What is protected, joined to what is scanned in one call.
    scanned: Vec<Range<usize>>,
    found: Vec<Found>,
    hot: Hot,
    /// Page faults of this thread when memory was last known to be that of the image.
    faults: i64,
    descriptors: Descriptors,
    state: State,
    /// Long idle pieces: what a greedy request has left there is given back to the system now and then.
    idle: Vec<Range<usize>>,
    rewinds: u64,
}

impl Rewinder {
    /// In a worker, as the last thing before it serves: what it is like now is what it will be like before each request.
    pub(crate) fn new<E: Exchange + 'static>(image: Image, php: &mut Php<E>) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("{what}: {error}");
        let pagemap = Pagemap::open().map_err(|error| failed("opening /proc/self/pagemap", error))?;
        let marker = Marker::open()?;
        let state = State::save().map_err(|error| failed("saving the state of the process", error))?;
        // After the last one that the host opens.
        let descriptors = Descriptors::save().map_err(|error| failed("saving the descriptors", error))?;
        let mut rewinder = Self {
            hot: Hot::default(),
            scanned: Vec::new(),
            found: vec![Found::default(); FOUND],
            faults: 0,
            idle: Vec::new(),
            rewinds: 0,
            image,
            pagemap,
            marker,
            descriptors,
            state,
        };
        rewinder
            .image
            .adopt_differences(&rewinder.pagemap)
            .map_err(|error| failed("reading /proc/self/pagemap", error))?;
        rewinder.hot.pin(&mut rewinder.image);
        rewinder
            .protect()
            .map_err(|error| failed("protecting memory", error))?;
        rewinder.idle = idle_pieces(&rewinder.image);
        rewinder.faults = faults();
        let memory: Vec<Memory> = rewinder
            .image
            .regions
            .iter()
            .map(|region| Memory::new(&region.addresses))
            .collect();
        php.watch(memory.leak(), rewinder.descriptors.last_of_boot());
        Ok(rewinder)
    }

    fn protect(&mut self) -> io::Result<()> {
        for region in &self.image.regions {
            for piece in used(&self.image, region) {
                self.marker.register(&piece)?;
                self.marker.protect(&piece)?;
                match self.scanned.last_mut() {
                    Some(last) if piece.start - last.end < SCAN_GAP => last.end = piece.end,
                    _ => self.scanned.push(piece),
                }
            }
        }
        Ok(())
    }

    /// Undoes the last request. PHP waits on its stack, or has been left anywhere.
    pub(crate) fn rewind<E: Exchange + 'static>(&mut self, php: &mut Php<E>) -> Result<(), Stuck> {
        self.rewinds += 1;
        let look = self.rewinds.is_multiple_of(LOOK_EVERY);
        let touched = php.touched();
        process::check(touched)?;
        self.put_back_memory()?;
        self.state.unmap(touched, look)?;
        sanitized::drop_added_shadow(&self.image, &self.pagemap)?;
        self.state.restore(touched, look)?;
        self.descriptors.restore(touched.has(Touched::FDS) || look)?;
        if self.rewinds.is_multiple_of(GIVE_BACK_EVERY) {
            for piece in &self.idle {
                process::give_back(piece)?;
            }
        }
        process::bury_children();
        php.rewind();
        Ok(())
    }

    /// What is not as in the image, for people; empty if all is well. Takes some ten milliseconds.
    pub(crate) fn differences(&self) -> io::Result<String> {
        let mut report = verify::differences(&self.image, &self.pagemap)?;
        let descriptors = self.descriptors.differences()?;
        if !descriptors.is_empty() {
            report = format!("{report}\n  descriptors {descriptors:?}");
        }
        Ok(report)
    }

    fn put_back_memory(&mut self) -> io::Result<()> {
        process::set_heap_end(self.image.heap_end)?;
        self.hot.put_back(&self.image);
        let faults_now = faults();
        let explained = i64::from(faults_now != self.faults && self.put_back_trial()?);
        if faults_now != self.faults + explained {
            for index in 0..self.scanned.len() {
                if let Some(range) = self.scanned.get(index).cloned() {
                    self.put_back_written(range)?;
                }
            }
        }
        self.hot.cool_one(&mut self.image, &self.marker)?;
        if faults_now != self.faults {
            // Copying was a write as well.
            self.faults = faults();
        }
        Ok(())
    }

    /// Puts back the page that is watched again, if it was written to: that was one fault, and if there was no other, the rest need
    /// not be looked at.
    fn put_back_trial(&mut self) -> io::Result<bool> {
        let Some(range) = self.hot.trial() else {
            return Ok(false);
        };
        let (count, _) = self.pagemap.scan(&range, Looking::Written, &mut self.found)?;
        if count == 0 {
            return Ok(false);
        }
        self.hot.end_trial();
        self.put_back_pages(range)?;
        Ok(true)
    }

    /// Puts back what was written in `range`, without what is hot.
    fn put_back_written(&mut self, mut range: Range<usize>) -> io::Result<()> {
        while range.start < range.end {
            let (count, next) = self.pagemap.scan(&range, Looking::Written, &mut self.found)?;
            for index in 0..count {
                if let Some(found) = self.found.get(index).copied() {
                    self.put_back_pages(found.addresses())?;
                }
            }
            range.start = next;
        }
        Ok(())
    }

    fn put_back_pages(&mut self, addresses: Range<usize>) -> io::Result<()> {
        // Pages that are to be protected again, as long as they follow each other.
        let mut cold = addresses.start..addresses.start;
        for at in addresses.step_by(PAGE) {
            let Some(region) = regions::at(&self.image.regions, at) else {
                continue;
            };
            let number = Image::number(region, at);
            let Some(page) = self
                .image
                .pages
                .get_mut(number)
                .filter(|page| !page.idle && !page.hot)
            else {
                continue;
            };
            let warm = hot::warm_up(page);
            hot::put_back(&self.image, at, number);
            if warm {
                self.hot.add(at, number);
            } else if cold.end == at {
                cold.end += PAGE;
            } else {
                self.protect_again(&cold)?;
                cold = at..at + PAGE;
            }
        }
        self.protect_again(&cold)
    }

    /// After the copy, which is a write as well.
    fn protect_again(&self, cold: &Range<usize>) -> io::Result<()> {
        if cold.is_empty() {
            return Ok(());
        }
        self.marker.protect(cold)
    }
}

/// The pieces of a region that requests can see.
fn used(image: &Image, region: &Region) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let pages = image
        .pages
        .get(region.first_page..region.first_page + region.pages());
    for (index, page) in pages.unwrap_or_default().iter().enumerate() {
        let at = region.addresses.start + index * PAGE;
        match pieces.last_mut() {
            _ if page.idle => {}
            Some(last) if at - last.end < UNPROTECTED_MIN => last.end = at + PAGE,
            _ => pieces.push(at..at + PAGE),
        }
    }
    pieces
}

/// Idle memory that comes in long pieces.
fn idle_pieces(image: &Image) -> Vec<Range<usize>> {
    let mut idle = Vec::new();
    for region in &image.regions {
        let mut at = region.addresses.start;
        for piece in used(image, region) {
            idle.push(at..piece.start);
            at = piece.end;
        }
        idle.push(at..region.addresses.end);
    }
    idle.retain(|piece| piece.len() >= UNPROTECTED_MIN);
    idle
}

/// Page faults of this thread so far. Every first write to a protected page is one, whoever makes it on the thread's behalf.
fn faults() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage(2) fills the structure.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if result != 0 {
        // Never equal to the last one, so memory is looked at.
        return -1;
    }
    // SAFETY: filled, as the result says.
    let usage = unsafe { usage.assume_init() };
    usage.ru_minflt + usage.ru_majflt
}
