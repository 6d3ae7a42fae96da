//! What the C library knows of this process: its libraries, and where the thread's own memory is.
//!
//! Runs in: zygote | worker.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use super::regions::PAGE;

/// Bytes of the area in which the kernel tells which CPU a thread runs on (rseq(2)), at least.
const RSEQ_MIN: usize = 32;

unsafe extern "C" {
    /// From the thread pointer, see `sys/rseq.h` (glibc 2.35).
    static __rseq_offset: isize;
    static __rseq_size: u32;
}

/// Writable memory of the loaded libraries and of the executable.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Of the executable: what the host keeps for itself.
    pub(super) executable: Range<usize>,
    /// Of each library.
    pub(super) libraries: Vec<Range<usize>>,
    seen: usize,
}

impl Loaded {
    /// What is loaded now.
    pub(super) fn find() -> Self {
        let mut found = Self::default();
        // SAFETY: `visit` is given the pointer to `found`, which lives until the call returns, and does not unwind.
        unsafe { libc::dl_iterate_phdr(Some(visit), std::ptr::from_mut(&mut found).cast()) };
        found
    }
}

/// # Safety
/// Called by `dl_iterate_phdr` with what [`Loaded::find`] passed.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    let found = unsafe { &mut *found.cast::<Loaded>() };
    // SAFETY: dl_iterate_phdr(3) hands over a valid structure.
    let info = unsafe { &*info };
    let headers: &[libc::Elf64_Phdr] = if info.dlpi_phnum == 0 {
        &[]
    } else {
        // SAFETY: as many headers as it says.
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
    };
    let main = found.seen == 0;
    found.seen += 1;
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W == 0 {
            continue;
        }
        let base = address(info.dlpi_addr.wrapping_add(header.p_vaddr));
        let range = base & !(PAGE - 1)..base.wrapping_add(address(header.p_memsz)).next_multiple_of(PAGE);
        if main {
            // The first one is the program itself (dl_iterate_phdr(3)).
            found.executable = range;
        } else {
            found.libraries.push(range);
        }
    }
    0
}

fn address(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Addresses that the kernel writes to whenever it pleases.
pub(super) fn kernels_part() -> std::ops::Range<usize> {
    // SAFETY: constants of the C library, set before main.
    let offset = unsafe { __rseq_offset };
    // SAFETY: as above.
    let size = unsafe { __rseq_size };
    let start = thread_pointer().wrapping_add_signed(offset);
    start..start + RSEQ_MIN.max(usize::try_from(size).unwrap_or(RSEQ_MIN))
}

/// Where the thread's own block begins (System V ABI for x86-64, thread-local storage: the block points to itself).
pub(super) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads the first word of the thread's block.
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}
