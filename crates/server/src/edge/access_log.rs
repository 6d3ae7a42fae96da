//! One line a request on standard output, in text (the combined format, then milliseconds, request id, pool and worker, and how it ended) or
//! as a JSON object.
//!
//! A reactor appends to a buffer in memory; one thread writes it out. When the reader of standard output is so slow that the buffer
//! is full, lines are dropped and counted: the log never slows a request. Cookies, authorization and bodies are never shown.
//! Made by `app`, called by `record` and `fastcgi`. Runs in: server; the writer on a thread of its own.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::reply::Ending;
use crate::config::LogFormat;
use crate::dispatch::RequestId;

/// Bytes that make the writer start at once.
const FULL: usize = 64 * 1024;
/// Bytes beyond which lines are dropped.
const LIMIT: usize = 8 * 1024 * 1024;
/// Longest time a line stays in the buffer. The first line wakes the writer; those of this time are written with it.
const FLUSH: Duration = Duration::from_millis(20);
/// How long the server waits at its end for the last lines to be taken.
const FAREWELL: Duration = Duration::from_secs(1);

/// The access log; one a server.
#[derive(Debug)]
pub(crate) struct AccessLog {
    format: LogFormat,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    end: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<u8>,
    lost: u64,
    closed: bool,
    /// The writer has written all that it will.
    ended: bool,
    /// Text of the second that was formatted last.
    stamp: Stamp,
}

#[derive(Debug, Default)]
struct Stamp {
    second: u64,
    text: String,
}

/// What a line says.
pub(super) struct Line<'a> {
    pub(super) remote: &'a str,
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) version: http::Version,
    pub(super) status: u16,
    pub(super) bytes: u64,
    pub(super) referer: Option<&'a [u8]>,
    pub(super) agent: Option<&'a [u8]>,
    pub(super) duration: Duration,
    pub(super) id: RequestId,
    pub(super) pool: Option<&'a str>,
    pub(super) worker: Option<u16>,
    pub(super) ending: Ending,
}

impl AccessLog {
    /// Starts the writer to `out`, standard output in the product.
    pub(crate) fn start(format: LogFormat, out: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            wake: Condvar::new(),
            end: Condvar::new(),
        });
        let for_writer = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_out(&for_writer, out))?;
        Ok(Self { format, shared })
    }

    pub(super) fn write(&self, line: &Line<'_>) {
        let mut state = self.shared.lock();
        if state.lines.len() > LIMIT {
            state.lost += 1;
            return;
        }
        let State { lines, stamp, .. } = &mut *state;
        let before = lines.len();
        stamp.update(self.format);
        let mut out = Text(lines);
        // Writing to memory does not fail.
        let _ = match self.format {
            LogFormat::Text => line.text(&mut out, &stamp.text),
            LogFormat::Json => line.json(&mut out, &stamp.text),
        };
        let is_due = before == 0 || before < FULL && state.lines.len() >= FULL;
        drop(state);
        if is_due {
            self.shared.wake.notify_one();
        }
    }

    /// Writes what is left, for there is no more. Nobody may read it any longer: the writer, which hangs then, is left to the end of
    /// the process.
    pub(crate) fn close(&self) {
        let mut state = self.shared.lock();
        if state.ended {
            return;
        }
        state.closed = true;
        self.shared.wake.notify_one();
        let waited = self
            .shared
            .end
            .wait_timeout_while(state, FAREWELL, |state| !state.ended);
        drop(waited);
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_out(shared: &Shared, mut out: impl Write) {
    let mut lines = Vec::new();
    loop {
        let mut state = shared.lock();
        while !state.closed && state.lines.is_empty() {
            state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.closed && state.lines.len() < FULL {
            let waited = shared.wake.wait_timeout(state, FLUSH);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut lines, &mut state.lines);
        let lost = std::mem::take(&mut state.lost);
        let closed = state.closed;
        drop(state);
        if lost > 0 {
            tracing::warn!(lost, "access log lines dropped, standard output is too slow");
        }
        // Nobody reads it: the requests are served all the same.
        let _ = out.write_all(&lines).and_then(|()| out.flush());
        lines.clear();
        if lines.capacity() > 2 * FULL {
            lines.shrink_to(FULL);
        }
        if closed {
            shared.lock().ended = true;
            shared.end.notify_one();
            return;
        }
    }
}

impl Line<'_> {
    fn text(&self, out: &mut Text<'_>, stamp: &str) -> fmt::Result {
        write!(out, "{} - - [{stamp}] \"{} ", self.remote, self.method)?;
        out.escaped(self.target.as_bytes(), Escape::Text);
        write!(out, " {:?}\" {} {} \"", self.version, self.status, self.bytes)?;
        out.escaped(self.referer.unwrap_or(b"-"), Escape::Text);
        out.write_str("\" \"")?;
        out.escaped(self.agent.unwrap_or(b"-"), Escape::Text);
        let micros = self.duration.as_micros();
        write!(out, "\" {}.{:03} {} ", micros / 1000, micros % 1000, self.id)?;
        if let Some(pool) = self.pool {
            out.escaped(pool.as_bytes(), Escape::Text);
            out.write_str("/")?;
        }
        match self.worker {
            Some(worker) => write!(out, "w{worker}")?,
            None => out.write_str("-")?,
        }
        writeln!(out, " {}", self.ending)
    }

    fn json(&self, out: &mut Text<'_>, stamp: &str) -> fmt::Result {
        write!(
            out,
            "{{\"time\":\"{stamp}\",\"remote\":\"{}\",\"method\":\"{}\",\"target\":\"",
            self.remote, self.method
        )?;
        out.escaped(self.target.as_bytes(), Escape::Json);
        write!(
            out,
            "\",\"protocol\":\"{:?}\",\"status\":{},\"bytes\":{}",
            self.version, self.status, self.bytes
        )?;
        for (name, value) in [("referer", self.referer), ("agent", self.agent)] {
            if let Some(value) = value {
                write!(out, ",\"{name}\":\"")?;
                out.escaped(value, Escape::Json);
                out.write_str("\"")?;
            }
        }
        let micros = self.duration.as_micros();
        write!(
            out,
            ",\"ms\":{}.{:03},\"id\":\"{}\"",
            micros / 1000,
            micros % 1000,
            self.id
        )?;
        if let Some(pool) = self.pool {
            out.write_str(",\"pool\":\"")?;
            out.escaped(pool.as_bytes(), Escape::Json);
            out.write_str("\"")?;
        }
        if let Some(worker) = self.worker {
            write!(out, ",\"worker\":{worker}")?;
        }
        writeln!(out, ",\"ending\":\"{}\"}}", self.ending)
    }
}

#[derive(Clone, Copy)]
enum Escape {
    Text,
    Json,
}

/// The buffer, for `write!`.
struct Text<'a>(&'a mut Vec<u8>);

