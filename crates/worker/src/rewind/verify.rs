//! Compares all memory with the image: the proof of a rewind, for the self-check at the start and for `--paranoid`.
//!
//! Runs in: worker.

use std::fmt::Write as _;
use std::io;

use super::clib::kernels_part;
use super::image::Image;
use super::kernel::Pagemap;
use super::regions::PAGE;

/// Pages that are named in a report.
const NAMED: usize = 8;

/// What differs from the image, page by page; empty if nothing does. Right after a rewind.
pub(super) fn differences(image: &Image, pagemap: &Pagemap) -> io::Result<String> {
    let mut report = String::new();
    let mut count = 0_usize;
    for region in &image.regions {
        pagemap.each_present(&region.addresses, |address, _| {
            let number = Image::number(region, address);
            let idle = image.pages.get(number).is_none_or(|page| page.idle);
            if idle || image.is_equal(address, number) {
                return;
            }
            let Some(offset) = first_difference(image, address, number) else {
                return;
            };
            count += 1;
            if count <= NAMED {
                // Writing to a string cannot fail.
                let _ = write!(
                    report,
                    "\n  {:#x} in {} ({:?} at {:#x})",
                    address + offset,
                    region.title(),
                    region.kind,
                    region.addresses.start
                );
            }
        })?;
    }
    if count > 0 {
        report.insert_str(0, &format!("{count} pages differ from the image"));
    }
    let spoilt = image.spoilt().count();
    if spoilt > 0 {
        // As above.
        let _ = write!(
            report,
            "\n  {spoilt} pages of the image itself were changed in this worker"
        );
    }
    Ok(report)
}

/// Offset of the first byte that should be equal and is not.
fn first_difference(image: &Image, address: usize, number: usize) -> Option<usize> {
    let kernels = kernels_part();
    (0..PAGE).find(|offset| {
        let here = address + offset;
        let now: *const u8 = std::ptr::with_exposed_provenance(here);
        // SAFETY: within a page of a readable mapping.
        let now = unsafe { now.read_volatile() };
        // SAFETY: within a page of the copy.
        let then = unsafe { image.source(number).wrapping_add(*offset).read() };
        now != then && !kernels.contains(&here)
    })
}
