//! Was it the kernel, for lack of memory? It kills with SIGKILL, as anybody may; but it counts. Runs in: server.

use std::fs;

use super::ending::Ending;

/// Kernel's counters; `oom_kill` counts what it killed, on the whole machine and in every control group.
const COUNTERS: &str = "/proc/vmstat";
/// Of `kill(2)`.
const SIGKILL: i32 = 9;

/// What the counter said last.
#[derive(Debug)]
pub(super) struct OomWatch {
    seen: Option<u64>,
}

impl OomWatch {
    pub(super) fn new() -> Self {
        Self { seen: count() }
    }

    /// How a process that nobody here killed ended, in words.
    pub(super) fn explain(&mut self, ending: Ending) -> String {
        if ending != Ending::Signal(SIGKILL) {
            return ending.to_string();
        }
        let now = count();
        let before = std::mem::replace(&mut self.seen, now);
        explain(ending, before, now)
    }
}

fn explain(ending: Ending, before: Option<u64>, now: Option<u64>) -> String {
    let killed = match now.zip(before).map(|(now, before)| now.saturating_sub(before)) {
        None | Some(0) => return ending.to_string(),
        Some(1) => "one process".to_owned(),
        Some(many) => format!("{many} processes"),
    };
    format!("{ending}; out of memory: the kernel has killed {killed} since the last such death, see its log")
}

/// `None` where the kernel does not say.
fn count() -> Option<u64> {
    find(&fs::read_to_string(COUNTERS).ok()?)
}

fn find(counters: &str) -> Option<u64> {
    let line = counters.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_found_and_this_kernel_has_it() {
        assert_eq!(find("nr_free_pages 7\noom_kill 3\noom_killx 9\n"), Some(3));
        assert_eq!(find("nr_free_pages 7\n"), None);
        assert!(count().is_some());
    }

    #[test]
    fn only_a_kill_that_was_counted_is_blamed_on_memory() {
        let kill = Ending::Signal(SIGKILL);
        assert_eq!(explain(kill, Some(2), Some(2)), "signal 9 (SIGKILL)");
        assert_eq!(explain(kill, None, Some(2)), "signal 9 (SIGKILL)");
        let said = explain(kill, Some(2), Some(3));
        assert!(
            said.contains("out of memory") && said.contains("one process"),
            "{said}"
        );
        assert!(explain(kill, Some(2), Some(5)).contains("3 processes"));
    }
}
