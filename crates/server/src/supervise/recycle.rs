//! When a worker has served long enough, and which one ends next: pure, so that tables can test it.
//!
//! Limits are for applications that leak; they are looked at every now and then, so a busy worker may serve some requests beyond
//! one. Called by `upkeep`. Runs in: server.

use std::time::Duration;

use crate::config;

/// A worker that was told to end this long ago and still runs a request is as good as any; others need not wait for it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Likewise for one that hangs in its end.
const PATIENCE_AT_END: Duration = Duration::from_secs(10);

/// What one worker may come to. `None`: as much as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    requests: Option<u64>,
    memory: Option<u64>,
    age: Option<Duration>,
}

/// What one worker has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) requests: u64,
    /// Bytes that it shares with nobody, if they were measured.
    pub(super) memory: Option<u64>,
    pub(super) age: Duration,
}

/// A limit that a worker has exceeded. Bytes and seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Excess {
    /// The setting.
    pub(super) reason: &'static str,
    pub(super) value: u64,
    pub(super) limit: u64,
}

/// One worker, as [`next`] sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) worker: u16,
    /// When it was told to end: so long ago.
    pub(super) leaving: Option<Duration>,
    /// It runs a request.
    pub(super) runs: bool,
    pub(super) excess: Option<Excess>,
}

impl Limits {
    /// Those of one worker. `chance` is any number: limits that all workers would reach at a time differ by it.
    pub(super) fn draw(settings: &config::Recycling, chance: u64) -> Self {
        let age = u64::try_from(settings.age.as_millis()).unwrap_or(u64::MAX);
        Self {
            requests: scattered(settings.requests, chance),
            memory: Some(settings.memory.0).filter(|limit| *limit > 0),
            age: scattered(age, chance).map(Duration::from_millis),
        }
    }

    /// The first limit that `life` exceeds.
    pub(super) fn exceeded(&self, life: &Life) -> Option<Excess> {
        let over = |reason, value: u64, limit: u64| Excess { reason, value, limit };
        let memory = self
            .memory
            .zip(life.memory)
            .filter(|(limit, value)| value > limit);
        let requests = self.requests.filter(|limit| life.requests >= *limit);
        let age = self.age.filter(|limit| life.age >= *limit);
        memory
            .map(|(limit, value)| over("max_memory", value, limit))
            .or_else(|| requests.map(|limit| over("max_requests", life.requests, limit)))
            .or_else(|| age.map(|limit| over("max_age", life.age.as_secs(), limit.as_secs())))
    }
}

/// The worker that is to end now, and why; `true`: others must wait for it. One at a time, so that there are always as many as there
/// are to be, but for one.
pub(super) fn next(workers: impl Iterator<Item = Candidate>) -> (Option<(u16, Excess)>, bool) {
    let (mut chosen, mut more) = (None, false);
    for worker in workers {
        match (worker.leaving, worker.excess) {
            (Some(since), _) if since < PATIENCE || (since < PATIENCE_AT_END && !worker.runs) => {
                return (None, true);
            }
            (None, Some(excess)) if chosen.is_none() => chosen = Some((worker.worker, excess)),
            (None, Some(_)) => more = true,
            (Some(_), _) | (None, None) => {}
        }
    }
    (chosen, more)
}

/// `limit` and up to a tenth more or less; `None` for 0.
fn scattered(limit: u64, chance: u64) -> Option<u64> {
    let spread = limit / 10;
    (limit > 0).then(|| limit - spread + chance % (2 * spread + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ByteSize;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn limits_differ_by_a_tenth_and_none_stays_none() {
        for (limit, lowest, highest) in [(1, 1, 1), (9, 9, 9), (10, 9, 11), (1000, 900, 1100)] {
            let drawn: Vec<u64> = (0..10_000)
                .filter_map(|chance| scattered(limit, chance))
                .collect();
            assert_eq!(drawn.iter().min(), Some(&lowest), "{limit}");
            assert_eq!(drawn.iter().max(), Some(&highest), "{limit}");
        }
        assert_eq!(scattered(0, 7), None);
        assert!(scattered(u64::MAX / 2, u64::MAX).is_some());
    }

    #[test]
    fn a_life_ends_at_its_first_limit() {
        let settings = config::Recycling {
            requests: 5,
            memory: ByteSize(100),
            age: 9 * SECOND,
        };
        // No spread: all are below ten, but for the age, of which 0 draws the lowest.
        let limits = Limits::draw(&settings, 0);
        let over = |reason, value, limit| Some(Excess { reason, value, limit });
        for (requests, memory, age, expected) in [
            (4, Some(100), 8, None),
            (4, None, 8, None),
            (5, None, 0, over("max_requests", 5, 5)),
            (7, Some(101), 60, over("max_memory", 101, 100)),
            (0, None, 9, over("max_age", 9, 8)),
        ] {
            let life = Life {
                requests,
                memory,
                age: age * SECOND,
            };
            assert_eq!(limits.exceeded(&life), expected, "{life:?}");
        }
        let life = Life {
            requests: u64::MAX,
            memory: Some(u64::MAX),
            age: Duration::MAX,
        };
        assert_eq!(
            Limits::draw(&config::Recycling::default(), 3).exceeded(&life),
            None
        );
    }

    type Row = (&'static [(Option<u64>, bool, bool)], Option<u16>, bool);

    /// Workers as (leaving for milliseconds, running a request, over a limit), and which of them ends next, and whether others wait.
    #[test]
    fn one_worker_ends_at_a_time_but_nobody_waits_for_a_long_request() {
        let excess = Excess {
            reason: "max_requests",
            value: 2,
            limit: 1,
        };
        let table: [Row; 8] = [
            (&[(None, true, false), (None, false, false)], None, false),
            (&[(None, true, false), (None, true, true)], Some(1), false),
            (&[(None, true, true), (None, true, true)], Some(0), true),
            (&[(Some(10), true, true), (None, true, true)], None, true),
            (&[(None, true, true), (Some(999), true, false)], None, true),
            (&[(Some(1000), true, true), (None, true, true)], Some(1), false),
            (&[(Some(1000), false, true), (None, true, true)], None, true),
            (&[(Some(10_000), false, true), (None, true, true)], Some(1), false),
        ];
        for (workers, expected, waits) in table {
            let candidates = (0..)
                .zip(workers)
                .map(|(worker, &(leaving, runs, over))| Candidate {
                    worker,
                    leaving: leaving.map(Duration::from_millis),
                    runs,
                    excess: over.then_some(excess),
                });
            let (chosen, more) = next(candidates);
            let chosen = chosen.map(|(worker, _)| worker);
            assert_eq!((chosen, more), (expected, waits), "{workers:?}");
        }
    }
}
