//! How many workers there are to be: pure, so that tables can test it.
//!
//! More when requests wait and nobody is free to take them, fewer when the last ones have had nothing to do for long. Called by
//! `upkeep`, at every look. Runs in: server.

use std::time::Duration;

use crate::config;

/// The bounds of a pool, and what was seen at the last look.
#[derive(Debug)]
pub(super) struct Scale {
    fewest: usize,
    most: usize,
    idle_timeout: Duration,
    /// Requests waited at the last look.
    pressed: bool,
}

/// What is seen at a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand<'a> {
    /// Requests that no worker has taken.
    pub(super) waiting: usize,
    /// For each worker that there is to be: how long it has had nothing to do. `None`: it is being forked.
    pub(super) idle: &'a [Option<Duration>],
}

impl Scale {
    pub(super) fn new(settings: &config::Pool) -> Self {
        Self {
            fewest: usize::from(settings.min_workers),
            most: usize::from(settings.workers),
            idle_timeout: settings.worker_idle_timeout,
            pressed: false,
        }
    }

    /// Whether there is anything to decide.
    pub(super) fn is_dynamic(&self) -> bool {
        self.fewest < self.most
    }

    /// How many workers there are at least, and at first.
    pub(super) fn fewest(&self) -> usize {
        self.fewest
    }

    /// How many workers there are to be from now on.
    pub(super) fn want(&mut self, demand: &Demand<'_>) -> usize {
        let workers = demand.idle.len();
        // Zero: it works. One that is being forked will be free in a moment.
        let all_work = demand.idle.iter().all(|idle| *idle == Some(Duration::ZERO));
        let pressed = demand.waiting > 0 && all_work;
        // A request that waits for a moment between two others is no reason; one that waits from one look to the next is.
        let grow = pressed && self.pressed;
        self.pressed = pressed && !grow;
        if grow {
            return (workers + workers.min(demand.waiting).max(1)).min(self.most);
        }
        let is_over = |idle: &&Option<Duration>| idle.is_some_and(|idle| idle >= self.idle_timeout);
        // Work goes to the lowest numbers first, so the others are at the end.
        let over = demand.idle.iter().rev().take_while(is_over).count();
        (workers - over).max(self.fewest.min(workers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Option<Duration> = Some(Duration::ZERO);
    const FREE: Option<Duration> = Some(Duration::from_secs(1));
    const LONG: Option<Duration> = Some(Duration::from_mins(1));
    const FORKING: Option<Duration> = None;

    fn scale() -> Scale {
        Scale {
            fewest: 2,
            most: 9,
            idle_timeout: Duration::from_mins(1),
            pressed: false,
        }
    }

    /// What waits and what the workers do at each look, and how many there are to be then.
    #[test]
    fn the_number_follows_the_requests() {
        type Row = &'static [(usize, &'static [Option<Duration>], usize)];
        let table: [(&str, Row); 9] = [
            ("nothing waits", &[(0, &[BUSY, BUSY], 2), (0, &[BUSY, BUSY], 2)]),
            (
                "a look is not enough",
                &[
                    (5, &[BUSY, BUSY], 2),
                    (0, &[BUSY, BUSY], 2),
                    (5, &[BUSY, BUSY], 2),
                ],
            ),
            ("it doubles", &[(50, &[BUSY, BUSY], 2), (50, &[BUSY, BUSY], 4)]),
            ("by no more than wait", &[(1, &[BUSY; 4], 4), (1, &[BUSY; 4], 5)]),
            (
                "up to the most",
                &[
                    (50, &[BUSY; 7], 7),
                    (50, &[BUSY; 7], 9),
                    (50, &[BUSY; 9], 9),
                    (50, &[BUSY; 9], 9),
                ],
            ),
            (
                "each step takes two looks",
                &[
                    (9, &[BUSY; 2], 2),
                    (9, &[BUSY; 2], 4),
                    (9, &[BUSY; 4], 4),
                    (9, &[BUSY; 4], 8),
                ],
            ),
            ("one is free", &[(5, &[BUSY, FREE], 2), (5, &[BUSY, FREE], 2)]),
            (
                "one is on its way",
                &[(5, &[BUSY, BUSY, FORKING], 3), (5, &[BUSY, BUSY, FORKING], 3)],
            ),
            (
                "the last ones retire",
                &[
                    (0, &[BUSY, LONG, FREE], 3),
                    (0, &[LONG, BUSY, LONG, LONG], 2),
                    (0, &[FREE, LONG, BUSY, LONG, LONG], 3),
                    (0, &[LONG, LONG, LONG, LONG], 2),
                    (0, &[LONG, LONG], 2),
                    (0, &[LONG, LONG, LONG, FORKING], 4),
                ],
            ),
        ];
        for (what, looks) in table {
            let mut scale = scale();
            for &(waiting, idle, expected) in looks {
                assert_eq!(
                    scale.want(&Demand { waiting, idle }),
                    expected,
                    "{what}: {waiting} {idle:?}"
                );
            }
        }
    }
}
