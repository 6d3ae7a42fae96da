//! The proof, once per zygote, that this kernel and this image can do what a rewind needs: a fork of the zygote spoils memory in
//! each way there is, puts itself back, and compares everything.
//!
//! Runs in: zygote, and a short-lived child of it.

use std::io::{self, Read};

use rustix::process::{WaitOptions, waitpid};

use super::Rewinder;
use super::image::Image;
use super::regions::{Kind, PAGE, Region};
use crate::php::{Exchange, Php};
use crate::process::{self, Forked};

/// How often memory is spoilt and put back: enough for pages to become hot.
const ROUNDS: usize = 4;

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
    for round in 0..ROUNDS {
        for region in &image.regions {
            spoil(image, region, round).map_err(|error| format!("writing to {}: {error}", region.name))?;
        }
        rewinder.rewind(php).map_err(|stuck| stuck.to_string())?;
        let report = rewinder.differences().map_err(|error| error.to_string())?;
        if !report.is_empty() {
            return Err(report);
        }
    }
    Ok(())
}

/// Writes to one page of the region, on its own or by a system call. What code that runs now depends on gets the value it has.
fn spoil(image: &Image, region: &Region, round: usize) -> io::Result<()> {
    let pages = image
        .pages
        .get(region.first_page..region.first_page + region.pages())
        .unwrap_or_default();
    let Some(page) = pages.iter().rposition(|page| !page.idle) else {
        return Ok(());
    };
    let address = region.addresses.start + page * PAGE;
    let target: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
    if region.kind == Kind::Heap && round % 2 == 1 {
        let zero = rustix::fs::open(
            c"/dev/zero",
            rustix::fs::OFlags::RDONLY,
            rustix::fs::Mode::empty(),
        )?;
        // SAFETY: a page of PHP's heap, which nobody uses before it is put back.
        let page = unsafe { std::slice::from_raw_parts_mut(target, PAGE) };
        rustix::io::read(&zero, page)?;
        return Ok(());
    }
    // SAFETY: a page of a writable mapping.
    let value = unsafe { target.read_volatile() };
    let spoilt = if region.kind == Kind::Heap { !value } else { value };
    // SAFETY: as above. Heap pages belong to PHP, which stands still; all others keep their value.
    unsafe { target.write_volatile(spoilt) };
    Ok(())
}
