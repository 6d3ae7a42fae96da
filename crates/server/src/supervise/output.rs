//! What PHP, its extensions and child programs print goes into the log, with worker and request. Runs in: server.
//!
//! A process has one pipe for stdout and stderr; `ipc::logline` says how a line of ours looks there. What is printed faster than
//! [`LINES_A_SECOND`] is dropped and counted: a flood costs lines, never the server.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ipc::logline::{Kind, Level, Line, Lines, REPEAT_BEGINS, REPEAT_ENDS};
use tokio::net::unix::pipe::Receiver;
use tracing::{debug, error, field, info, warn};

use super::grade;
use super::stacks::Stacks;
use super::words::Words;
use super::worker::Who;
use crate::config::PHP;
use crate::dispatch::{PoolShared, RequestId};

/// Lines of one process that are logged in a second.
const LINES_A_SECOND: u32 = 1000;
/// Bytes read at once.
const CHUNK: usize = 16 * 1024;
/// Last lines of a zygote that are kept, for the report when it does not boot.
const TAIL: usize = 20;
/// Different lines of a zygote's first boot that are known again in its second.
const BOOT: usize = 1000;

/// Who prints.
#[derive(Debug)]
pub(super) enum Speaker {
    /// A zygote of the pool of this name; its last lines are kept.
    Zygote(String, Tail),
    /// A worker. Any script can write lines that look like Hearth's: they are put down to a request only if the worker has
    /// held it. Who waits for its answer about a request gets it; who wants to know whether it has said something, too.
    Worker(Who, Arc<PoolShared>, (Arc<Stacks>, Arc<Words>)),
}

impl Speaker {
    /// Name of its pool.
    fn pool(&self) -> &str {
        match self {
            Self::Zygote(pool, _) => pool,
            Self::Worker(_, pool, _) => pool.name(),
        }
    }
}

/// The last lines of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
struct Said {
    last: VecDeque<String>,
    /// The first lines, without their times, and how often they were said.
    first: HashMap<String, u32>,
    /// The second boot is under way.
    repeats: bool,
}

impl Tail {
    /// False: nobody needs to read it. A warmed application boots twice: what the second boot says as the first has is left out.
    fn push(&self, text: &str) -> bool {
        let mut guard = self.lock();
        let said = &mut *guard;
        if text == REPEAT_BEGINS || text == REPEAT_ENDS {
            said.repeats = text == REPEAT_BEGINS;
            if !said.repeats {
                said.first.clear();
            }
            return false;
        }
        let line = grade::without_time(text);
        if said.repeats {
            if let Some(times) = said.first.get_mut(line).filter(|times| **times > 0) {
                *times -= 1;
                return false;
            }
        } else if let Some(times) = said.first.get_mut(line) {
            *times = times.saturating_add(1);
        } else if said.first.len() < BOOT {
            said.first.insert(line.to_owned(), 1);
        }
        if said.last.len() == TAIL {
            said.last.pop_front();
        }
        said.last.push_back(text.to_owned());
        true
    }

