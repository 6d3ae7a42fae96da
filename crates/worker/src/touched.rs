//! What C notes of a request besides memory, in the form of `sapi/sapi.h`.
//!
//! Runs in: zygote | worker. Made by `sapi/interpose.c`, read by `rewind`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ops::Range;
use std::ptr;

/// `sapi_range`: a piece of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    start: *mut c_void,
    len: usize,
}

impl Memory {
    /// No memory at all.
    pub(crate) const NONE: Self = Self {
        start: ptr::null_mut(),
        len: 0,
    };

    /// From addresses.
    pub(crate) fn new(addresses: &Range<usize>) -> Self {
        Self {
            start: ptr::with_exposed_provenance_mut(addresses.start),
            len: addresses.len(),
        }
    }

    /// Its addresses.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.start.expose_provenance();
        start..start + self.len
    }
}

/// `SAPI_MAPPINGS`.
const MAPPINGS: usize = 1024;

/// `sapi_touched`: what a request changed in its process, besides memory.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Touched {
    what: c_uint,
    /// Higher descriptors are the request's.
    pub(crate) last_boot_fd: c_int,
    call: *const c_char,
    mapping_count: usize,
    mappings: [Memory; MAPPINGS],
}

impl Touched {
    /// More mappings than could be noted.
    pub(crate) const MAPPINGS: c_uint = 0x001;
    /// The working directory.
    pub(crate) const DIRECTORY: c_uint = 0x002;
    /// The umask.
    pub(crate) const UMASK: c_uint = 0x004;
    /// An interval timer.
    pub(crate) const TIMERS: c_uint = 0x008;
    /// A signal's handler.
    pub(crate) const SIGNALS: c_uint = 0x010;
    /// The mask of signals.
    pub(crate) const MASK: c_uint = 0x020;
    /// A descriptor of the boot.
    pub(crate) const FDS: c_uint = 0x040;
    /// A thread was started.
    pub(crate) const THREADS: c_uint = 0x080;
    /// A process was started.
    pub(crate) const CHILDREN: c_uint = 0x200;
    /// Something that cannot be undone.
    pub(crate) const UNREWINDABLE: c_uint = 0x100;

    /// Whether one of `what` was touched.
    pub(crate) fn has(&self, what: c_uint) -> bool {
        self.what & what != 0
    }

    /// Name of the function that cannot be undone.
    pub(crate) fn call(&self) -> &'static str {
        if self.call.is_null() {
            return "";
        }
        // SAFETY: a string literal of interpose.c.
        let call = unsafe { CStr::from_ptr(self.call) };
        call.to_str().unwrap_or("")
    }

    /// Mappings that the request made and left.
    pub(crate) fn mappings(&self) -> &[Memory] {
        self.mappings.get(..self.mapping_count).unwrap_or(&self.mappings)
    }
}
