//! Limits of the zygote and of workers, as the kernel shows them. Scripts have the same user and can lower them by `prlimit(2)`.
//!
//! A hard limit can never be raised again by that user, and each worker inherits what its zygote has: a zygote whose limits were
//! lowered is replaced. A limit that was raised is left: that harms nobody. Called by the supervisor. Runs in: server.

use tracing::warn;

use super::Supervisor;

/// Width of the columns of `/proc/PID/limits` (Linux `proc_pid_limits`): the name, the soft limit, the hard limit.
const NAME: usize = 26;
const VALUE: usize = 21;

/// Why a worker is killed whose zygote's limits were lowered just before its fork.
const BORN_LOWER: &str = "it was born with lower limits than its zygote had";

/// What the kernel says of one process.
#[derive(Debug)]
pub(super) struct Limits(String);

impl Limits {
    /// `None`: they cannot be read, as of a process that has ended.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        (!text.is_empty()).then_some(Self(text))
    }

    /// Which of them are lower `now`, and how much: `Max processes (hard) 96365 → 0`.
    fn lowered(&self, now: &Self) -> Option<String> {
        if self.0 == now.0 {
            return None;
        }
        let pairs = self.0.lines().zip(now.0.lines()).skip(1);
        let lowered: Vec<String> = pairs
            .flat_map(|(before, after)| {
                [("soft", NAME), ("hard", NAME + VALUE)].map(|(which, column)| {
                    let (was, is) = (value(before, column)?, value(after, column)?);
                    let name = before.get(..NAME)?.trim_end();
                    (number(is)? < number(was)?).then(|| format!("{name} ({which}) {was} → {is}"))
                })
            })
            .flatten()
            .collect();
        (!lowered.is_empty()).then(|| lowered.join(", "))
    }
}

fn value(line: &str, column: usize) -> Option<&str> {
    line.get(column..)?.split_whitespace().next()
}

fn number(value: &str) -> Option<u64> {
    match value {
        "unlimited" => Some(u64::MAX),
        value => value.parse().ok(),
    }
}

impl Supervisor {
    /// Whether the zygote may fork: its limits are what they were when it had booted. If not, it is replaced.
    pub(super) fn may_zygote_fork(&mut self) -> bool {
        let Some(zygote) = &self.zygote else { return true };
        if let Some(lowered) = self.lowered_limits(zygote.process.pid()) {
            self.replace_zygote(&format!("its limits were lowered: {lowered}"));
        }
        self.zygote.as_ref().is_none_or(|zygote| !zygote.is_condemned)
    }

    /// Which limits of a process are lower than the zygote's were when it had booted.
    fn lowered_limits(&self, pid: i32) -> Option<String> {
        self.zygote.as_ref()?.limits.as_ref()?.lowered(&Limits::of(pid)?)
    }

    /// Ends a worker that was forked just before the zygote was looked at again.
    pub(super) fn check_newborn(&mut self, number: u16) {
        let Some(worker) = self.workers.get(&number) else {
            return;
        };
        let Some(lowered) = self.lowered_limits(worker.process.pid()) else {
            return;
        };
        warn!(
            pool = self.settings.name,
            worker = number,
            reason = BORN_LOWER,
            lowered,
            "worker killed"
        );
        if let Some(worker) = self.workers.get_mut(&number) {
            worker.kill(BORN_LOWER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_are_lower_are_told() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().try_into().unwrap();
        let before = Limits::of(pid).unwrap();
        assert_eq!(before.lowered(&Limits::of(pid).unwrap()), None);
        let changed = |line: &str, from: &str, to: &str| {
            let lines = before.0.lines().map(|text| match text.strip_prefix(line) {
                Some(rest) => format!("{line}{}\n", rest.replace(from, to)),
                None => format!("{text}\n"),
            });
            Limits(lines.collect())
        };
        let less = changed("Max file size", "unlimited", "0        ");
        assert_eq!(
            before.lowered(&less).unwrap(),
            "Max file size (soft) unlimited → 0, Max file size (hard) unlimited → 0"
        );
        assert_eq!(less.lowered(&before), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
