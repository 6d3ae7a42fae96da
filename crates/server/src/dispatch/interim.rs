//! Interim responses (103 and the like): what a script says before its response, on the way to whoever can send it.
//!
//! Put in by `exchange`, taken out by `edge`, both on the same reactor; without a taker they are not asked for. Runs in: server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap};
use http::{HeaderName, StatusCode};

/// Most that wait at a time; more are dropped, which costs nothing but time.
const WAITING: usize = 16;
/// What says something of the response's body, or of its time.
const OF_RESPONSE: [HeaderName; 3] = [CONTENT_LENGTH, CONTENT_TYPE, DATE];

/// Those that have not been sent.
#[derive(Debug, Default)]
pub struct Interim {
    any: AtomicBool,
    waiting: Mutex<Vec<(StatusCode, HeaderMap)>>,
}

impl Interim {
    /// Adds one.
    pub(super) fn put(&self, status: StatusCode, mut headers: HeaderMap) {
        for name in OF_RESPONSE {
            headers.remove(name);
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // RFC 9110 §15.2.1: 100 is for the server itself to send.
        if waiting.len() < WAITING && status != StatusCode::CONTINUE {
            waiting.push((status, headers));
            // Relaxed: a hint for the same thread.
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Takes all, in order.
    pub fn take(&self) -> Vec<(StatusCode, HeaderMap)> {
        if !self.any() {
            return Vec::new();
        }
        // Relaxed: as above.
        self.any.store(false, Ordering::Relaxed);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting)
    }

    /// Whether there is one.
    pub fn any(&self) -> bool {
        // Relaxed: as above.
        self.any.load(Ordering::Relaxed)
    }
}
