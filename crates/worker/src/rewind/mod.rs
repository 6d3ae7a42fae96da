//! Rewind: after each request the worker's private memory is what it was in the zygote when the application had booted, and so
//! are its descriptors, working directory, umask, timers and signals.
//!
//! ```text
//! zygote   boot, warm up ──► seal ──► Image::take ──► fork ──► fork ──► …
//! worker   Rewinder::new ──► request ──► rewind ──► request ──► rewind ──► …
//! ```
//! The host is not part of what is put back: it runs on the main stack, has its memory in shared mappings (`arena`) and its
//! variables in the executable. How written pages are found is in [`kernel`]: each page that a request writes to becomes a copy of
//! its own, and dropping that copy puts the page back. Most are written to by every request, so they are kept and copied without
//! asking ([`hot`]).
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
mod mapping;
mod process;
mod regions;
mod sanitized;
mod verify;

use std::io;
use std::ops::Range;
use std::time::Instant;

pub(crate) use check::self_check;
pub(crate) use descriptors::Descriptors;
use hot::{Entry, Hot};
pub(crate) use image::Image;
use kernel::{Found, Looking, Pagemap};
use process::State;
pub(crate) use regions::PAGE;

use ipc::scoreboard::Undone;

use crate::php::{Exchange, Php};
use crate::touched::{Memory, Touched};

/// Entries of a scan. A request that wrote to more pieces of memory needs another one.
const FOUND: usize = 64;
/// Pieces with fewer bytes between them are looked at as one. A gap costs something, too: an entry for each page of it.
const GAP: usize = 64 << 10;
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

/// Whether this kernel lets memory be rewound; what is missing if not.
pub(crate) fn is_possible() -> Result<(), String> {
    let pagemap = Pagemap::open().map_err(|error| format!("/proc/self/pagemap cannot be opened: {error}"))?;
    let tells = pagemap.tells_copies();
    if tells.map_err(|error| format!("/proc/self/pagemap cannot be tried: {error}"))? {
        return Ok(());
    }
    Err("/proc/self/pagemap does not tell pages of a file from copies of them".to_owned())
}

/// Puts a worker back to the image.
#[derive(Debug)]
pub(crate) struct Rewinder {
    image: Image,
    pagemap: Pagemap,
    /// What is looked at: all that requests can see, joined.
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
    /// Requests have left processes that go on.
    has_children: bool,
    undone: Undone,
}

