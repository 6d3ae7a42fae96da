//! Requests that take long: what the log says of them, and how they end. See docs/timeouts.md.

use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{App, Server};

const TIMEOUT: Duration = Duration::from_millis(100);
const GRACE: Duration = Duration::from_millis(150);
/// How late the server may be. Alone on the machine it is a few milliseconds.
const LATE: Duration = Duration::from_millis(100);
/// What a loaded machine may add now and then.
const SLACK: Duration = Duration::from_secs(1);
/// How often each is tried, and has to be in time.
const TIMES: usize = 2;
/// How often it is tried if it is not.
const AT_MOST: usize = 10;

const CLASSIC: [&str; 2] = ["pool.web.mode=classic", "pool.web.script=public/index.php"];
const REWIND: [&str; 2] = ["pool.web.mode=resident", "pool.web.isolation_method=rewind"];
const FORK: [&str; 2] = ["pool.web.mode=resident", "pool.web.isolation_method=fork"];
const NONE: [&str; 2] = ["pool.web.mode=resident", "pool.web.isolation=none"];

/// Runs a test in each way a request can run.
fn in_each_way(settings: &[&str], test: impl Fn(&Server, [&str; 2])) {
    for way in [CLASSIC, REWIND, FORK, NONE] {
        test(&start(way, settings), way);
    }
}

fn start(way: [&str; 2], settings: &[&str]) -> Server {
    let app = App::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/timeouts"));
    let all: Vec<&str> = [
        "pool.web.script=worker.php",
        "pool.web.ini.opcache.enable=1",
        "pool.web.ini.ffi.enable=1",
    ]
    .iter()
    .chain(&way)
    .chain(settings)
    .copied()
    .collect();
    Server::start(&app, &all)
}

const SHORT: [&str; 3] = [
    "pool.web.workers=1",
    "pool.web.request_timeout=\"300 ms\"",
    "pool.web.request_grace=\"400 ms\"",
];

/// What the log says about the request for `uri`.
fn said(server: &Server, message: &str, uri: &str) -> Value {
    server.log.wait(message, |event| event["uri"] == uri)
}

#[track_caller]
fn assert_stack(event: &Value, frames: &[&str]) {
    let stack = event["stack"].as_str().expect("a stack");
    for frame in frames {
        assert!(stack.contains(frame), "{frame:?} is not in\n{stack}");
    }
    assert!(stack.starts_with("#0 "), "{stack}");
}

#[test]
fn a_slow_request_is_logged_once_and_does_not_notice() {
    let kinds = [
        ("sleep", "#0 sleep()"),
        ("usleep", "#0 usleep()"),
        ("select", "#0 stream_select()"),
        ("read", "#0 fread()"),
        ("lock", "#0 shell_exec()"),
        ("loop", "spin() "),
    ];
    let settings = ["pool.web.workers=6", "pool.web.slow_log=\"250 ms\""];
    in_each_way(&settings, |server, _| {
        std::thread::scope(|scope| {
            for (kind, frame) in kinds {
                scope.spawn(move || {
                    let uri = format!("/naps?kind={kind}");
                    let answer = server.get(&uri);
                    let result = match kind {
                        "sleep" | "select" => json!(0),
                        "read" => json!([true, false]),
                        _ => Value::Null,
                    };
                    assert_eq!(answer.text(), json!([result, null, true]).to_string(), "{kind}");
                    let event = said(server, "slow request", &uri);
                    assert_stack(&event, &[frame, "naps() ", "/respond.php:", "respond() "]);
                    assert_eq!(event["method"], "GET");
                    let seconds = event["seconds"].as_f64().unwrap();
                    assert!((0.25..0.25 + SLACK.as_secs_f64()).contains(&seconds), "{event}");
                });
            }
        });
        assert_eq!(server.log.count("slow request"), kinds.len());
        assert_eq!(server.log.count("worker died"), 0);
    });
}

/// A server that says nothing.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// What was asked of the server, one by one.
struct Hang {
    /// What hangs.
    uri: String,
    /// What waits for its worker.
    after: String,
    /// Time between the two.
    offset: Duration,
}

impl Hang {
    fn run(server: &Server, uri: String, number: usize) -> Self {
        let (mut hung, mut next) = (server.connect(), server.connect());
        let begun = Instant::now();
        hung.send("GET", &uri, b"").unwrap();
        server.log.wait("php", |event| event["text"] == uri);
        let offset = begun.elapsed();
        let after = format!("/next?{number}");
        next.send("GET", &after, b"").unwrap();
        assert_eq!(hung.read().unwrap().status, 504);
        // The only worker, or its successor, is free.
        assert_eq!(next.read().unwrap().text(), format!("hello from {after}"));
        Self { uri, after, offset }
    }

