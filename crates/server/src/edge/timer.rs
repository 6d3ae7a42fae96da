//! A connection's one timer: it is armed anew only when it fires or when a deadline comes nearer.
//!
//! Called by `http1` and `http2`. Runs in: server, on one reactor.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::progress::{Fault, Progress};
use crate::config::Limits;

/// Longest time between two looks at a connection's deadlines while none is near.
const LOOK: Duration = Duration::from_mins(1);

/// The connection's one timer.
pub(super) struct Timer<'a> {
    sleep: Pin<&'a mut Sleep>,
    started: bool,
}

impl<'a> Timer<'a> {
    pub(super) fn new(sleep: Pin<&'a mut Sleep>) -> Self {
        Self {
            sleep,
            started: false,
        }
    }

    /// Ready when a deadline has passed.
    pub(super) fn check(
        &mut self,
        cx: &mut Context<'_>,
        progress: &Progress,
        limits: &Limits,
    ) -> Poll<Fault> {
        let deadline = progress.deadline(limits);
        let nearer = deadline.is_some_and(|(at, _)| at < self.sleep.deadline());
        if self.started && !nearer && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        self.started = true;
        loop {
            if nearer || self.sleep.is_elapsed() {
                let now = Instant::now();
                match deadline {
                    Some((at, fault)) if at <= now => return Poll::Ready(fault),
                    Some((at, _)) => self.sleep.as_mut().reset(at),
                    None => self.sleep.as_mut().reset(now + LOOK),
                }
            }
            // Registers the wake-up; ready only when the time has passed meanwhile.
            if self.sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
