//! Where everything of the host lives: one shared-anonymous region, and the allocator over it.
//!
//! A worker's private memory belongs to the request and may be put back to the image at any time; memory mapped
//! `MAP_SHARED` is not touched by that. So nothing of the host is in glibc's heap or in thread-locals: all Rust allocations come
//! from here. The allocator's own state is in the executable's data, which is left alone as well.
//!
//! A forked worker would share the region with its zygote. So the zygote prepares a copy before each fork ([`Copy::prepare`])
//! and the worker moves it over the original address ([`Copy::install`]) before it allocates anything. Neither side waits for
//! the other.
//!
//! Runs in: zygote | worker. One thread, no signal handlers: the allocator has no lock.

use std::alloc::Layout;
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed, munmap};
use talc::TalcCell;
use talc::base::{Talc, binning::Binning};
use talc::cell::TalcSyncCell;
use talc::source::Source;

/// Address space of the region. Untouched pages cost nothing.
const REGION_BYTES: usize = 32 << 20;
/// The allocator gets more of the region in steps of this.
const STEP_BYTES: usize = 256 << 10;

/// Start of the region; null before the first allocation. Relaxed everywhere: one thread.
static START: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Bytes of the region that the allocator has been given.
static CLAIMED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: zygote and workers have one thread (the zygote counts them before each fork, `std::thread::spawn` is a lint error), and
// no signal handler of theirs allocates.
#[cfg_attr(not(test), global_allocator)]
#[cfg_attr(test, expect(dead_code, reason = "the test harness has threads"))]
static ALLOCATOR: TalcSyncCell<Region, talc::DefaultBinning> =
    unsafe { TalcSyncCell::new(TalcCell::new(Region { end: None })) };

/// Hands the region to the allocator, step by step.
#[derive(Debug)]
struct Region {
    end: Option<NonNull<u8>>,
}

// SAFETY: `end` points into a mapping that belongs to the process, not to a thread.
unsafe impl Send for Region {}

// SAFETY: nothing here allocates: `mmap_anonymous` is a bare system call.
unsafe impl Source for Region {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        if START.load(Ordering::Relaxed).is_null() {
            START.store(map().map_err(|_| ())?, Ordering::Relaxed);
        }
        let start = START.load(Ordering::Relaxed).cast::<u8>();
        let claimed = CLAIMED.load(Ordering::Relaxed);
        // Twice the step leaves room for the allocator's own tables beside the largest thing that fits into one.
        let more = (layout.size() + layout.align() + 2 * STEP_BYTES).next_multiple_of(STEP_BYTES);
        let wanted = claimed
            .checked_add(more)
            .filter(|&bytes| bytes <= REGION_BYTES)
            .ok_or(())?;
        // SAFETY: `wanted` is within the region.
        let new_end = unsafe { start.add(wanted) };
        talc.source.end = match talc.source.end {
            // SAFETY: the bytes up to `new_end` are mapped, zeroed and used by nobody.
            None => unsafe { talc.claim(start, wanted) },
            // SAFETY: `end` is what the last call returned; the bytes behind it are mapped and used by nobody.
            Some(end) => Some(unsafe { talc.extend(end, new_end) }),
        };
        CLAIMED.store(wanted, Ordering::Relaxed);
        talc.source.end.map(drop).ok_or(())
    }
}

/// A copy of the region for a process that is about to be forked. Dropped in the parent.
#[derive(Debug)]
pub(crate) struct Copy {
    copy: *mut c_void,
}

impl Copy {
    /// Copies the region as it is now. Nothing may be allocated or freed between this and the fork.
    pub(crate) fn prepare() -> io::Result<Self> {
        let copy = map()?;
        let (start, claimed) = (START.load(Ordering::Relaxed), CLAIMED.load(Ordering::Relaxed));
        // SAFETY: both regions have REGION_BYTES ≥ claimed; the second one is new, so they do not overlap. One thread: nobody
        // writes meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(start.cast::<u8>(), copy.cast::<u8>(), claimed) };
        Ok(Self { copy })
    }

    /// Child: from here on the region is this process's own. Before anything is allocated, freed or changed.
    pub(crate) fn install(self) -> io::Result<()> {
        let start = START.load(Ordering::Relaxed);
        let copy = self.copy;
        std::mem::forget(self);
        // SAFETY: replaces the mapping of the region by one with the same bytes and length, so every pointer into it stays valid.
        unsafe { mremap_fixed(copy, REGION_BYTES, REGION_BYTES, MremapFlags::MAYMOVE, start) }?;
        Ok(())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing points into it.
        let _ = unsafe { munmap(self.copy, REGION_BYTES) };
    }
}

fn map() -> io::Result<*mut c_void> {
    // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
    let start = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            REGION_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::NORESERVE,
        )
    }?;
    Ok(start)
}