    /// Whether its client had its 504, and its worker was free, in time. By the server's clock: this process may have had to wait for
    /// its turn.
    fn was_in_time(&self, server: &Server) -> bool {
        let took = |uri: &str| {
            let line = server.out.wait_for_line_with(&format!("\"target\":\"{uri}\""));
            let line: Value = serde_json::from_str(&line).unwrap();
            Duration::from_secs_f64(line["ms"].as_f64().unwrap() / 1e3)
        };
        let (answered, free) = (took(&self.uri), self.offset + took(&self.after));
        assert!(answered >= TIMEOUT, "{}: {answered:?}", self.uri);
        let is = answered < TIMEOUT + LATE && free < TIMEOUT + GRACE + LATE;
        if !is {
            eprintln!("{}: 504 after {answered:?}, worker free after {free:?}", self.uri);
        }
        is
    }
}

#[test]
fn whatever_hangs_is_ended_in_time_and_the_log_says_where() {
    let (_listener, address) = silent();
    let silent = format!("/silent?address={address}&say=");
    let cases = [
        ("/sleep?say=", "#0 sleep()\n#1 Slow->sleep() "),
        ("/loop?say=", "#0 Slow::loop() "),
        (&silent, "#0 file_get_contents()\n#1 Slow->silent() "),
        // Since PHP 8.4 preg_match() is called without a frame.
        ("/regex?jit=0&say=", "Slow->regex() "),
        ("/regex?jit=1&say=", "Slow->regex() "),
    ];
    let settings = [
        "pool.web.workers=1",
        "pool.web.request_timeout=\"100 ms\"",
        "pool.web.request_grace=\"150 ms\"",
    ];
    in_each_way(&settings, |server, way| {
        let run = |case: usize, times: Range<usize>| -> Vec<Hang> {
            let number = |time| case * AT_MOST + time;
            times
                .map(|time| Hang::run(server, format!("{}{}", cases[case].0, number(time)), number(time)))
                .collect()
        };
        let all: Vec<Vec<Hang>> = (0..cases.len()).map(|case| run(case, 0..TIMES)).collect();
        for (case, mut hangs) in all.into_iter().enumerate() {
            let (uri, frames) = cases[case];
            for hang in &hangs {
                let event = said(server, "request timed out", &hang.uri);
                assert_stack(&event, &[frames, "/respond.php:"]);
            }
            let in_time = |hangs: &[Hang]| hangs.iter().filter(|hang| hang.was_in_time(server)).count();
            if in_time(&hangs) == TIMES {
                continue;
            }
            // Is it the server, or the machine, which has other work?
            hangs.extend(run(case, TIMES..AT_MOST));
            assert!(in_time(&hangs) >= TIMES, "{way:?} {uri}: late as a rule");
        }
    });
}

#[test]
fn the_jit_is_interrupted() {
    let jit = [
        "pool.web.ini.opcache.jit=tracing",
        "pool.web.ini.opcache.jit_buffer_size=32M",
    ];
    let settings: Vec<&str> = SHORT.into_iter().chain(jit).collect();
    in_each_way(&settings, |server, way| {
        assert_eq!(server.get("/loop").status, 504);
        assert_stack(&said(server, "request timed out", "/loop"), &["#0 Slow::loop() "]);
        assert_eq!(server.get("/next").status, 200);
        assert_eq!(server.log.count("worker killed"), 0, "{way:?}");
    });
}

#[test]
fn a_script_that_is_ended_runs_its_shutdown_functions_and_the_worker_goes_on() {
    in_each_way(&SHORT, |server, way| {
        let file = server.file("end");
        let uri = format!("/ends?file={}", file.display());
        for _ in 0..3 {
            assert_eq!(server.get(&uri).status, 504);
            assert_eq!(server.get("/next").status, 200);
        }
        // What is left of the request's connection is 2, a timeout (php-src main/main.h PHP_CONNECTION_TIMEOUT).
        let line = json!(["request_timeout of 300 ms exceeded", 2]).to_string();
        assert_eq!(
            std::fs::read_to_string(file).unwrap().lines().collect::<Vec<_>>(),
            [&line; 3]
        );
        server.log.wait("php", |event| {
            event["text"]
                .as_str()
                .is_some_and(|text| text.contains("Fatal error:  request_timeout of 300 ms exceeded"))
        });
        assert_eq!(server.log.count("worker killed"), 0);
        let successors = if way == NONE { 3 } else { 0 };
        server.log.wait_for_count("worker ready", 1 + successors);
        assert_eq!(server.log.count("worker ready"), 1 + successors, "{way:?}");
    });
}

