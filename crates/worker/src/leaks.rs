//! Which requests are looked at for what they leave behind, and what is said about one.
//!
//! For resident pools in which nothing is undone. C does the looking (`sapi/leaks.c`); the server adds up what workers say.
//! What a warm-up has left is gathered here too.
//!
//! Runs in: worker, zygote. Called by `serve`, `host` and `warm`.

use ipc::control::{self, Leak, MAX_LEAK_TEXT, MAX_LEAKS};

use crate::php::{self, Find};

/// Requests at the beginning of a worker's life that are all looked at: then most of what is left behind is new.
const FIRST: u64 = 20;

/// Chooses requests.
#[derive(Debug)]
pub(crate) struct Sampler {
    every: u64,
    served: u64,
    offset: u64,
}

impl Sampler {
    /// One request in `every` (0: none), not the same ones in each worker.
    pub(crate) fn new(every: u32, worker: u16) -> Self {
        Self {
            every: u64::from(every),
            served: 0,
            offset: u64::from(worker) * 7919,
        }
    }

    /// What is to be found out about the next request. In the first one an application makes what it keeps, so values are not
    /// looked at.
    pub(crate) fn next(&mut self) -> Find {
        self.served += 1;
        match self.served {
            _ if self.every == 0 => Find::Nothing,
            1 => Find::Process,
            2..=FIRST => Find::All,
            served if (served + self.offset).is_multiple_of(self.every) => Find::All,
            _ => Find::Nothing,
        }
    }
}

/// What one request left behind, or a warm-up.
#[derive(Debug)]
pub(crate) struct Leaks {
    /// `None`: nobody has looked.
    kept_bytes: Option<i64>,
    found: Vec<Leak>,
    room: usize,
    more: u32,
}

impl Default for Leaks {
    fn default() -> Self {
        Self::with_room(MAX_LEAKS)
    }
}

impl Leaks {
    /// Keeps so many things, and counts the others.
    pub(crate) const fn with_room(room: usize) -> Self {
        Self {
            kept_bytes: None,
            found: Vec::new(),
            room,
            more: 0,
        }
    }

    /// Notes one thing. The same of several objects counts once.
    pub(crate) fn add(&mut self, leak: &php::Leak<'_>) {
        let Some(kind) = leak.kind() else {
            self.kept_bytes = Some(leak.bytes);
            return;
        };
        let (name, place) = (text(leak.name.as_bytes()), text(leak.place.as_bytes()));
        if self
            .found
            .iter()
            .any(|one| (one.kind, &one.name, &one.place) == (kind, &name, &place))
        {
            return;
        }
        if self.found.len() == self.room {
            self.more = self.more.saturating_add(1);
            return;
        }
        self.found.push(Leak {
            kind,
            name,
            place,
            change: text(leak.change.as_bytes()),
        });
    }

    /// How many things there are.
    pub(crate) const fn count(&self) -> usize {
        self.found.len() + self.more as usize
    }

    /// What was found, and how many more there were.
    pub(crate) fn found(self) -> (Vec<Leak>, u32) {
        (self.found, self.more)
    }

    /// For the server; `None` if nobody has looked.
    pub(crate) fn message(self, request: u64, method: &[u8], uri: &[u8]) -> Option<control::Leaks> {
        let path = uri.split(|byte| *byte == b'?').next().unwrap_or_default();
        Some(control::Leaks {
            request,
            method: text(method),
            path: text(path),
            kept_bytes: self.kept_bytes?,
            found: self.found,
            more: self.more,
        })
    }
}

/// As text of limited length that a log line can hold.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.get(..MAX_LEAK_TEXT).unwrap_or(bytes);
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_requests_are_looked_at_and_then_one_in_many() {
        let mut sampler = Sampler::new(100, 0);
        let chosen: Vec<Find> = (0..250).map(|_| sampler.next()).collect();
        assert_eq!(chosen[0], Find::Process);
        assert!(chosen[1..20].iter().all(|find| *find == Find::All));
        let later: Vec<usize> = (20..250).filter(|n| chosen[*n] != Find::Nothing).collect();
        assert_eq!(later, [99, 199]);
    }

    #[test]
    fn nothing_is_looked_at_when_it_is_off() {
        let mut sampler = Sampler::new(0, 3);
        assert!((0..50).all(|_| sampler.next() == Find::Nothing));
    }
}
