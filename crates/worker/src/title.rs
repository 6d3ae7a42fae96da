//! What `ps` shows of a process: its role and what it is at.
//!
//! The title is written over the arguments, in the memory in which the kernel put them. That is at the end of the main stack, which
//! is the host's, so a rewind leaves it alone; and it takes no system call, so a worker can show each request.
//! Runs in: zygote | worker. Called by `zygote` and `serve`.

use std::ffi::CString;

use crate::process;

/// The memory that `ps` reads. Without any, nothing is shown.
pub(crate) struct Title {
    /// Address of the first byte.
    first: usize,
    /// Bytes, without the last, which stays NUL.
    room: usize,
    /// Bytes of it that say who this is.
    role: usize,
    /// Bytes in use.
    used: usize,
}

impl Title {
    /// Shows `role` as command line and `short` (15 bytes) as name. Best effort: on failure the old title stays.
    pub(crate) fn new(role: &str, short: &str) -> Self {
        if let Ok(name) = CString::new(short) {
            let _ = rustix::thread::set_name(&name);
        }
        let (first, room) = area().unwrap_or((0, 0));
        let mut title = Self {
            first,
            room,
            role: 0,
            used: room,
        };
        title.write(0, &[role.as_bytes()]);
        title.role = title.used;
        title
    }

    /// Waits for a request.
    pub(crate) fn idle(&mut self) {
        self.write(self.role, &[b" idle"]);
    }

    /// Runs a request. What is behind the `?` of its URI is not for everybody's eyes.
    pub(crate) fn running(&mut self, method: &[u8], uri: &[u8]) {
        let path = uri.split(|&byte| byte == b'?').next().unwrap_or_default();
        self.write(self.role, &[b" running ", method, b" ", path]);
    }

    /// Puts `parts` at `at`, as far as there is room, and nothing behind them.
    fn write(&mut self, at: usize, parts: &[&[u8]]) {
        let mut end = at;
        for &byte in parts.iter().copied().flatten().take(self.room.saturating_sub(at)) {
            self.put(
                end,
                if byte.is_ascii_graphic() || byte == b' ' {
                    byte
                } else {
                    b'?'
                },
            );
            end += 1;
        }
        for behind in end..self.used {
            self.put(behind, 0);
        }
        self.used = end;
    }

    fn put(&self, at: usize, byte: u8) {
        if at < self.room {
            let place = std::ptr::with_exposed_provenance_mut::<u8>(self.first + at);
            // SAFETY: [first, first + room) is the writable memory in which the kernel put the arguments. They are read once, at the
            // start of main, before any title is set.
            unsafe { place.write(byte) };
        }
    }
}

/// First byte and length, but for the last byte, of the arguments' memory.
fn area() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // proc(5): arg_start and arg_end are fields 48 and 49.
    let (first, end) = (process::stat_field(&stat, 48)?, process::stat_field(&stat, 49)?);
    let length = end.checked_sub(first).filter(|&length| first > 0 && length > 1)?;
    Some((first, length - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(memory: &[u8]) -> &str {
        std::str::from_utf8(memory).unwrap().trim_end_matches('\0')
    }

    #[test]
    fn a_title_says_what_the_process_is_at_and_never_more_than_fits() {
        let memory = [b'x'; 40];
        let mut title = Title {
            first: memory.as_ptr().expose_provenance(),
            room: 39,
            role: 0,
            used: 39,
        };
        let look = || shown(&memory[..39]).to_owned();
        title.write(0, &[b"worker 1"]);
        title.role = title.used;
        assert_eq!(look(), "worker 1");
        title.running(b"GET", b"/a\x1b?token=secret");
        assert_eq!(look(), "worker 1 running GET /a?");
        title.idle();
        assert_eq!(look(), "worker 1 idle");
        title.running(b"GET", &[b'/'; 100]);
        assert_eq!(look(), format!("worker 1 running GET {}", "/".repeat(18)));
        assert_eq!(memory[39], b'x');
        title.idle();
        assert_eq!(look(), "worker 1 idle");
    }
}
