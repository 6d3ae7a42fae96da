//! Was it the kernel, for lack of memory? It kills with SIGKILL, as anybody may; but it counts: in the control group of the process
//! that it kills, and for the whole machine.
//!
//! Only what was counted in the last moments explains a death. Where just the machine counts, it is a guess. Runs in: server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ending::Ending;

/// The machine's counters.
const MACHINE: &str = "/proc/vmstat";
/// Where control groups are: file systems of version 2, and of the memory controller of version 1, with the files that count.
const GROUPS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup", "memory.events"),
    ("/sys/fs/cgroup/memory", "memory.oom_control"),
];
/// Time between two looks. What was counted before the last but one explains nothing.
const LOOK: Duration = Duration::from_secs(1);
/// Of `kill(2)`.
const SIGKILL: i32 = 9;

/// What the counter said last.
#[derive(Debug)]
pub(super) struct OomWatch {
    counter: Counter,
    /// At the last look but one, and at the last.
    seen: [Option<u64>; 2],
    next_look: Instant,
}

/// Who counts.
#[derive(Debug, PartialEq, Eq)]
enum Counter {
    Machine,
    /// The control group with this file.
    Group(PathBuf),
}

impl OomWatch {
    pub(super) fn new() -> Self {
        Self::of(Counter::Machine)
    }

    fn of(counter: Counter) -> Self {
        let now = counter.count();
        Self {
            counter,
            seen: [now; 2],
            next_look: Instant::now() + LOOK,
        }
    }

    /// The zygote `pid` is there: its workers are in its control group.
    pub(super) fn follow(&mut self, pid: i32) {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let file = files(&groups).into_iter().find(|file| count(file).is_some());
        let counter = file.map_or(Counter::Machine, Counter::Group);
        if counter != self.counter {
            *self = Self::of(counter);
        }
    }

    /// Looks at the counter if it is time; when it is next.
    pub(super) fn look(&mut self, now: Instant) -> Instant {
        if now >= self.next_look {
            let [_, last] = self.seen;
            self.seen = [last, self.counter.count()];
            self.next_look = now + LOOK;
        }
        self.next_look
    }

    /// How a process that nobody here killed ended, in words.
    pub(super) fn explain(&mut self, ending: Ending) -> String {
        if ending != Ending::Signal(SIGKILL) {
            return ending.to_string();
        }
        let [before, _] = self.seen;
        let now = self.counter.count();
        if now.zip(before).is_none_or(|(now, before)| now <= before) {
            return ending.to_string();
        }
        // One that was counted explains one death.
        for seen in self.seen.iter_mut().flatten() {
            *seen = now.unwrap_or_default().min(*seen + 1);
        }
        match self.counter {
            Counter::Group(_) => {
                format!("{ending}; out of memory: the kernel has killed a process of its cgroup")
            }
            Counter::Machine => {
                format!(
                    "{ending}; perhaps out of memory: the kernel has just killed a process of this machine, see its log"
                )
            }
        }
    }
}

impl Counter {
    fn count(&self) -> Option<u64> {
        match self {
            Self::Machine => count(Path::new(MACHINE)),
            Self::Group(file) => count(file),
        }
    }
}

/// The files that may count for a process, by its `/proc/PID/cgroup`.
fn files(groups: &str) -> Vec<PathBuf> {
    let paths = groups.lines().filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_memory = number == "0" || controllers.split(',').any(|name| name == "memory");
        is_memory.then(|| (usize::from(number != "0"), path.trim_start_matches('/')))
    });
    paths
        .filter_map(|(version, path)| {
            let (folder, file) = GROUPS.get(version)?;
            Some(Path::new(folder).join(path).join(file))
        })
        .collect()
}

/// `None` where the kernel does not say.
fn count(file: &Path) -> Option<u64> {
    find(&fs::read_to_string(file).ok()?)
}

fn find(counters: &str) -> Option<u64> {
    let line = counters.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KILL: Ending = Ending::Signal(SIGKILL);

    #[test]
    fn the_counter_is_found_and_this_kernel_has_it() {
        assert_eq!(find("nr_free_pages 7\noom_kill 3\noom_killx 9\n"), Some(3));
        assert_eq!(find("nr_free_pages 7\n"), None);
        assert!(Counter::Machine.count().is_some());
    }

    #[test]
    fn the_control_group_of_a_process_counts() {
        let hybrid = files("4:cpu,memory:/a/b\n1:cpuset:/x\n0::/c\n");
        assert_eq!(
            hybrid,
            [
                Path::new("/sys/fs/cgroup/memory/a/b/memory.oom_control"),
                Path::new("/sys/fs/cgroup/c/memory.events"),
            ]
        );
        assert_eq!(files("0::/\n"), [Path::new("/sys/fs/cgroup/memory.events")]);
    }

    #[test]
    fn one_that_was_counted_in_the_last_moments_explains_one_death() {
        let path = std::env::temp_dir().join(format!("hearth-oom-{}", std::process::id()));
        let say = |number: u64| fs::write(&path, format!("oom 9\noom_kill {number}\n")).unwrap();
        say(2);
        let mut watch = OomWatch::of(Counter::Group(path.clone()));
        assert_eq!(watch.explain(KILL), "signal 9 (SIGKILL)");
        say(3);
        let segfault = Ending::Signal(11);
        assert_eq!(watch.explain(segfault), "signal 11 (SIGSEGV)");
        // Counted just before a look, told of after it.
        let mut now = watch.look(watch.next_look);
        assert!(watch.explain(KILL).contains("out of memory"));
        assert_eq!(watch.explain(KILL), "signal 9 (SIGKILL)");
        say(4);
        for _ in 0..2 {
            now = watch.look(now);
        }
        assert_eq!(watch.explain(KILL), "signal 9 (SIGKILL)");
        fs::remove_file(&path).unwrap();
    }
}
