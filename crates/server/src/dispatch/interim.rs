//! Interim responses (103 and the like): what a script says before its response, on the way to whoever can send it.
//!
//! Put in by `exchange`, taken out by `edge`, both on the same reactor; without a taker they are not asked for. Runs in: server.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap};
use http::{HeaderName, StatusCode};

/// Most that wait at a time; the script waits for room then.
const WAITING: usize = 16;
/// What says something of the response's body, or of its time.
const OF_RESPONSE: [HeaderName; 3] = [CONTENT_LENGTH, CONTENT_TYPE, DATE];

/// Those that have not been sent.
#[derive(Debug, Default)]
pub struct Interim {
    any: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    heads: Vec<(StatusCode, HeaderMap)>,
    /// Who waits until they are taken.
    waker: Option<Waker>,
}

impl Interim {
    /// Adds one, once there is room for it.
    pub(super) async fn put(&self, status: StatusCode, mut headers: HeaderMap) {
        // RFC 9110 §15.2.1: 100 is for the server itself to send.
        if status == StatusCode::CONTINUE {
            return;
        }
        for name in OF_RESPONSE {
            headers.remove(name);
        }
        self.fewer_than(WAITING).await;
        self.lock().heads.push((status, headers));
        // Relaxed: a hint for the same thread.
        self.any.store(true, Ordering::Relaxed);
    }

    /// Waits until all have been taken.
    pub async fn taken(&self) {
        if self.any() {
            self.fewer_than(1).await;
        }
    }

    async fn fewer_than(&self, count: usize) {
        poll_fn(|cx| {
            let mut waiting = self.lock();
            if waiting.heads.len() < count {
                return Poll::Ready(());
            }
            waiting.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Takes all, in order.
    pub fn take(&self) -> Vec<(StatusCode, HeaderMap)> {
        if !self.any() {
            return Vec::new();
        }
        // Relaxed: as above.
        self.any.store(false, Ordering::Relaxed);
        let mut waiting = self.lock();
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
        std::mem::take(&mut waiting.heads)
    }

    /// Whether there is one.
    pub fn any(&self) -> bool {
        // Relaxed: as above.
        self.any.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
