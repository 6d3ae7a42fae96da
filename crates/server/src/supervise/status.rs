//! What the supervisor says of its processes, for `hearth status`. Runs in: server.

use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use ipc::scoreboard::{Stage, Undone};
use ipc::slot::WorkerId;
use rustix::time::{ClockId, clock_gettime};

use super::worker::{Figures, Worker};
use super::{Supervisor, ini, zygote};
use crate::config::Mode;
use crate::dispatch::glance::Running;
use crate::report::{self, GenerationState, Smaps, WorkerState};

/// Bytes of a `smaps_rollup`, at most.
const SMAPS: usize = 4096;

impl Supervisor {
    /// The pool as it is now, but for the memory of its workers, see [`measure`].
    pub(crate) fn report(&self) -> report::Pool {
        let glance = self.pool.glance();
        let workers: Vec<report::Worker> = self
            .workers
            .iter()
            .map(|(&number, worker)| self.report_worker(number, worker, &glance.running))
            .collect();
        let resident = self.settings.mode == Mode::Resident;
        report::Pool {
            name: self.settings.name.clone(),
            dir: self.settings.dir.display().to_string(),
            mode: self.settings.mode.to_string(),
            script: self
                .settings
                .script
                .as_deref()
                .map(|path| path.display().to_string()),
            isolation: resident.then(|| self.settings.isolation.to_string()),
            warmup: resident.then(|| self.settings.warmup.to_string()),
            generations: self.report_generations(),
            workers,
            queue: report::Queue {
                waiting: glance.waiting,
                length: self.settings.queue_length,
            },
            totals: report::Totals {
                requests: self.pool.answered(),
                ..self.totals
            },
            trouble: self.report_trouble(),
        }
    }

    fn report_trouble(&self) -> Option<report::Trouble> {
        let wait = |at: Instant| seconds(at.saturating_duration_since(Instant::now()));
        Some(report::Trouble {
            reason: self.trouble.clone()?,
            failed_boots: self.state.failed_boots(),
            retry_seconds: self.state.next_attempt().map(wait),
        })
    }

    /// What requests were seen to leave behind.
    pub(crate) fn report_leaks(&self) -> report::PoolLeaks {
        report::PoolLeaks {
            leak_check: self.settings.leaks_looked_for(),
            ..self.leaks.report()
        }
    }

    fn report_generations(&self) -> Vec<report::Generation> {
        let zygote = self.zygote.as_ref();
        let mut numbers: Vec<u32> = self.workers.values().map(|worker| worker.generation).collect();
        numbers.extend(zygote.map(|zygote| zygote.generation));
        numbers.sort_unstable();
        numbers.dedup();
        let report = |number| {
            let live = zygote.filter(|zygote| zygote.generation == number);
            let booted = self.booted.iter().find(|booted| booted.generation == number);
            report::Generation {
                number,
                state: match (live, booted) {
                    (None, _) => GenerationState::Gone,
                    (Some(_), None) => GenerationState::Booting,
                    (Some(_), Some(_)) => GenerationState::Ready,
                },
                pid: live.map(|zygote| zygote.process.pid()),
                php_version: booted.map(|booted| booted.php_version.clone()),
                boot_ms: booted.map(|booted| booted.boot_ms),
                ini: booted.map(|booted| ini::report(&booted.ini)),
                isolation: booted
                    .and_then(|booted| booted.undoing.as_ref())
                    .map(zygote::explain),
            }
        };
        numbers.into_iter().map(report).collect()
    }

