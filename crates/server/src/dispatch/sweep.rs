//! What nobody tells a reactor of, it looks for: deadlines that have passed, requests that are left waiting, wild writes.
//!
//! Called by `reactor`, and by `lease` for a worker that is to be killed.

use std::time::{Duration, Instant};

use ipc::server_side::Seen;
use ipc::slot::{Incarnation, SlotId, WorkerId};

use super::deadlines::Due;
use super::desk::Desk;
use super::slots::{Entry, Owner, Slots};
use super::workers::{About, WorkerOrder};
use super::{DispatchError, RequestId, lock};

/// How long a ticket may be handed out but not be there. An append under way takes nanoseconds, unless its thread is not run.
const STUCK: Duration = Duration::from_secs(1);
/// How long a worker may take from its ticket to its slot: nanoseconds, unless it is not run.
const TO_CLAIM: Duration = Duration::from_millis(20);

impl Desk {
    /// Looks for wild writes on the queue itself.
    fn sweep_queue(&self, slots: &mut Slots, now: Instant) {
        let stuck = self.memory.stuck_ticket();
        slots.stuck = stuck.map(|ticket| match slots.stuck {
            Some((known, since)) if known == ticket => (ticket, since),
            _ => (ticket, now),
        });
        let stuck = slots
            .stuck
            .is_some_and(|(_, since)| now.saturating_duration_since(since) > STUCK);
        if stuck || self.memory.is_poisoned() {
            let _ = self.orders.try_send(WorkerOrder::KillAll {
                reason: "the queue makes no sense",
            });
        }
    }

    /// Enforces deadlines, and sees to it that whatever waits finds a worker. Called ten times a second while slots are in use, and
    /// when it said so: at the next deadline that is known. `None`: no slot is in use.
    pub(super) fn sweep(&self, now: Instant) -> Option<Instant> {
        let mut slots = lock(&self.slots);
        self.sweep_queue(&mut slots, now);
        let mut next = Duration::MAX;
        let mut waits = false;
        let all: Vec<SlotId> = slots.in_use().collect();
        for &slot in &all {
            let Some(entry) = slots.entry(slot) else { continue };
            if entry.parked {
                self.sweep_queued(entry, now, |entry| {
                    entry.parked = false;
                    true
                });
            } else if entry.is_out() {
                next = next.min(self.sweep_one(slot, entry, now).unwrap_or(next));
                waits |= entry.running_since.is_none();
            }
        }
        drop(slots);
        if waits {
            // Whom a wake-up went to may have been stopped since.
            self.announce();
        }
        // Far enough to be of no interest.
        (!all.is_empty()).then(|| now + next.min(Duration::from_hours(1)))
    }

    /// How long until the next deadline.
    fn sweep_one(&self, slot: SlotId, entry: &mut Entry, now: Instant) -> Option<Duration> {
        let who = match self.memory.look(slot, entry.generation) {
            Seen::Queued => {
                self.sweep_queued(entry, now, |entry| entry.take_back(&self.memory, slot));
                return entry.renew_ticket(&self.memory, slot, (now, TO_CLAIM));
            }
            Seen::Running(w, inc) | Seen::Streaming(w, inc, _) => (w, inc),
            Seen::Done(..) => return None,
            Seen::Garbage => {
                // Only a wild write leads here, and nobody knows whose: the whole pool is suspect.
                let _ = self.orders.try_send(WorkerOrder::KillAll {
                    reason: "a slot word makes no sense",
                });
                return None;
            }
        };
        let since = *entry.running_since.get_or_insert_with(|| {
            let elapsed = self.elapsed(who.0, entry.request).unwrap_or_default();
            // A worker's word; it cannot have had the request before that was queued.
            now.checked_sub(elapsed).unwrap_or(now).max(entry.since)
        });
        let ran = now.saturating_duration_since(since);
        let deadlines = &self.limits.deadlines;
        self.do_due(deadlines.due(ran, entry.asked), who, (slot, entry));
        if deadlines.timed_out(ran) && matches!(entry.owner, Owner::Lease(_)) && entry.failure.is_none() {
            let limit = deadlines.request_timeout;
            entry.failure = Some(DispatchError::RequestTimeout { limit });
            entry.wake();
        }
        deadlines.next(ran)
    }

    fn do_due(&self, due: Due, who: (WorkerId, Incarnation), (slot, entry): (SlotId, &mut Entry)) {
        let limit = self.limits.deadlines.request_timeout;
        match due {
            Due::Nothing => {}
            // A full channel: the next sweep asks again.
            Due::Look => entry.asked.look = self.ask(who, (slot, entry.request), About::Slow),
            Due::End => entry.asked.end = self.ask(who, (slot, entry.request), About::Timeout { limit }),
            // Asked again at each sweep until the worker is dead.
            Due::Kill => {
                let reason = if self.limits.deadlines.request_grace.is_zero() {
                    "it ran longer than request_timeout"
                } else {
                    "it did not end within request_grace after request_timeout"
                };
                self.kill(who.0, who.1, Some(entry.request), reason);
            }
        }
    }

    /// Asks supervise to have the log say where a request stands. False: it has too much to do.
    fn ask(&self, who: (WorkerId, Incarnation), (slot, request): (SlotId, RequestId), about: About) -> bool {
        let running = self.running(who, slot, request);
        self.orders.try_send(WorkerOrder::Ask { running, about }).is_ok()
    }

    /// Ends what has waited too long, if `take_back` can get it.
    fn sweep_queued(&self, entry: &mut Entry, now: Instant, take_back: impl FnOnce(&mut Entry) -> bool) {
        let waited = now.saturating_duration_since(entry.since);
        let failure = if self.is_given_up() {
            DispatchError::Stopping
        } else if waited > self.limits.queue_timeout {
            DispatchError::QueueTimeout {
                pool: self.pool.clone(),
                waited,
            }
        } else {
            return;
        };
        if take_back(entry) {
            entry.failure = Some(failure);
            entry.wake();
        }
    }

    /// Asks supervise to kill a worker.
    pub(super) fn kill(
        &self,
        worker: WorkerId,
        incarnation: Incarnation,
        request: Option<RequestId>,
        reason: &'static str,
    ) {
        // A full channel means that supervise has much to do already; the sweep asks again.
        let _ = self.orders.try_send(WorkerOrder::Kill {
            worker,
            incarnation,
            request,
            reason,
        });
    }
}
