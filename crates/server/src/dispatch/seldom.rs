//! Lines of the log that clients could cause without end: one in a while stands for all.
//!
//! Called by `dispatch`, `edge` and `supervise`. Runs in: server.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::lock;

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(10);

/// What has happened since the last line.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    times: u64,
    said: Option<Instant>,
}

impl Seldom {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State { times: 0, said: None }))
    }

    /// Counts one. `Some`: a line is due, for so many.
    pub(crate) fn add(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.0);
        state.times += 1;
        let quiet = |said| now.saturating_duration_since(said) < EVERY;
        if state.said.is_some_and(quiet) {
            return None;
        }
        state.said = Some(now);
        Some(std::mem::take(&mut state.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_in_ten_seconds() {
        let seldom = Seldom::default();
        let start = Instant::now();
        assert_eq!(seldom.add(start), Some(1));
        for second in 1..10 {
            assert_eq!(seldom.add(start + Duration::from_secs(second)), None);
        }
        assert_eq!(seldom.add(start + EVERY), Some(10));
    }
}
