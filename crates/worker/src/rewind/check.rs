//! The proof, once per zygote, that this kernel and this image can do what a rewind needs: a fork of the zygote spoils memory in
//! each way there is, puts itself back, and compares everything. Then it stands still for some rounds, in which pages that were hot are
//! watched again, and spoils memory once more.
//!
//! Runs in: zygote, and a short-lived child of it.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::process::{WaitOptions, waitpid};

use super::Rewinder;
use super::hot::COOL_EVERY;
use super::image::Image;
use super::kernel::Looking;
use super::regions::{Kind, PAGE, Region};
use crate::php::{Exchange, Php};
use crate::process::{self, Forked};

/// How often memory is spoilt and put back: enough for pages to become hot.
const ROUNDS: usize = 4;
/// Pages that the process may have written to since all copies were dropped: the first rewind looks at them. A kernel that tells
/// no page from its copy shows all.
const UNEXPLAINED_MAX: usize = 32;
/// Rounds without a write, in which more than one hot page is tried.
const QUIET_ROUNDS: u32 = 2 * COOL_EVERY;

/// The error says what did not come out.
pub(crate) fn self_check<E: Exchange + 'static>(image: &Image, php: &mut Php<E>) -> Result<(), String> {
    let failed = |error: io::Error| format!("the self-check could not run: {error}");
    let (reader, writer) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    match process::fork().map_err(failed)? {
        Forked::Child => {
            let report = try_rewind(image, php).err().unwrap_or_default();
            // If nobody reads it, the exit code still says that it failed.
            let _ = rustix::io::write(&writer, report.as_bytes());
            process::quit(i32::from(!report.is_empty()))
        }
        Forked::Parent(child) => {
            drop(writer);
            let mut report = Vec::new();
            std::fs::File::from(reader)
                .read_to_end(&mut report)
                .map_err(failed)?;
            let status = waitpid(Some(child), WaitOptions::empty())
                .map_err(|error| failed(error.into()))?
                .and_then(|(_, status)| status.exit_status());
            if status == Some(0) {
                return Ok(());
            }
            let report = String::from_utf8_lossy(&report);
            let report = if report.is_empty() { "it crashed" } else { &report };
            Err(format!("the self-check failed: {report}"))
        }
    }
}

fn try_rewind<E: Exchange + 'static>(image: &Image, php: &mut Php<E>) -> Result<(), String> {
    let mut rewinder = Rewinder::new(image.share(), php)?;
    nothing_is_unexplained(&rewinder)?;
    for round in 0..ROUNDS {
        try_round(&mut rewinder, php, round)?;
    }
    let looks = rewinder.undone.looks;
    for _ in 0..QUIET_ROUNDS {
        rewinder.rewind(php).map_err(|stuck| stuck.to_string())?;
    }
    if rewinder.undone.looks - looks >= u64::from(QUIET_ROUNDS) {
        return Err(
            "all memory was looked through after each of many requests that wrote nothing".to_owned(),
        );
    }
    try_round(&mut rewinder, php, 0)
}

fn try_round<E: Exchange + 'static>(
    rewinder: &mut Rewinder,
    php: &mut Php<E>,
    round: usize,
) -> Result<(), String> {
    for region in &rewinder.image.regions {
        let way = match region.kind {
            Kind::Heap if round % 2 == 1 => Spoiling::Zeros,
            Kind::Heap => Spoiling::Invert,
            // By a system call, to what no code of ours depends on meanwhile.
            Kind::File if round % 2 == 1 => Spoiling::ReadBack,
            Kind::File | Kind::Anonymous => Spoiling::Same,
        };
        spoil(&rewinder.image, region, way)
            .map_err(|error| format!("writing to {}: {error}", region.title()))?;
    }
    rewinder.rewind(php).map_err(|stuck| stuck.to_string())?;
    let report = rewinder.differences().map_err(|error| error.to_string())?;
    if report.is_empty() { Ok(()) } else { Err(report) }
}

/// Before the first request, each page is the file's or known not to be: else every page would be taken for written to.
fn nothing_is_unexplained(rewinder: &Rewinder) -> Result<(), String> {
    let image = &rewinder.image;
    let mut unexplained = 0_usize;
    for region in &image.regions {
        let looked = rewinder
            .pagemap
            .each(&region.addresses, Looking::Private, |piece| {
                let pages = Image::number(region, piece.start)
                    ..Image::number(region, piece.start) + piece.len() / PAGE;
                let unknown = image.pages.get(pages).unwrap_or_default().iter();
                unexplained += unknown.filter(|page| !page.idle && !page.hot).count();
            });
        looked.map_err(|error| error.to_string())?;
    }
    if unexplained > UNEXPLAINED_MAX {
        return Err(format!(
            "{unexplained} pages that nobody has written to are not the image's"
        ));
    }
    Ok(())
}

/// The ways to spoil a page.
#[derive(Clone, Copy, Debug)]
enum Spoiling {
    /// Each bit of a byte is turned.
    Invert,
    /// read(2) fills the page with zeros.
    Zeros,
    /// A byte is written that was there: code that runs now depends on it.
    Same,
    /// read(2) writes what was there.
    ReadBack,
}

/// Writes to the last page of the region that is in use.
fn spoil(image: &Image, region: &Region, way: Spoiling) -> io::Result<()> {
    let pages = image
        .pages
        .get(region.first_page..region.first_page + region.pages())
        .unwrap_or_default();
    let Some(page) = pages.iter().rposition(|page| !page.idle) else {
        return Ok(());
    };
    let address = region.addresses.start + page * PAGE;
    let target: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
    match way {
        Spoiling::Invert | Spoiling::Same => {
            // SAFETY: a page of a writable mapping.
            let value = unsafe { target.read_volatile() };
            let spoilt = if matches!(way, Spoiling::Invert) {
                !value
            } else {
                value
            };
            // SAFETY: as above. Only pages of PHP, which stands still, get another value.
            unsafe { target.write_volatile(spoilt) };
            Ok(())
        }
        Spoiling::Zeros => {
            let zero = rustix::fs::open(c"/dev/zero", OFlags::RDONLY, Mode::empty())?;
            fill(target, &zero)
        }
        Spoiling::ReadBack => {
            let (reader, writer) = rustix::pipe::pipe()?;
            // SAFETY: a readable page, which nobody writes to meanwhile.
            let page = unsafe { std::slice::from_raw_parts(target, PAGE) };
            rustix::io::write(&writer, page)?;
            fill(target, &reader)
        }
    }
}

fn fill(target: *mut u8, from: &OwnedFd) -> io::Result<()> {
    // SAFETY: a writable page that nobody uses before it is put back, or that gets what it has.
    let page = unsafe { std::slice::from_raw_parts_mut(target, PAGE) };
    rustix::io::read(from, page)?;
    Ok(())
}