impl Text<'_> {
    /// What a client sent must not end the field or the line.
    fn escaped(&mut self, value: &[u8], escape: Escape) {
        for &b in value {
            match (b, escape) {
                (b'"' | b'\\', Escape::Json) => self.0.extend([b'\\', b]),
                (b' '..=b'~', _) if b != b'"' && b != b'\\' => self.0.push(b),
                (_, Escape::Text) => self.hex(b"\\x", b),
                (_, Escape::Json) => self.hex(b"\\u00", b),
            }
        }
    }

    fn hex(&mut self, prefix: &[u8], b: u8) {
        self.0.extend_from_slice(prefix);
        for nibble in [b >> 4, b & 15] {
            self.0.push(if nibble < 10 {
                b'0' + nibble
            } else {
                b'a' + nibble - 10
            });
        }
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Stamp {
    fn update(&mut self, format: LogFormat) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        if now == self.second {
            return;
        }
        self.second = now;
        // IMF-fixdate: "Sun, 06 Nov 1994 08:49:37 GMT"
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now));
        let part = |from: usize, to: usize| date.get(from..to).unwrap_or_default();
        let (day, month, year, time) = (part(5, 7), part(8, 11), part(12, 16), part(17, 25));
        self.text = match format {
            LogFormat::Text => format!("{day}/{month}/{year}:{time} +0000"),
            LogFormat::Json => format!("{year}-{:02}-{day}T{time}Z", month_number(month)),
        };
    }
}

fn month_number(name: &str) -> usize {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    MONTHS.find(name).unwrap_or(0) / 3 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(format: LogFormat) -> String {
        let out = Out::default();
        let log = AccessLog::start(format, out.clone()).unwrap();
        log.write(&Line {
            remote: "127.0.0.1",
            method: "GET",
            target: "/a?b=\"c",
            version: http::Version::HTTP_11,
            status: 200,
            bytes: 13,
            referer: None,
            agent: Some(b"x\ny"),
            duration: Duration::from_micros(1402),
            id: RequestId(42),
            pool: Some("web"),
            worker: Some(3),
            ending: Ending::Ok,
        });
        drop(log);
        let bytes = out.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// A reader that takes nothing.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_takes_nothing_does_not_keep_the_server_from_ending() {
        let (release, stuck) = std::sync::mpsc::channel();
        let log = AccessLog::start(LogFormat::Text, Stuck(stuck)).unwrap();
        log.shared.lock().lines.extend_from_slice(b"a line");
        drop(log);
        // It has not been let go before.
        release.send(()).unwrap();
    }

    #[test]
    fn a_line_of_text_cannot_be_broken_by_the_client() {
        let line = written(LogFormat::Text);
        assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        let rest = "\"GET /a?b=\\x22c HTTP/1.1\" 200 13 \"-\" \"x\\x0ay\" 1.402 0000002a web/w3 ok\n";
        assert!(line.ends_with(rest), "{line}");
    }

    #[test]
    fn a_line_of_json_is_json() {
        let line = written(LogFormat::Json);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["target"], "/a?b=\"c");
        assert_eq!(value["agent"], "x\ny");
        assert_eq!(value["ms"], 1.402);
        assert_eq!((&value["pool"], &value["worker"]), (&"web".into(), &3.into()));
        assert_eq!(
            value["time"].as_str().unwrap().len(),
            "2026-11-21T11:40:13Z".len()
        );
    }
}