#[test]
fn a_script_that_does_not_end_is_killed_by_name() {
    in_each_way(&SHORT, |server, _| {
        assert_eq!(server.get("/endless").status, 504);
        let killed = server.log.wait("worker killed", |_| true);
        let timed_out = said(server, "request timed out", "/endless");
        for field in ["worker", "request", "method", "uri"] {
            assert_eq!(killed[field], timed_out[field], "{field}");
        }
        assert_eq!(
            killed["reason"],
            "it did not end within request_grace after request_timeout"
        );
        assert_eq!(server.get("/next").status, 200);
    });
}

#[test]
fn without_grace_the_worker_is_killed_at_once() {
    let settings = [
        "pool.web.workers=1",
        "pool.web.request_timeout=\"300 ms\"",
        "pool.web.request_grace=\"0 s\"",
    ];
    in_each_way(&settings, |server, _| {
        assert_eq!(server.get("/sleep").status, 504);
        let killed = server.log.wait("worker killed", |_| true);
        assert_eq!(killed["reason"], "it ran longer than request_timeout");
        assert_eq!(server.get("/next").status, 200);
    });
}

#[test]
fn a_response_that_has_begun_is_cut_off() {
    in_each_way(&SHORT, |server, _| {
        let mut client = server.connect();
        client.send("GET", "/begun", b"").unwrap();
        assert!(client.read().is_err(), "the response looks complete");
        said(server, "request timed out", "/begun");
        assert_eq!(server.get("/next").status, 200);
    });
}

#[test]
fn scripts_do_not_get_the_servers_signals() {
    in_each_way(&SHORT, |server, _| {
        for times in 1..=2 {
            assert_eq!(server.get("/grab").status, 504);
            let refused = |event: &Value| event["text"] == "[-1,-1]";
            server.log.wait_for_count_of("php", times, refused);
            server.log.wait_for_count("request timed out", times);
        }
        assert_stack(&said(server, "request timed out", "/grab"), &["#0 sleep()"]);
        assert_eq!(server.log.count("worker killed"), 0);
    });
}

#[test]
fn a_deep_stack_is_cut() {
    let server = start(REWIND, &SHORT);
    assert_eq!(server.get("/deep").status, 504);
    let event = said(&server, "request timed out", "/deep");
    assert_stack(&event, &["#0 sleep()", "#63 deep() "]);
    assert!(event["stack"].as_str().unwrap().ends_with("\n…"), "{event}");
}

#[test]
fn when_requests_are_refused_the_log_says_what_the_workers_do() {
    let settings = [
        "pool.web.workers=2",
        "pool.web.queue_timeout=\"200 ms\"",
        "pool.web.slow_log=\"50 ms\"",
        "pool.web.request_timeout=\"2 s\"",
    ];
    let server = start(CLASSIC, &settings);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(server.get("/sleep?which=any").status, 504));
        }
        // Both workers are taken.
        server.log.wait_for_count("slow request", 2);
        for _ in 0..3 {
            assert_eq!(server.get("/next").status, 503);
        }
    });
    let full = server.log.wait("pool is full", |_| true);
    let doing = full["doing"].as_str().unwrap();
    assert!(doing.starts_with("2 × GET /sleep ("), "{full}");
    assert_eq!((&full["pool"], &full["workers"]), (&json!("web"), &json!(2)));
    assert_eq!(server.log.count("pool is full"), 1);
}

#[test]
fn an_application_that_resets_the_cache_asks_for_a_reload() {
    in_each_way(&["pool.web.workers=1"], |server, _| {
        assert_eq!(server.get("/reset").text(), "[true,false]");
        server
            .log
            .wait("opcache_reset() asked for a reload", |event| event["worker"] == 0);
        server.log.wait("reloaded", |event| event["generation"] == 2);
        assert_eq!(server.get("/next").status, 200);
        for _ in 0..20 {
            assert_eq!(server.get("/reset").text(), "[true,false]");
        }
        // One more reload is due, later; who asks for it is not told of each time.
        assert!(server.log.count("opcache_reset() asked for a reload") <= 2);
    });
}