    fn report_worker(&self, number: u16, worker: &Worker, running: &[Running]) -> report::Worker {
        let age = Instant::now().saturating_duration_since(worker.born);
        let figures = Figures::read(&self.pool, (WorkerId(number), worker.incarnation));
        let request = figures.running.map(|id| {
            let line = running
                .iter()
                .find(|one| (one.worker.0, one.incarnation, one.request) == (number, worker.incarnation, id));
            report::Request {
                id: id.to_string(),
                seconds: seconds(since(figures.since).min(age)),
                method: line.map(|line| line.method.clone()),
                uri: line.map(|line| line.uri.clone()),
            }
        });
        report::Worker {
            number,
            pid: worker.process.pid(),
            generation: worker.generation,
            state: match (worker.killed(), figures.stage) {
                (Some(_), _) => WorkerState::Killed,
                (None, Some(Stage::Idle)) => WorkerState::Idle,
                (None, Some(Stage::Running)) => WorkerState::Running,
                (None, Some(Stage::Ending)) => WorkerState::Ending,
                (None, Some(Stage::Starting) | None) => WorkerState::Starting,
            },
            age_seconds: seconds(age),
            requests: figures.requests,
            request,
            rewind: rewind(&figures.undone, age),
            memory: None,
            smaps: worker.smaps.clone(),
        }
    }
}

/// Adds the memory of each worker. Takes up to some milliseconds a worker: the kernel walks its pages. Blocks.
pub(crate) fn measure(pool: &mut report::Pool) {
    for worker in &mut pool.workers {
        worker.memory = memory_of(&worker.smaps).ok();
    }
}

/// Memory that a process shares with nobody. Blocks as [`measure`].
pub(super) fn private_bytes(smaps: &Smaps) -> io::Result<u64> {
    Ok(memory_of(smaps)?.private_bytes)
}

fn memory_of(Smaps(file): &Smaps) -> io::Result<report::Memory> {
    let missing = || io::Error::other("a worker could not open /proc/self/smaps_rollup");
    let mut buffer = [0; SMAPS];
    let count = file.as_ref().ok_or_else(missing)?.read_at(&mut buffer, 0)?;
    Ok(memory(&String::from_utf8_lossy(
        buffer.get(..count).unwrap_or_default(),
    )))
}

/// To milliseconds.
pub(crate) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

/// Nothing where no request was rewound. The worker cannot have taken longer than it lives.
fn rewind(undone: &Undone, age: Duration) -> Option<report::Rewind> {
    (undone.nanoseconds > 0).then(|| report::Rewind {
        copied_pages: undone.copied,
        dropped_pages: undone.dropped,
        looks: undone.looks,
        hot_pages: undone.hot,
        seconds: seconds(Duration::from_nanos(undone.nanoseconds).min(age)),
    })
}

/// Time since `nanoseconds` of `CLOCK_MONOTONIC`, a worker's word.
fn since(nanoseconds: u64) -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::try_from(now).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(nanoseconds))
}

/// Sums of proc(5) `smaps_rollup`, which counts in KiB.
fn memory(rollup: &str) -> report::Memory {
    let bytes = |names: [&str; 3]| {
        let lines = rollup.lines().filter_map(|line| line.split_once(':'));
        let sizes = lines
            .filter(|(name, _)| names.contains(name))
            .filter_map(|(_, rest)| {
                let size = rest.trim().strip_suffix(" kB")?;
                size.parse::<u64>().ok()
            });
        sizes.sum::<u64>() * 1024
    };
    report::Memory {
        private_bytes: bytes(["Private_Clean", "Private_Dirty", "Private_Hugetlb"]),
        shared_bytes: bytes(["Shared_Clean", "Shared_Dirty", "Shared_Hugetlb"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_shared_memory_are_summed() {
        let rollup = "00400000-7ffd [rollup]\nRss:  100 kB\nShared_Clean:    10 kB\nShared_Dirty:  5 kB\n\
                      Private_Clean:  1 kB\nPrivate_Dirty:  2 kB\nShared_Hugetlb:  0 kB\nPrivate_Hugetlb: 0 kB\n";
        assert_eq!(
            memory(rollup),
            report::Memory {
                private_bytes: 3 * 1024,
                shared_bytes: 15 * 1024
            }
        );
    }

    #[test]
    fn a_start_in_the_future_is_no_time_ago() {
        assert_eq!(since(u64::MAX), Duration::ZERO);
    }
}
