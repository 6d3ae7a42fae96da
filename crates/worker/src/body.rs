//! The body of a request, as PHP reads it: from the request area, or from a file that the server has spooled it to.
//!
//! Runs in: worker. Called by `host`.

use std::os::fd::{AsFd, OwnedFd};

use ipc::control::{self, FromWorker, ToWorker, exit};
use ipc::head::BodyKind;
use ipc::logline::Level;
use ipc::slot::{Gen, SlotId};

use crate::{host, process};

/// Where the body is, and how far it has been read.
#[derive(Debug)]
pub(crate) enum Body {
    /// Bytes of the request area.
    InSlot {
        /// The next one.
        at: usize,
        /// Behind the last one.
        end: usize,
    },
    /// A file, asked for when it is first read.
    Spooled {
        /// The file, once the server has handed it over.
        file: Option<OwnedFd>,
        /// The next byte.
        at: u64,
    },
}

impl Body {
    /// The body of a request whose head has `head_len` bytes.
    pub(crate) fn new(kind: BodyKind, head_len: usize, body_len: u64) -> Self {
        match kind {
            BodyKind::Empty => Self::InSlot { at: 0, end: 0 },
            BodyKind::InSlot => Self::InSlot {
                at: head_len,
                end: head_len.saturating_add(usize::try_from(body_len).unwrap_or(0)),
            },
            BodyKind::Spooled => Self::Spooled { file: None, at: 0 },
        }
    }

    /// Fills `buffer` with the next bytes; 0 at the end. `area` is the request area, `fetch` gets the file.
    pub(crate) fn read(
        &mut self,
        area: &[u8],
        buffer: &mut [u8],
        fetch: impl FnOnce() -> Option<OwnedFd>,
    ) -> usize {
        match self {
            Self::InSlot { at, end } => {
                let rest = area.get(*at..*end).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                if let (Some(target), Some(source)) = (buffer.get_mut(..count), rest.get(..count)) {
                    target.copy_from_slice(source);
                }
                *at += count;
                count
            }
            Self::Spooled { file, at } => {
                if file.is_none() {
                    *file = fetch();
                }
                let count = file.as_ref().map_or(0, |file| read_at(file, buffer, *at));
                *at += count as u64;
                count
            }
        }
    }
}

fn read_at(file: &OwnedFd, buffer: &mut [u8], at: u64) -> usize {
    loop {
        match rustix::io::pread(file, &mut *buffer, at) {
            Ok(count) => return count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                host::log(
                    None,
                    Level::ERROR,
                    format!("reading the spooled body: {error}").as_bytes(),
                );
                return 0;
            }
        }
    }
}

/// Asks the server for the file. `None`: the exchange is no longer ours, its client is gone. Ends the process when the server
/// cannot be understood.
pub(crate) fn fetch(control: &OwnedFd, (slot, generation): (SlotId, Gen)) -> Option<OwnedFd> {
    let (slot, generation) = (slot.0, generation.get());
    let ask = FromWorker::BodyFd { slot, generation };
    if let Err(error) = control::send(control.as_fd(), &ask, &[]) {
        give_up(&error);
    }
    loop {
        match control::receive(control.as_fd()) {
            Ok(Some((
                ToWorker::Body {
                    slot: s,
                    generation: g,
                },
                fds,
            ))) if (s, g) == (slot, generation) => {
                return fds.into_iter().next();
            }
            // The answer to an earlier question, which a rewound or unwound request did not wait for.
            Ok(Some(_)) => {}
            Ok(None) => give_up(&std::io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => give_up(&error),
        }
    }
}

fn give_up(error: &std::io::Error) -> ! {
    host::log(
        None,
        Level::ERROR,
        format!("the control socket to the server: {error}").as_bytes(),
    );
    process::quit(exit::PROTOCOL)
}
