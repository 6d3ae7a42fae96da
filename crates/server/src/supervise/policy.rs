//! What to do about the zygote and the workers: pure, so that tables can test it.
//!
//! [`State`] hears what happened ([`State::worker_ended`], …) and [`State::plan`] says what to do now and when to look again. It
//! starts nothing and reads no clock. Called by the supervisor only. Runs in: server.

use std::time::{Duration, Instant};

use super::ending::Ending;

/// Crashes in a row of one worker number without delay: a killed worker is replaced at once.
const FREE_CRASHES: u32 = 3;
/// Delay of the first fork that is delayed; doubles with each further crash.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Longest delay between two forks of a worker number.
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// The same for workers that got as far as a request: it was that which crashed them, and others wait.
const LONGEST_DELAY_AT_WORK: Duration = Duration::from_millis(200);
/// How long the zygote may take to fork, which is a matter of milliseconds; then it hangs.
const FORK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a worker may take from its fork to its first message, which is a matter of milliseconds; then it is given up.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);
/// Delay before a zygote is started after one that did not boot; doubles with each further failure.
const FIRST_BOOT_DELAY: Duration = Duration::from_millis(500);
/// Longest delay between two starts of the zygote.
const LONGEST_BOOT_DELAY: Duration = Duration::from_secs(30);

/// A fork that is tried again no sooner than this has failed often enough: about two seconds after the first attempt.
const HOPELESS: Duration = Duration::from_millis(1600);

/// What the supervisor is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Start a zygote.
    StartZygote,
    /// The zygote has not done in time what it was told: kill it. The reason is for the log.
    KillZygote(&'static str),
    /// Ask the zygote for worker `.0`.
    Fork(u16),
    /// Worker `.0` was forked and has not said in time that it runs: end it. It is lost from now on.
    GiveUp(u16),
}

/// What to do now, and when to ask again if nothing happens.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) actions: Vec<Action>,
    pub(super) wake_at: Option<Instant>,
}

/// The zygote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zygote {
    /// None runs; one may be started from this moment on.
    Down {
        since: Option<Instant>,
    },
    Booting {
        until: Instant,
    },
    /// It was killed; its death has not been heard of yet.
    Condemned,
    Ready,
    /// It had booted, but did not fork when asked to; it was killed.
    Hung,
}

/// One worker number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// No process; one may be forked from this moment on (`None`: at once).
    Empty { until: Option<Instant> },
    /// The zygote was asked; it is given up at `until`.
    Forking { until: Instant },
    /// The zygote has forked; the worker is given up at `until` unless it speaks.
    Forked { until: Instant },
    /// A process may run, of which only its end will be heard. As long as its zygote holds what belongs to it, that is not heard: the
    /// zygote is given up at `until`.
    Lost { until: Option<Instant> },
    /// A process runs.
    Taken,
}

/// What is known about the pool's processes.
#[derive(Debug)]
pub(super) struct State {
    boot_timeout: Duration,
    zygote: Zygote,
    boot_failures: u32,
    /// Whether the zygote has forked a worker that ran.
    fruitful: bool,
    /// Zygotes in a row that have booted and not done so, while no worker was left.
    barren: u32,
    seats: Vec<(Seat, u32)>,
    /// Seats that are to be taken: the first ones.
    wanted: usize,
    held: bool,
    stopping: bool,
}

/// What a worker did before it ended: figures of the scoreboard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// It took at least one request.
    pub(super) claimed: bool,
    /// It finished at least one request.
    pub(super) finished: bool,
}

impl State {
    pub(super) fn new(workers: u16, boot_timeout: Duration) -> Self {
        Self {
            boot_timeout,
            zygote: Zygote::Down { since: None },
            boot_failures: 0,
            fruitful: false,
            barren: 0,
            seats: (0..workers).map(|_| (Seat::Empty { until: None }, 0)).collect(),
            wanted: usize::from(workers),
            held: false,
            stopping: false,
        }
    }

