//! What PHP asks of its host, answered from shared memory: a worker's side of one exchange after the other.
//!
//! Nothing here calls PHP, and nothing allocates in the course of a request, except for log messages and spooled bodies.
//!
//! Runs in: worker (and zygote, for [`Host::log`]). Called by: `php`, on the PHP stack; [`Host::begin`] and [`Host::end`] by
//! `serve`.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use ipc::control::{self, FromWorker};
use ipc::logline::{self, Level};
use ipc::scoreboard::{Undone, WorkerBlock};
use ipc::worker_side::{Exchange, Next, WorkerSide};

use crate::body::{self, Body};
use crate::leaks::Leaks;
use crate::php::Asked;
use crate::{php, process};

/// Bytes of boot errors that are kept for the server.
const BOOT_ERRORS_MAX: usize = 8 * 1024;

/// Errors that PHP reported outside of a request; see [`take_boot_errors`].
static BOOT_ERRORS: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// This worker's entry on the scoreboard, for signal handlers; null before there is one.
static BOARD: AtomicPtr<WorkerBlock> = AtomicPtr::new(ptr::null_mut());

/// A worker's connection to the server, and the exchange that it runs.
#[derive(Debug)]
pub(crate) struct Host {
    side: WorkerSide,
    control: OwnedFd,
    current: Option<Current>,
}

/// One exchange.
#[derive(Debug)]
struct Current {
    exchange: Exchange,
    id: u64,
    body: Body,
    /// Something was written that the server has not been told of.
    unflushed: bool,
    /// The response is complete and the slot belongs to the server again.
    complete: bool,
    leaks: Leaks,
}

impl Host {
    /// A worker that runs nothing yet. `control` is its socket to the server. Lives as long as the process.
    pub(crate) fn new(side: WorkerSide, control: OwnedFd) -> Self {
        // Relaxed: read by this thread only.
        BOARD.store(ptr::from_ref(side.board()).cast_mut(), Ordering::Relaxed);
        Self {
            side,
            control,
            current: None,
        }
    }

    /// Waits for a request and copies its head to `head`. False: the worker is to end.
    ///
    /// The head is copied because the server reuses the slot when the response is complete, while the script may go on
    /// (`fastcgi_finish_request()`) and look at its variables.
    pub(crate) fn begin(&mut self, head: &mut Vec<u8>) -> bool {
        loop {
            let mut exchange = match self.side.next() {
                Next::Exchange(exchange) => exchange,
                Next::Drain => return false,
            };
            let Some((reader, (kind, body_len))) = self
                .side
                .request(&exchange)
                .and_then(|reader| Some((reader, reader.body()?)))
            else {
                // The server is trusted, so this is a bug of ours; the client shall know at least.
                log(None, Level::ERROR, b"a request head makes no sense");
                let _ = self.side.send_head(&mut exchange, 500, b"", std::iter::empty());
                let _ = self.side.done(&mut exchange);
                continue;
            };
            head.clear();
            head.extend_from_slice(reader.bytes());
            self.current = Some(Current {
                id: reader.id(),
                body: Body::new(kind, reader.len(), body_len),
                exchange,
                unflushed: false,
                complete: false,
                leaks: Leaks::default(),
            });
            return true;
        }
    }

    /// PHP is through with the request: completes the response, unless that has been done.
    pub(crate) fn end(&mut self) {
        self.complete();
        self.current = None;
        self.side.finished();
    }

    /// Tells what rewinding has taken so far.
    pub(crate) fn tell_undone(&self, undone: &Undone) {
        self.side.board().set_undone(undone);
    }

    /// Completes the response, unless that has been done.
    pub(crate) fn complete(&mut self) {
        if let Some((side, current)) = self.open() {
            // Gone, from either: the server has answered in our place.
            if !current.exchange.head_sent() {
                let _ = side.send_head(&mut current.exchange, 500, b"", std::iter::empty());
            }
            let _ = side.done(&mut current.exchange);
            current.complete = true;
        }
    }

    /// Tells the server what the request left behind, if PHP has looked.
    pub(crate) fn tell_leaks(&mut self, method: &[u8], uri: &[u8]) {
        let Some(current) = &mut self.current else { return };
        if let Some(message) = std::mem::take(&mut current.leaks).message(current.id, method, uri)
            // A server that does not listen is about to end, and this worker with it.
            && let Err(error) = control::send(self.control.as_fd(), &FromWorker::Leaks(message), &[])
        {
            self.say(
                Level::WARNING,
                &format!("telling the server what was left behind: {error}"),
            );
        }
    }

    /// A child of this process has run the exchange to its end.
    pub(crate) fn ended_elsewhere(&mut self) {
        if let Some(current) = self.current.take() {
            self.side.take_back(&current.exchange);
        }
    }

