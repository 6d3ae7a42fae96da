//! What a request leaves behind, as `sapi/sapi.h` declares it.
//!
//! Runs in: worker, zygote (warm-up).

use std::ffi::c_int;

use ipc::control::LeakKind;

use super::Str;

/// `sapi_leak`: something that a request left behind.
#[repr(C)]
pub(crate) struct Leak<'a> {
    kind: c_int,
    /// As in the application; UTF-8 where its names are.
    pub(crate) name: Str<'a>,
    /// `file:line`, or empty.
    pub(crate) place: Str<'a>,
    /// Types and sizes.
    pub(crate) change: Str<'a>,
    /// Memory that was kept; only for [`Self::kind`] `None`.
    pub(crate) bytes: i64,
}

impl Leak<'_> {
    /// What it is; `None` for memory.
    pub(crate) fn kind(&self) -> Option<LeakKind> {
        // In the order of `sapi_leak_kind`, whose first is memory.
        const KINDS: [LeakKind; 22] = [
            LeakKind::Global,
            LeakKind::StaticProperty,
            LeakKind::FunctionStatic,
            LeakKind::ObjectProperty,
            LeakKind::Objects,
            LeakKind::Setting,
            LeakKind::Handler,
            LeakKind::ShutdownFunction,
            LeakKind::Autoloader,
            LeakKind::Constant,
            LeakKind::Function,
            LeakKind::Classes,
            LeakKind::Resource,
            LeakKind::StreamWrapper,
            LeakKind::OutputBuffer,
            LeakKind::Environment,
            LeakKind::Locale,
            LeakKind::Timezone,
            LeakKind::Encoding,
            LeakKind::Directory,
            LeakKind::Umask,
            LeakKind::Descriptor,
        ];
        let index = usize::try_from(self.kind).ok()?.checked_sub(1)?;
        KINDS.get(index).copied()
    }
}

/// What is to be found out about a request: `sapi_leaks`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Find {
    /// Nothing.
    Nothing = 0,
    /// What it leaves in settings, handlers, resources and the process.
    Process = 1,
    /// That, and what it leaves in values.
    All = 2,
}
