//! What a rewind does otherwise where the address sanitizer watches (`HEARTH_SANITIZE`, see build.rs). Its state is memory like all
//! other, and is put back with it. But it checks what `memcpy` touches, which a rewind may always; and it describes all memory
//! in a *shadow* of 14 TiB, of which nearly nothing exists.
//!
//! Without the sanitizer all this is what one would have written in its place.
//!
//! Runs in: zygote | worker.

use std::io;
use std::ops::Range;

use super::image::Image;
use super::kernel::{Looking, Pagemap};
use super::regions::{self, PAGE};

/// The shadow on x86-64 (compiler-rt and libsanitizer, `asan_mapping.h`: an eighth of 2^47 bytes from 0x7fff8000 on).
const SHADOW: Range<usize> = 0x7fff_7000..0x1000_7fff_8000;

/// Whether this is memory that describes memory.
pub(super) fn is_shadow(addresses: &Range<usize>) -> bool {
    cfg!(sanitized) && SHADOW.start <= addresses.start && addresses.end <= SHADOW.end
}

/// Copies bytes of PHP's memory.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(not(sanitized))]
    // SAFETY: as the caller promises.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, len);
    }
    #[cfg(sanitized)]
    // SAFETY: as the caller promises; System V ABI for x86-64: the direction flag is clear.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Whether two pages hold the same.
///
/// # Safety
/// Both can be read, and nobody writes to them meanwhile.
pub(super) unsafe fn is_equal(one: *const u8, other: *const u8) -> bool {
    if cfg!(sanitized) {
        return (0..PAGE).all(|offset| {
            // SAFETY: as the caller promises.
            let one = unsafe { one.wrapping_add(offset).read_volatile() };
            // SAFETY: as the caller promises.
            let other = unsafe { other.wrapping_add(offset).read_volatile() };
            one == other
        });
    }
    // SAFETY: as the caller promises.
    let one = unsafe { std::slice::from_raw_parts(one, PAGE) };
    // SAFETY: as the caller promises.
    let other = unsafe { std::slice::from_raw_parts(other, PAGE) };
    one == other
}

/// The pieces of `range` that exist.
pub(super) fn present(pagemap: &Pagemap, range: &Range<usize>) -> io::Result<Vec<Range<usize>>> {
    let mut pieces = Vec::new();
    pagemap.each(range, Looking::Present, |piece| pieces.push(piece))?;
    Ok(pieces)
}

/// Drops what a request has added to the shadow: what it describes is not there any more.
pub(super) fn drop_added_shadow(image: &Image, pagemap: &Pagemap) -> io::Result<()> {
    if cfg!(not(sanitized)) {
        return Ok(());
    }
    for piece in present(pagemap, &SHADOW)? {
        for page in piece.step_by(PAGE) {
            if regions::at(&image.regions, page).is_none() {
                super::kernel::give_back(&(page..page + PAGE))?;
            }
        }
    }
    Ok(())
}