    /// Lets children run exchanges in this process's place.
    pub(crate) fn share_with_children(&self) -> std::io::Result<()> {
        self.side.share_with_children()
    }

    /// Puts `message` into the log, with the request's id if one runs.
    pub(crate) fn say(&self, level: Level, message: &str) {
        log(
            self.current.as_ref().map(|current| current.id),
            level,
            message.as_bytes(),
        );
    }

    /// The exchange, as long as the server waits for its response.
    fn open(&mut self) -> Option<(&mut WorkerSide, &mut Current)> {
        let current = self.current.as_mut().filter(|current| !current.complete)?;
        Some((&mut self.side, current))
    }
}

impl php::Exchange for Host {
    fn write(&mut self, bytes: &[u8]) -> usize {
        let Some((side, current)) = self.open() else {
            // After the end of the response output goes nowhere, as under php-fpm.
            return bytes.len();
        };
        if !current.exchange.head_sent() {
            // The script's last head was an interim one. `complete` sends a final one.
            return bytes.len();
        }
        current.unflushed = true;
        match side.write(&mut current.exchange, bytes) {
            Ok(()) => bytes.len(),
            Err(_) => 0,
        }
    }

    fn flush(&mut self) -> bool {
        let Some((side, current)) = self.open() else {
            return true;
        };
        if !std::mem::take(&mut current.unflushed) {
            return !side.client_gone(&current.exchange);
        }
        side.flush(&mut current.exchange).is_ok()
    }

    fn send_headers(&mut self, status: u16, reason: &[u8], lines: &[php::Str<'_>]) -> bool {
        let Some((side, current)) = self.open() else {
            return true;
        };
        let lines = lines.iter().map(php::Str::as_bytes);
        let sent = side
            .send_head(&mut current.exchange, status, reason, lines)
            .is_ok();
        current.unflushed = true;
        // An interim head is of use only before the final one.
        sent && (status >= 200 || self.flush())
    }

    fn read_body(&mut self, buffer: &mut [u8]) -> usize {
        let Some(current) = self.current.as_mut().filter(|current| !current.complete) else {
            return 0;
        };
        let area = self.side.area(&current.exchange);
        let name = WorkerSide::name_of(&current.exchange);
        current
            .body
            .read(area, buffer, || body::fetch(&self.control, name))
    }

    fn finish(&mut self) {
        self.complete();
    }

    fn aborted(&mut self) -> bool {
        self.open()
            .is_some_and(|(side, current)| side.client_gone(&current.exchange))
    }

    fn reload(&mut self) {
        // A server that does not listen is about to end, and this worker with it.
        if let Err(error) = control::send(self.control.as_fd(), &FromWorker::ReloadWanted, &[]) {
            self.say(Level::WARNING, &format!("asking for a reload: {error}"));
        }
    }

    fn asked() -> Asked {
        // Relaxed: stored by this thread.
        let board = BOARD.load(Ordering::Relaxed);
        // SAFETY: null, or an entry in a mapping that stays as long as the process; it consists of atomics.
        let board = unsafe { board.as_ref() };
        // Relaxed: stored before the signal was sent.
        board.map_or(Asked::default(), |board| Asked {
            request: board.asked.load(Ordering::Relaxed),
            limit_ms: board.asked_limit.load(Ordering::Relaxed),
        })
    }

    fn stack(request: u64, text: &[u8]) {
        let mut record = [0; logline::STACK_MAX];
        let len = logline::stack(&mut record, request, text);
        process::write_stderr(record.get(..len).unwrap_or_default());
    }

    fn leak(&mut self, leak: &php::Leak<'_>) {
        if let Some(current) = &mut self.current {
            current.leaks.add(leak);
        }
    }

    fn log(exchange: Option<&mut Self>, level: i32, message: &[u8]) {
        let level = Level::new(level);
        let request = exchange.and_then(|host| host.current.as_ref().map(|current| current.id));
        if request.is_none() && level <= Level::ERROR {
            keep_boot_error(message);
        }
        log(request, level, message);
    }
}

/// What PHP said was wrong since the last call, outside of requests: why the application did not boot.
pub(crate) fn take_boot_errors() -> String {
    let bytes = std::mem::take(&mut *BOOT_ERRORS.lock().unwrap_or_else(PoisonError::into_inner));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn keep_boot_error(message: &[u8]) {
    let mut kept = BOOT_ERRORS.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() + message.len() <= BOOT_ERRORS_MAX {
        if !kept.is_empty() {
            kept.push(b'\n');
        }
        kept.extend_from_slice(message);
    }
}

/// One record, in one write.
pub(crate) fn log(request: Option<u64>, level: Level, message: &[u8]) {
    let mut record = Vec::with_capacity(message.len() + 64);
    logline::push(&mut record, request, level, message);
    process::write_stderr(&record);
}
