//! What is said when requests are refused because the pool is full: what its workers are doing.

use std::collections::HashMap;
use std::time::Duration;

use super::glance::Running;

/// Kinds of requests that are named.
const NAMED: usize = 6;

/// `5 × GET /report (12 s), 1 × GET / (0.2 s)`: those of one path together, with the time of the one that has run longest.
pub(super) fn summary(running: &[Running]) -> String {
    let mut kinds: HashMap<(&str, &str), (usize, Duration)> = HashMap::new();
    for one in running {
        let path = one.uri.split('?').next().unwrap_or_default();
        let kind = kinds.entry((&one.method, path)).or_default();
        *kind = (kind.0 + 1, kind.1.max(one.elapsed));
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by(|(name, (count, longest)), (other, (others, other_longest))| {
        (others, other_longest, name).cmp(&(count, longest, other))
    });
    let left_out: usize = kinds.iter().skip(NAMED).map(|(_, (count, _))| count).sum();
    let mut parts: Vec<String> = kinds
        .iter()
        .take(NAMED)
        .map(|((method, path), (count, longest))| {
            format!("{count} × {method} {path} ({})", seconds(*longest))
        })
        .collect();
    if left_out > 0 {
        parts.push(format!("{left_out} more"));
    }
    parts.join(", ")
}

fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{seconds:.0} s")
    }
}

#[cfg(test)]
mod tests {
    use ipc::slot::{Incarnation, WorkerId};

    use super::*;
    use crate::dispatch::RequestId;

    fn running(method: &str, uri: &str, ms: u64) -> Running {
        Running {
            worker: WorkerId(0),
            incarnation: Incarnation(1),
            request: RequestId(1),
            method: method.into(),
            uri: uri.into(),
            elapsed: Duration::from_millis(ms),
        }
    }

    #[test]
    fn requests_of_one_path_are_counted_together() {
        assert_eq!(summary(&[]), "");
        let all = [
            running("GET", "/report?year=1", 3_000),
            running("GET", "/", 210),
            running("GET", "/report?year=2", 12_400),
            running("POST", "/report", 40),
        ];
        assert_eq!(
            summary(&all),
            "2 × GET /report (12 s), 1 × GET / (0.2 s), 1 × POST /report (0.0 s)"
        );
        let many: Vec<Running> = (0..9).map(|n| running("GET", &format!("/{n}"), n)).collect();
        assert!(summary(&many).ends_with(", 3 more"), "{}", summary(&many));
    }
}