    /// What to do at `now`. The actions are taken as done.
    pub(super) fn plan(&mut self, now: Instant) -> Plan {
        let mut plan = Plan::default();
        if self.stopping {
            return plan;
        }
        match self.zygote {
            // Nobody needs one that is to fork nothing.
            Zygote::Down { .. } if self.wanted == 0 => {}
            Zygote::Down { since } if since.is_none_or(|at| at <= now) => {
                plan.actions.push(Action::StartZygote);
                let until = now + self.boot_timeout;
                self.zygote = Zygote::Booting { until };
                plan.wait_until(until);
            }
            Zygote::Down { since } => plan.wake_at = since,
            Zygote::Booting { until } if until <= now => {
                self.zygote = Zygote::Condemned;
                plan.actions
                    .push(Action::KillZygote("it did not boot within boot_timeout"));
            }
            Zygote::Condemned | Zygote::Hung => {}
            Zygote::Booting { until } => plan.wait_until(until),
            Zygote::Ready => self.plan_forks(now, &mut plan),
        }
        plan
    }

    fn plan_forks(&mut self, now: Instant, plan: &mut Plan) {
        for (number, (seat, _)) in (0_u16..).zip(&mut self.seats) {
            match *seat {
                Seat::Empty { .. } if self.held || usize::from(number) >= self.wanted => {}
                Seat::Empty { until: Some(until) } if until > now => plan.wait_until(until),
                Seat::Empty { .. } => {
                    let until = now + FORK_TIMEOUT;
                    *seat = Seat::Forking { until };
                    plan.wait_until(until);
                    plan.actions.push(Action::Fork(number));
                }
                Seat::Forked { until } if until <= now => {
                    let until = now + FORK_TIMEOUT;
                    *seat = Seat::Lost { until: Some(until) };
                    plan.wait_until(until);
                    plan.actions.push(Action::GiveUp(number));
                }
                Seat::Forking { until } | Seat::Lost { until: Some(until) } if until <= now => {
                    self.zygote = Zygote::Hung;
                    plan.actions = vec![Action::KillZygote("it does not fork")];
                    return;
                }
                Seat::Forking { until } | Seat::Forked { until } | Seat::Lost { until: Some(until) } => {
                    plan.wait_until(until);
                }
                Seat::Lost { until: None } | Seat::Taken => {}
            }
        }
    }

    /// Boots in a row that have failed.
    pub(super) const fn failed_boots(&self) -> u32 {
        self.boot_failures
    }