    /// The last lines.
    pub(super) fn text(&self) -> String {
        let said = self.lock();
        said.last
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies a process's output into the log until the last writer has closed the pipe.
pub(super) async fn pump(pipe: Receiver, speaker: Speaker) {
    let mut lines = Lines::default();
    let mut rate = Rate::new(Instant::now());
    let mut buffer = vec![0; CHUNK];
    loop {
        match pipe.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                let now = Instant::now();
                lines.feed(bytes, |line| print(&speaker, &mut rate, now, line));
                // Everything else on this runtime gets its turn between two reads.
                tokio::task::yield_now().await;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if pipe.readable().await.is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    lines.finish(|line| print(&speaker, &mut rate, Instant::now(), line));
    rate.report(&speaker);
}

fn print(speaker: &Speaker, rate: &mut Rate, now: Instant, line: Line<'_>) {
    if let (Kind::Stack, Some(id), Speaker::Worker(.., (stacks, _))) = (line.kind, line.request, speaker) {
        stacks.answer(RequestId(id), &String::from_utf8_lossy(line.message));
        return;
    }
    if !rate.admit(speaker, now) {
        return;
    }
    let text = String::from_utf8_lossy(line.message);
    let text = grade::message(&text);
    let (mut kind, mut request) = (line.kind, None);
    let worker = match speaker {
        Speaker::Zygote(_, tail) => {
            if !tail.push(&text) {
                return;
            }
            None
        }
        Speaker::Worker(who, pool, _) => {
            let named = line.request.or_else(|| current_request(pool, *who));
            request = named.map(RequestId).filter(|&id| pool.has_held(*who, id));
            if line.request.is_some() && request.is_none() {
                kind = Kind::Plain;
            }
            Some(who.0.0)
        }
    };
    let (pool, text) = (speaker.pool(), &*text);
    let level = level(kind, text);
    if let (Speaker::Worker(who, _, (_, words)), Some(request)) = (speaker, request)
        && level <= tracing::Level::INFO
    {
        words.note(who.0, request);
    }
    let request = request.map(field::display);
    match level {
        tracing::Level::ERROR => error!(target: PHP, pool, worker, request, text, "php"),
        tracing::Level::WARN => warn!(target: PHP, pool, worker, request, text, "php"),
        tracing::Level::INFO => info!(target: PHP, pool, worker, request, text, "php"),
        _ => debug!(target: PHP, pool, worker, request, text, "php"),
    }
}

/// A notice is what `error_log()` makes of any text.
fn level(kind: Kind, text: &str) -> tracing::Level {
    match kind {
        Kind::Message(level) if level <= Level::ERROR => tracing::Level::ERROR,
        Kind::Message(Level::WARNING) => tracing::Level::WARN,
        Kind::Message(Level::INFO) => tracing::Level::INFO,
        Kind::Message(Level::DEBUG) => tracing::Level::DEBUG,
        Kind::Message(_) | Kind::Plain | Kind::Stack => grade::level(text),
    }
}

/// What the worker says that it runs, or ran last: the pipe is read a little later than it was written.
fn current_request(pool: &PoolShared, (worker, _): Who) -> Option<u64> {
    let block = pool.memory().worker(worker)?;
    // Relaxed: for the log.
    Some(block.request.load(std::sync::atomic::Ordering::Relaxed)).filter(|&id| id != 0)
}

/// Counts lines by the second.
#[derive(Debug)]
struct Rate {
    since: Instant,
    lines: u32,
    dropped: u64,
}

impl Rate {
    const fn new(now: Instant) -> Self {
        Self {
            since: now,
            lines: 0,
            dropped: 0,
        }
    }

    /// True if one more line may be logged.
    fn admit(&mut self, speaker: &Speaker, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= Duration::from_secs(1) {
            self.report(speaker);
            *self = Self::new(now);
        }
        self.lines += 1;
        let admitted = self.lines <= LINES_A_SECOND;
        self.dropped += u64::from(!admitted);
        self.lines = self.lines.min(LINES_A_SECOND);
        admitted
    }

    fn report(&self, speaker: &Speaker) {
        if self.dropped > 0 {
            let worker = match speaker {
                Speaker::Zygote(..) => None,
                Speaker::Worker(who, ..) => Some(who.0.0),
            };
            warn!(
                pool = speaker.pool(),
                worker,
                lines = self.dropped,
                "php output dropped"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_each_second_and_counted() {
        let speaker = Speaker::Zygote("web".to_owned(), Tail::default());
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let admitted = (0..LINES_A_SECOND * 3)
            .filter(|_| rate.admit(&speaker, start))
            .count();
        assert_eq!(
            (admitted, rate.dropped),
            (LINES_A_SECOND as usize, u64::from(LINES_A_SECOND) * 2)
        );
        assert!(rate.admit(&speaker, start + Duration::from_secs(1)));
        assert_eq!(rate.dropped, 0);
    }

    #[test]
    fn the_tail_keeps_the_last_lines() {
        let tail = Tail::default();
        for n in 0..TAIL + 2 {
            tail.push(&n.to_string());
        }
        assert!(tail.text().starts_with("2\n3\n"));
        assert!(tail.push("[2026-11-22 15:00:00] app.INFO: up"));
    }

    #[test]
    fn only_the_second_boot_of_a_warmed_application_is_not_repeated() {
        let tail = Tail::default();
        let up = |second| tail.push(&format!("[2026-11-22 15:00:0{second}] app.INFO: up"));
        assert!(up(1) && up(2), "one boot says it twice");
        assert!(!tail.push(REPEAT_BEGINS));
        assert!(!up(3) && !up(4), "the first boot has said it twice");
        assert!(up(5), "and no third time");
        assert!(tail.push("new"));
        assert!(!tail.push(REPEAT_ENDS));
        assert!(up(6) && up(7), "it has booted");
    }
}
