//! Starts the worker script, warmed as the pool wants it: by requests whose output goes nowhere.
//!
//! `"clean"`: the script runs once to serve the requests, is ended as php-fpm ends a request, and runs anew; the instance that
//! serves gets what PHP's engine had cached (`sapi/warm.c`), and no state. `"requests"`: the instance that serves serves them.
//! A script that calls `hearth_request()` ends with each request, so it runs again for the next one, and is warmed "clean" always.
//! Either way a request that goes wrong keeps the pool from booting: its workers would answer so too.
//!
//! Runs in: zygote. Called by `zygote`.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use ipc::control::{self, Boot, Isolation, LeakKind, MAX_LEFT, Warmup};
use ipc::head::{Known, RequestReader};
use ipc::logline::{self, Level};

use crate::host::{self, Host};
use crate::leaks::Leaks;
use crate::obstacles::{self, Descriptors};
use crate::php::{End, Exchange, Leak, Php, State, Str};
use crate::serve::{self, request};

/// Rounds of all requests. The first fills what the application caches in files, the second what it does differently then.
const ROUNDS: u32 = 3;
/// With a JIT: code is compiled once it has run 127 times (`opcache.jit_hot_func`), and what it leads to after that.
const JIT_ROUNDS: u32 = 300;
/// Time that rounds beyond [`ROUNDS`] may take in all.
const JIT_TIME: Duration = Duration::from_secs(1);
/// The same of a script that boots for each request, which it does when it calls `hearth_request()`: its rounds are dear.
const ROUNDS_OF_BOOTS: u32 = 2;
/// Time in which a round after the first begins a request.
const TIME_OF_BOOTS: Duration = Duration::from_secs(2);
/// Bytes of a response that are kept, to be shown if it is an error that nothing was logged of.
const BODY_MAX: usize = 1024;
/// Characters of it that are shown.
const GIST_MAX: usize = 200;

/// The exchange of a request that nobody sent: no body comes in, no response goes out.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    status: Option<u16>,
    failed: bool,
    body: Vec<u8>,
    /// Only while what the warm-up has left is looked for.
    left: Option<Left>,
}

/// What a warm-up has left in the application that serves.
#[derive(Debug)]
pub(crate) struct Left {
    named: Leaks,
    code: u32,
}

impl Left {
    const NOTHING: Self = Self {
        named: Leaks::with_room(MAX_LEFT),
        code: 0,
    };

    fn add(&mut self, leak: &Leak<'_>) {
        match leak.kind() {
            // That services are built and code is loaded is what a warm-up is for.
            Some(LeakKind::Objects | LeakKind::Classes | LeakKind::Function) => self.code += 1,
            _ => self.named.add(leak),
        }
    }

    /// For the server, and how much had no room there.
    pub(crate) fn report(self) -> (control::Left, u32) {
        let (named, more) = self.named.found();
        let left = control::Left {
            named,
            code: self.code,
        };
        (left, more)
    }
}

impl Exchange for Silence {
    fn write(&mut self, bytes: &[u8]) -> usize {
        let room = BODY_MAX.saturating_sub(self.body.len()).min(bytes.len());
        self.body.extend_from_slice(bytes.get(..room).unwrap_or_default());
        bytes.len()
    }

    fn flush(&mut self) -> bool {
        true
    }