impl Rewinder {
    /// In a worker, as the last thing before it serves: what it is like now is what it will be like before each request.
    pub(crate) fn new<E: Exchange + 'static>(image: Image, php: &mut Php<E>) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("{what}: {error}");
        let pagemap = Pagemap::open().map_err(|error| failed("opening /proc/self/pagemap", error))?;
        let state = State::save().map_err(|error| failed("saving the state of the process", error))?;
        // After the last one that the host opens.
        let descriptors = Descriptors::save().map_err(|error| failed("saving the descriptors", error))?;
        let mut rewinder = Self {
            hot: Hot::default(),
            scanned: Vec::new(),
            found: vec![Found::default(); FOUND],
            // Not a number of faults: the first rewind looks at everything.
            faults: -1,
            idle: Vec::new(),
            rewinds: 0,
            has_children: false,
            undone: Undone::default(),
            image,
            pagemap,
            descriptors,
            state,
        };
        let own = rewinder
            .image
            .adopt_differences(&rewinder.pagemap)
            .map_err(|error| failed("reading /proc/self/pagemap", error))?;
        for entry in own {
            rewinder.hot.keep(&mut rewinder.image, entry);
        }
        rewinder.scanned = to_scan(&rewinder.image);
        rewinder.idle = rewinder.image.long_idle();
        let memory: Vec<Memory> = rewinder
            .image
            .regions
            .iter()
            .map(|region| Memory::new(&region.addresses))
            .collect();
        php.watch(memory.leak(), rewinder.descriptors.last_of_boot());
        Ok(rewinder)
    }

    /// Undoes the last request. PHP waits on its stack, or has been left anywhere.
    pub(crate) fn rewind<E: Exchange + 'static>(&mut self, php: &mut Php<E>) -> Result<(), Stuck> {
        self.rewinds += 1;
        let begun = Instant::now();
        let look = self.rewinds.is_multiple_of(LOOK_EVERY);
        let touched = php.touched();
        process::check(touched)?;
        self.put_back_memory(touched.has(Touched::THREADS | Touched::CHILDREN))?;
        self.state.unmap(touched, look)?;
        sanitized::drop_added_shadow(&self.image, &self.pagemap)?;
        self.state.restore(touched, look)?;
        self.descriptors.restore(touched.has(Touched::FDS) || look)?;
        if self.rewinds.is_multiple_of(GIVE_BACK_EVERY) {
            for piece in &self.idle {
                kernel::give_back(piece)?;
            }
        }
        if look || self.has_children || touched.has(Touched::CHILDREN) {
            self.has_children = process::bury_children();
        }
        php.rewind();
        self.undone.hot = self.hot.len() as u64;
        self.undone.nanoseconds += u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// What all this has taken so far.
    pub(crate) fn undone(&self) -> &Undone {
        &self.undone
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

    /// `unsure`: something may have written whose faults are not counted here.
    fn put_back_memory(&mut self, unsure: bool) -> Result<(), Stuck> {
        process::set_heap_end(self.image.heap_end)?;
        self.hot.put_back(&self.image);
        self.undone.copied += self.hot.len() as u64;
        let faults_now = faults();
        let mut has_moved = unsure || faults_now != self.faults;
        if has_moved {
            let explained = i64::from(self.put_back_trial()?);
            if unsure || faults_now != self.faults + explained {
                self.undone.looks += 1;
                for index in 0..self.scanned.len() {
                    if let Some(range) = self.scanned.get(index).cloned() {
                        self.put_back_written(range)?;
                    }
                }
            }
        }
        has_moved |= self.hot.cool_one(&mut self.image)?;
        if has_moved {
            // To drop a copy is followed by a fault.
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
        let (count, _) = self.pagemap.scan(&range, Looking::Private, &mut self.found)?;
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
            let (count, next) = self.pagemap.scan(&range, Looking::Private, &mut self.found)?;
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
        // Copies that are to be dropped, as long as they follow each other.
        let mut cold = addresses.start..addresses.start;
        for at in addresses.step_by(PAGE) {
            let Some(region) = regions::at(&self.image.regions, at) else {
                continue;
            };
            let entry = Entry {
                address: at,
                number: Image::number(region, at),
            };
            let pages = &mut self.image.pages;
            let Some(page) = pages.get_mut(entry.number).filter(|page| !page.idle && !page.hot) else {
                continue;
            };
            let is_warm = page.mapped && hot::warm_up(page);
            if !page.mapped || is_warm {
                hot::put_back(&self.image, entry);
                self.undone.copied += 1;
                if is_warm {
                    self.hot.add(entry);
                } else {
                    self.hot.keep(&mut self.image, entry);
                }
                continue;
            }
            self.undone.dropped += 1;
            if cold.end == at {
                cold.end += PAGE;
            } else {
                kernel::renew(&cold)?;
                cold = at..at + PAGE;
            }
        }
        kernel::renew(&cold)
    }
}

/// The pieces that requests can see, in as few as it pays.
fn to_scan(image: &Image) -> Vec<Range<usize>> {
    let mut scanned: Vec<Range<usize>> = Vec::new();
    for piece in image.regions.iter().flat_map(|region| image.used(region)) {
        match scanned.last_mut() {
            Some(last) if piece.start - last.end < GAP => last.end = piece.end,
            _ => scanned.push(piece),
        }
    }
    scanned
}

/// Page faults of this thread so far. Every first write to a page of the file is one, whoever makes it on the thread's behalf.
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