    /// When the next process is started that waits for its time.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        if let Zygote::Down { since } = self.zygote {
            return since;
        }
        let waiting = self.seats.iter().filter_map(|(seat, _)| match seat {
            Seat::Empty { until } => *until,
            Seat::Forking { .. } | Seat::Forked { .. } | Seat::Lost { .. } | Seat::Taken => None,
        });
        waiting.min()
    }

    /// The zygote has booted.
    pub(super) fn zygote_ready(&mut self) {
        self.zygote = Zygote::Ready;
        self.boot_failures = 0;
        self.fruitful = false;
    }

    /// The zygote is gone. One that had booted is replaced at once; one that had not, after a delay, as the second in a row that
    /// left the pool without a worker.
    pub(super) fn zygote_gone(&mut self, now: Instant) {
        let failures = if !matches!(self.zygote, Zygote::Ready | Zygote::Hung) {
            self.boot_failures += 1;
            self.boot_failures
        } else if self.fruitful || self.has_workers() {
            0
        } else {
            self.barren += 1;
            self.barren - 1
        };
        let delay = |doublings| doubled(FIRST_BOOT_DELAY, doublings, LONGEST_BOOT_DELAY);
        let since = failures.checked_sub(1).map(|doublings| now + delay(doublings));
        self.zygote = Zygote::Down { since };
        for (seat, _) in &mut self.seats {
            match seat {
                Seat::Forking { .. } | Seat::Forked { .. } => *seat = Seat::Empty { until: None },
                Seat::Lost { until } => *until = None,
                Seat::Empty { .. } | Seat::Taken => {}
            }
        }
    }

    /// The zygote says that it has forked worker `number`.
    pub(super) fn worker_forked(&mut self, number: u16, now: Instant) {
        if let Some((seat @ Seat::Forking { .. }, _)) = self.seats.get_mut(usize::from(number)) {
            *seat = Seat::Forked {
                until: now + GREETING_TIMEOUT,
            };
        }
    }

    /// Worker `number` runs.
    pub(super) fn worker_started(&mut self, number: u16) {
        if let Some((seat, _)) = self.seats.get_mut(usize::from(number)) {
            *seat = Seat::Taken;
            self.fruitful = true;
            self.barren = 0;
        }
    }

    fn has_workers(&self) -> bool {
        self.seats.iter().any(|(seat, _)| *seat == Seat::Taken)
    }

    /// Gives up the zygote if no worker is left, for its forks fail without end; the next one starts without their delays. False: there
    /// are workers, or no zygote that could fork.
    pub(super) fn give_up_zygote(&mut self) -> bool {
        if self.zygote != Zygote::Ready || self.has_workers() {
            return false;
        }
        self.zygote = Zygote::Hung;
        for (seat, failures) in &mut self.seats {
            *failures = 0;
            if matches!(seat, Seat::Empty { .. }) {
                *seat = Seat::Empty { until: None };
            }
        }
        true
    }

    /// Nobody can say whether worker `number` was forked; it is not forked again before [`State::lost_is_gone`] or
    /// [`State::fork_failed`].
    pub(super) fn worker_lost(&mut self, number: u16) {
        if let Some((seat, _)) = self.seats.get_mut(usize::from(number))
            && !matches!(seat, Seat::Lost { .. })
        {
            *seat = Seat::Lost { until: None };
        }
    }

    /// It is certain that the lost worker `number` is gone, through no fault of its own.
    pub(super) fn lost_is_gone(&mut self, number: u16) {
        if let Some((seat, _)) = self.seats.get_mut(usize::from(number)) {
            *seat = Seat::Empty { until: None };
        }
    }

    /// Worker `number` could not be forked, and is tried again later. True: that has failed for some two seconds.
    pub(super) fn fork_failed(&mut self, number: u16, now: Instant) -> bool {
        let Some((seat, crashes)) = self.seats.get_mut(usize::from(number)) else {
            return false;
        };
        *crashes = crashes.saturating_add(1).max(FREE_CRASHES + 1);
        let delay = delay_after(*crashes);
        *seat = Seat::Empty {
            until: Some(now + delay),
        };
        delay >= HOPELESS
    }

    /// Worker `number` is dead. Returns the delay before it is replaced.
    pub(super) fn worker_ended(
        &mut self,
        number: u16,
        ending: Ending,
        did: Record,
        now: Instant,
    ) -> Duration {
        let Some((seat, crashes)) = self.seats.get_mut(usize::from(number)) else {
            return Duration::ZERO;
        };
        // A script that ends without ever asking for a request would be forked without end as well.
        let sound = if ending.is_planned() {
            did.claimed
        } else {
            did.finished
        };
        *crashes = if sound { 0 } else { crashes.saturating_add(1) };
        let longest = if did.claimed {
            LONGEST_DELAY_AT_WORK
        } else {
            LONGEST_DELAY
        };
        let delay = delay_after(*crashes).min(longest);
        *seat = Seat::Empty {
            until: (!delay.is_zero()).then(|| now + delay),
        };
        delay
    }

    /// How many workers there are to be: those with the lowest numbers. None of the others is forked; their past is forgotten.
    pub(super) fn want(&mut self, workers: usize) {
        for (seat, crashes) in self.seats.iter_mut().skip(self.wanted) {
            *crashes = 0;
            if matches!(seat, Seat::Empty { .. }) {
                *seat = Seat::Empty { until: None };
            }
        }
        self.wanted = workers.min(self.seats.len());
    }

    /// As said by [`State::want`].
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Whether a worker that is wanted will be there in a moment.
    pub(super) fn expects_workers(&self, now: Instant) -> bool {
        self.seats.iter().take(self.wanted).any(|(seat, _)| match *seat {
            Seat::Empty { until } => until.is_none_or(|at| at <= now),
            Seat::Forking { .. } | Seat::Forked { .. } => true,
            Seat::Lost { .. } | Seat::Taken => false,
        })
    }

    /// Whether no worker is forked for now.
    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Nothing is started any more.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// True once nothing is started any more.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// True while no zygote is ready.
    pub(super) fn is_booting(&self) -> bool {
        !matches!(self.zygote, Zygote::Ready | Zygote::Hung)
    }
}

impl Plan {
    fn wait_until(&mut self, at: Instant) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// Delay before the next fork of a number that has crashed this often in a row.
fn delay_after(crashes: u32) -> Duration {
    match crashes.checked_sub(FREE_CRASHES + 1) {
        None => Duration::ZERO,
        Some(doublings) => doubled(FIRST_DELAY, doublings, LONGEST_DELAY),
    }
}

fn doubled(first: Duration, doublings: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << doublings.min(16)).min(longest)
}

#[cfg(test)]
mod tests;