    fn send_headers(&mut self, status: u16, _reason: &[u8], _lines: &[Str<'_>]) -> bool {
        if status >= 200 {
            self.status = Some(status);
        }
        true
    }

    fn read_body(&mut self, _buffer: &mut [u8]) -> usize {
        0
    }

    fn finish(&mut self) {}

    fn aborted(&mut self) -> bool {
        false
    }

    fn leak(&mut self, leak: &Leak<'_>) {
        if let Some(left) = &mut self.left {
            left.add(leak);
        }
    }

    fn log(exchange: Option<&mut Self>, level: i32, message: &[u8]) {
        if let Some(exchange) = exchange {
            exchange.failed |= Level::new(level) <= Level::ERROR;
        }
        // Outside of a worker's requests, as far as the log is concerned; errors are kept for the server.
        <Host as Exchange>::log(None, level, message);
    }
}

/// What there was to do.
struct Count {
    requests: u32,
    time: Duration,
}

/// Runs `script` up to its first `hearth_handle_request()`. An error is a sentence; what PHP said of it is in
/// [`host::take_boot_errors`]. `None`: no request was served by the instance that serves.
pub(crate) fn start(php: &mut Php<Silence>, boot: &Boot, script: &CStr) -> Result<Option<Left>, String> {
    let warmup = if boot.warmup_requests.is_empty() {
        Warmup::None
    } else {
        boot.warmup
    };
    match warmup {
        Warmup::None => run(php, boot, script).map(|()| None),
        Warmup::Requests => {
            run(php, boot, script)?;
            if php.serves_once() {
                let text = "warmup = \"requests\" needs a script that serves several requests; this one calls hearth_request() and is warmed as by \"clean\"";
                host::log(None, Level::WARNING, text.as_bytes());
                php.leave();
                return start_clean(php, boot, script).map(|()| None);
            }
            php.remember();
            let count = serve_all(php, boot, |_| Err("ended the worker script".to_owned()))?;
            let left = left(php);
            say(
                &count,
                &format!(
                    "what they left in the application stays (found: {}; hearth check --image names it)",
                    left.named.count()
                ),
            );
            Ok(Some(left))
        }
        Warmup::Clean => start_clean(php, boot, script).map(|()| None),
    }
}

fn start_clean(php: &mut Php<Silence>, boot: &Boot, script: &CStr) -> Result<(), String> {
    let before = obstacles::descriptors();
    php.warm(true);
    run(php, boot, script)?;
    let count = serve_all(php, boot, |php| run(php, boot, script))?;
    php.leave();
    report_descriptors(&before);
    run_warmed(php, boot, script, &count)
}

/// What is otherwise since `php` was told to remember.
fn left(php: &mut Php<Silence>) -> Left {
    let mut silence = Silence {
        left: Some(Left::NOTHING),
        ..Silence::default()
    };
    php.compare(&mut silence);
    silence.left.unwrap_or(Left::NOTHING)
}

fn run(php: &mut Php<Silence>, boot: &Boot, script: &CStr) -> Result<(), String> {
    // Where it was started the first time.
    std::env::set_current_dir(&boot.dir).map_err(|error| format!("changing to {}: {error}", boot.dir))?;
    let state = php.start(script);
    let script = script.to_string_lossy();
    let pool = &boot.pool;
    match state {
        State::Waiting if php.is_front_controller() && boot.isolation == Isolation::None => Err(format!(
            "{script} is a front controller, which Hearth boots once and has serve each request from there: it needs \
             isolation = \"request\", and pool.{pool} has \"none\"; set pool.{pool}.isolation = \"request\", or \
             pool.{pool}.mode = \"classic\""
        )),
        State::Waiting if php.serves_once() && boot.isolation == Isolation::None => Err(format!(
            "{script} calls hearth_request(), which boots once and serves each request from there: it needs \
             isolation = \"request\", and pool.{pool} has \"none\"; set pool.{pool}.isolation = \"request\", or use \
             hearth_handle_request()"
        )),
        State::Waiting => Ok(()),
        State::Ended => Err(format!(
            "{script} did not reach hearth_handle_request() or hearth_request(): {}; put hearth_request() where the \
             request begins, or set pool.{pool}.mode = \"classic\"",
            serve::describe(php.ended())
        )),
    }
}

/// Runs the script that serves.
fn run_warmed(php: &mut Php<Silence>, boot: &Boot, script: &CStr, count: &Count) -> Result<(), String> {
    php.warm(false);
    host::log(None, Level::DEBUG, logline::REPEAT_BEGINS.as_bytes());
    let mut result = run(php, boot, script);
    let warmth = php.warmed();
    if warmth.failed {
        // Nothing is carried over to this one.
        result = run(php, boot, script);
    }
    host::log(None, Level::DEBUG, logline::REPEAT_ENDS.as_bytes());
    result?;
    match warmth.skipped() {
        Some(why) => say(count, &format!("nothing is carried over: {why}")),
        None => say(
            count,
            &format!(
                "carried over: {} classes ({} not found), caches of {} functions ({} not used)",
                warmth.classes, warmth.missing, warmth.caches, warmth.dropped
            ),
        ),
    }
    Ok(())
}

fn say(count: &Count, what: &str) {
    let Count { requests, time } = count;
    let text = format!("warmed by {requests} requests in {} ms; {what}", time.as_millis());
    host::log(None, Level::INFO, text.as_bytes());
}

/// How long the requests are repeated.
struct Rounds {
    /// At most.
    most: u32,
    /// Those that are done whatever time they take.
    least: u32,
    /// For all of them.
    time: Duration,
}

impl Rounds {
    fn of(php: &Php<Silence>) -> Self {
        let most = if php.has_jit() { JIT_ROUNDS } else { ROUNDS };
        match (php.serves_once(), php.has_jit()) {
            (false, _) => Self {
                most,
                least: ROUNDS,
                time: JIT_TIME,
            },
            (true, true) => Self {
                most,
                least: 1,
                time: JIT_TIME,
            },
            (true, false) => Self {
                most: ROUNDS_OF_BOOTS,
                least: 1,
                time: TIME_OF_BOOTS,
            },
        }
    }
}

/// Serves every request in each round. `again` is called when the script has ended, as it does by `exit()`, and there is another
/// request.
fn serve_all(
    php: &mut Php<Silence>,
    boot: &Boot,
    mut again: impl FnMut(&mut Php<Silence>) -> Result<(), String>,
) -> Result<Count, String> {
    let begun = Instant::now();
    let rounds = Rounds::of(php);
    let once = php.serves_once();
    let mut requests = 0;
    let heads = (0..rounds.most).flat_map(|round| boot.warmup_requests.iter().map(move |head| (round, head)));
    let mut last: Option<String> = None;
    for (round, head) in heads {
        if round >= rounds.least && begun.elapsed() > rounds.time {
            break;
        }
        if let Some(before) = last.take() {
            again(php).map_err(|how| format!("after the warm-up request GET {before}: {how}"))?;
        }
        let name = name(&head.0);
        let state =
            serve_one(php, &head.0, round).map_err(|how| format!("the warm-up request GET {name} {how}"))?;
        if state == State::Ended {
            last = Some(name);
        }
        requests += 1;
    }
    if let Some(before) = last.filter(|_| !once) {
        again(php).map_err(|how| format!("after the warm-up request GET {before}: {how}"))?;
    }
    Ok(Count {
        requests,
        time: begun.elapsed(),
    })
}

/// Path and query.
fn name(head: &[u8]) -> String {
    let uri = RequestReader::new(head).and_then(|reader| reader.known(Known::Uri));
    String::from_utf8_lossy(uri.unwrap_or_default()).into_owned()
}

fn serve_one(php: &mut Php<Silence>, head: &[u8], round: u32) -> Result<State, String> {
    let mut silence = Silence::default();
    let mut params = Vec::new();
    let state = php.serve(&mut silence, &request::read(head, &mut params));
    let may_end = php.ended() == End::Exit || php.ended() == End::Returned && php.serves_once();
    if state == State::Ended && !may_end {
        return Err(format!("failed: {}", serve::describe(php.ended())));
    }
    match silence.status {
        Some(status) if status < 500 && !silence.failed => {
            if status >= 400 && round == 0 {
                let text = format!("warm-up request GET {} answered with status {status}", name(head));
                host::log(None, Level::WARNING, text.as_bytes());
            }
            Ok(state)
        }
        status => {
            let status = status.map_or("without a response".to_owned(), |status| {
                format!("with status {status}")
            });
            // What was logged says more.
            let body = if silence.failed { &[][..] } else { &silence.body };
            let body = String::from_utf8_lossy(body);
            Err(format!("failed {status}\n{}", gist(&body)).trim_end().to_owned())
        }
    }
}

/// The first line of an answer that failed; of a page the first line of its text, which is its title.
fn gist(body: &str) -> String {
    let is_page = body.trim_start().starts_with('<');
    let mut in_tag = false;
    let text = body.chars().filter_map(|c| {
        let was_in_tag = in_tag;
        in_tag = is_page && (c == '<' || in_tag && c != '>');
        match (was_in_tag, in_tag) {
            (false, false) => Some(c),
            (false, true) => Some('\n'),
            (true, _) => None,
        }
    });
    let text: String = text.collect();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(GIST_MAX).collect()
}

/// PHP has closed what its request opened. The rest is a library's: it stays, and all workers share it.
fn report_descriptors(before: &Descriptors) {
    for (number, target) in obstacles::descriptors() {
        if before.get(&number) != Some(&target) {
            let text = format!("the warm-up left descriptor {number} open: {target}");
            host::log(None, Level::WARNING, text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_page_the_title_is_told() {
        let page =
            "<!-- a\n b -->\n<!DOCTYPE html>\n<html><head>\n <title>No database (500)</title>\n<style>";
        assert_eq!(gist(page), "No database (500)");
        assert_eq!(gist("\n5 > 3 < 4 \nmore"), "5 > 3 < 4");
        assert_eq!(gist("<h1>Oops</h1><p>more"), "Oops");
        assert_eq!(gist("<p"), "");
        assert_eq!(gist(&"x".repeat(GIST_MAX + 1)).len(), GIST_MAX);
    }
}
