//! What processes use: the figures of `/proc`.

use std::fs;

/// Process ids of `root` and everything below it.
pub(crate) fn tree(root: i32) -> Vec<i32> {
    let mut all = vec![root];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        next += 1;
        let tasks = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(
                children
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            );
        }
    }
    all
}

/// Largest resident memory that a process ever had, in KiB.
pub(crate) fn peak_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Proportional memory of processes, in KiB.
pub(crate) fn pss_kib(pids: &[i32]) -> u64 {
    let one = |pid: &i32| {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    pids.iter().filter_map(one).sum()
}

/// Runs `act` and asserts that no process of a server needed much more memory for it than it had before: `limit` KiB each, at the
/// highest point, and all of them together afterwards.
pub(crate) fn assert_constant_memory(server: i32, limit: u64, act: impl FnOnce()) {
    let pids = tree(server);
    let before: Vec<u64> = pids.iter().copied().map(peak_kib).collect();
    let pss = pss_kib(&pids);
    act();
    for (pid, before) in pids.iter().zip(before) {
        let after = peak_kib(*pid);
        assert!(
            after < before + limit,
            "process {pid}: from {before} to {after} KiB"
        );
    }
    let after = pss_kib(&tree(server));
    assert!(after < pss + limit, "all together: from {pss} to {after} KiB");
}
