//! Maps the zygote's memory from the image's file: what a process forked from it writes to is then its own, and can be told.
//!
//! Runs in: zygote.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use ipc::logline::Level;
use rustix::mm::{MapFlags, ProtFlags, mmap};

use super::hot::{Entry, put_back, thread_pages};
use super::image::Image;
use super::kernel;
use super::regions::{self, PAGE, Region};
use crate::host;

/// Pages that the system may refuse to map from a file (executable ones, by a security module). They are copied after each request.
const REFUSED_MAX: usize = 64;

impl Image {
    /// Maps all memory from the file, except the thread's own pages, long idle pieces, and what the system refuses.
    pub(super) fn map_memory(&mut self, file: &impl AsFd, held: &[usize]) -> io::Result<()> {
        let mut refused = 0;
        for index in 0..self.regions.len() {
            let Some(region) = self.regions.get(index).cloned() else {
                break;
            };
            for piece in self.used(&region).iter().flat_map(without_thread) {
                if let Err(error) = map_piece(file, &region, &piece) {
                    if !matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
                        give_up(&region, &error);
                    }
                    refused += piece.len() / PAGE;
                    if refused > REFUSED_MAX {
                        let text = format!("{} cannot be mapped from the image: {error}", region.title());
                        return Err(io::Error::new(error.kind(), text));
                    }
                    continue;
                }
                let first = Self::number(&region, piece.start);
                let numbers = first..first + piece.len() / PAGE;
                let from = held.partition_point(|number| *number < numbers.start);
                let to = held.partition_point(|number| *number < numbers.end);
                self.compare(&region, held.get(from..to).unwrap_or_default())?;
                for page in self.pages.get_mut(numbers).unwrap_or_default() {
                    page.mapped = true;
                }
            }
        }
        for piece in self.long_idle() {
            kernel::give_back(&piece)?;
        }
        Ok(())
    }

    /// Compares mapped pages with what was copied. Those that differ are put right, since this process depends on them.
    fn compare(&self, region: &Region, numbers: &[usize]) -> io::Result<()> {
        let entry = |number: usize| Entry {
            address: region.addresses.start + (number - region.first_page) * PAGE,
            number,
        };
        let mut entries = numbers.iter().map(|number| entry(*number));
        if entries.all(|entry| self.is_equal(entry.address, entry.number)) {
            return Ok(());
        }
        for number in numbers {
            put_back(self, entry(*number));
        }
        let text = format!(
            "{}, mapped from the image, was not what had been copied",
            region.title()
        );
        Err(io::Error::other(text))
    }
}

/// A refusal leaves all as it was.
fn map_piece(file: &impl AsFd, region: &Region, piece: &Range<usize>) -> io::Result<()> {
    let mut rights = ProtFlags::READ | ProtFlags::WRITE;
    if region.executable {
        rights |= ProtFlags::EXEC;
    }
    // SAFETY: replaces memory by the same bytes at the same place; nobody runs meanwhile.
    unsafe {
        mmap(
            std::ptr::with_exposed_provenance_mut(piece.start),
            piece.len(),
            rights,
            MapFlags::PRIVATE | MapFlags::FIXED,
            file,
            (Image::number(region, piece.start) * PAGE) as u64,
        )
    }?;
    Ok(())
}

/// The kernel may have taken the old memory away before it failed (mmap(2), `MAP_FIXED`): nothing can go on in this process.
fn give_up(region: &Region, error: &io::Error) -> ! {
    let text = format!(
        "mapping {} from the image: {error}; the zygote ends, since its memory may be gone",
        region.title()
    );
    host::log(None, Level::ERROR, text.as_bytes());
    crate::process::quit(1)
}

/// The rest of `piece` without the pages of the thread.
fn without_thread(piece: &Range<usize>) -> Vec<Range<usize>> {
    regions::cut(piece.clone(), &[thread_pages()])
}
