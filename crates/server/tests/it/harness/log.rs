//! A server's log: JSON events as they come, and waiting for them.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest time a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a process has printed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<String>,
    events: Vec<Value>,
    ended: bool,
}

impl Log {
    /// Reads `stream` to its end on a thread.
    pub(crate) fn follow(&self, stream: impl Read + Send + 'static) -> JoinHandle<()> {
        let log = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let mut state = log.lock();
                state.events.extend(serde_json::from_str(&line).ok());
                state.lines.push(line);
                log.0.news.notify_all();
            }
            log.lock().ended = true;
            log.0.news.notify_all();
        })
    }

    /// The first event with this message that `accept` likes, waiting for it if need be.
    pub(crate) fn wait(&self, message: &str, accept: impl Fn(&Value) -> bool) -> Value {
        let matching = |state: &State| {
            let found = state.events.iter().find(|e| e["message"] == message && accept(e));
            found.cloned()
        };
        self.wait_until(&format!("event {message:?}"), matching)
    }

    /// Waits until there have been `count` events with this message.
    pub(crate) fn wait_for_count(&self, message: &str, count: usize) {
        self.wait_for_count_of(message, count, |_| true);
    }

    /// As [`Self::wait_for_count`], of those that `accept` likes.
    pub(crate) fn wait_for_count_of(&self, message: &str, count: usize, accept: impl Fn(&Value) -> bool) {
        let matching = |state: &State| {
            let found = state
                .events
                .iter()
                .filter(|event| event["message"] == message && accept(event));
            (found.count() >= count).then_some(())
        };
        self.wait_until(&format!("{count} events {message:?}"), matching);
    }

    /// The first line that starts with `start`, waiting for it if need be.
    pub(crate) fn wait_for_line(&self, start: &str) -> String {
        let matching = |state: &State| state.lines.iter().find(|line| line.starts_with(start)).cloned();
        self.wait_until(&format!("line {start:?}"), matching)
    }

    /// The first line with `text` in it, waiting for it if need be.
    pub(crate) fn wait_for_line_with(&self, text: &str) -> String {
        let matching = |state: &State| state.lines.iter().find(|line| line.contains(text)).cloned();
        self.wait_until(&format!("line with {text:?}"), matching)
    }

    /// Events with this message so far.
    pub(crate) fn count(&self, message: &str) -> usize {
        let state = self.lock();
        state
            .events
            .iter()
            .filter(|event| event["message"] == message)
            .count()
    }

    /// The last event with this message that `accept` likes, if there is one.
    pub(crate) fn last(&self, message: &str, accept: impl Fn(&Value) -> bool) -> Option<Value> {
        let state = self.lock();
        state
            .events
            .iter()
            .rev()
            .find(|e| e["message"] == message && accept(e))
            .cloned()
    }

    /// Asserts that the server stopped by itself, killed no worker for it and panicked nowhere.
    pub(crate) fn assert_clean_end(&self) {
        let stopped = self
            .last("workers stopped", |_| true)
            .expect("the event of the end");
        assert_eq!(stopped["killed"], 0, "workers were killed at the end");
        assert!(
            !self.text().contains("panicked"),
            "something panicked:\n{}",
            self.text()
        );
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        self.lock().lines.join("\n")
    }

    /// A waiting test that fails holds the lock; the log is whole all the same.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until<T>(&self, what: &str, look: impl Fn(&State) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&state) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !state.ended, "the log never had: {what}");
            state = self.0.news.wait_timeout(state, left).unwrap().0;
        }
    }
}
