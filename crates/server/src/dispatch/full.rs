//! What is said when requests are refused because the pool is full: what its workers are doing. Once in a while, however many
//! are refused.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::glance::Running;
use super::lock;

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(10);
/// Kinds of requests that are named.
const NAMED: usize = 6;

/// Requests that were refused since the last line.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    refused: u64,
    said: Option<Instant>,
}

impl Refusals {
    /// None yet.
    pub(super) const fn new() -> Self {
        Self(Mutex::new(State {
            refused: 0,
            said: None,
        }))
    }

    /// Counts one. `Some`: it is time to say something, of so many.
    pub(super) fn add(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.0);
        state.refused += 1;
        let quiet = |said| now.saturating_duration_since(said) < EVERY;
        if state.said.is_some_and(quiet) {
            return None;
        }
        state.said = Some(now);
        Some(std::mem::take(&mut state.refused))
    }
}

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

    #[test]
    fn a_flood_of_refusals_is_one_line_in_ten_seconds() {
        let refusals = Refusals::default();
        let start = Instant::now();
        assert_eq!(refusals.add(start), Some(1));
        for second in 1..10 {
            assert_eq!(refusals.add(start + Duration::from_secs(second)), None);
        }
        assert_eq!(refusals.add(start + EVERY), Some(10));
    }
}
