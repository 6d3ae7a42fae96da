//! No request finds a trace of another: `apps/nasty` leaves behind what it can, and its probe writes down what can be observed.
//! `bench/nasty.py` does the same a million times and watches memory and descriptors.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bodies::sha256;
use crate::harness::{App, Raw, RawClient, Server};

const CLIENTS: usize = 8;

/// What PHP itself keeps from one request to the next of a process, classic or under php-fpm.
const KEPT_BY_PHP: [&str; 11] = [
    // Persistent connections.
    "extensions/persistent database",
    "process/persistent stream",
    // Errors of libraries, until they are read.
    "extensions/errors of openssl",
    "extensions/keys of openssl",
    "process/sockets of the other extension",
    // Settings of libraries that PHP does not know.
    "settings/gettext",
    "settings/mbstring expressions",
    // Done behind PHP's back.
    "settings/environment of the C library",
    "handlers/alarm",
    "handlers/signals blocked",
    "handlers/signals ignored",
];

/// What is sent, and what must come back.
struct Plan {
    expected: BTreeMap<String, Raw>,
    probe: String,
    first: Raw,
    requests: usize,
}

/// Only what is the application's own: not the time, not who is faster.
fn essence(mut raw: Raw) -> Raw {
    const OURS: [&str; 5] = [
        "date",
        "x-worker",
        "content-length",
        "transfer-encoding",
        "connection",
    ];
    raw.headers.retain(|(name, _)| !OURS.contains(&name.as_str()));
    raw
}

/// Asks on a connection that is kept as long as the server keeps it.
struct Asker {
    address: SocketAddr,
    client: Option<RawClient>,
}

impl Asker {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            client: None,
        }
    }

    fn ask(&mut self, target: &str) -> Raw {
        let address = self.address;
        let client = self.client.get_or_insert_with(|| RawClient::connect(address));
        let sent = client.send(format!("GET {target} HTTP/1.1\r\nHost: nasty\r\n\r\n").as_bytes());
        let raw = sent
            .and_then(|()| client.read("GET"))
            .unwrap_or_else(|e| panic!("{target}: {e}"));
        if !raw.whole || raw.header("connection") == Some("close") {
            self.client = None;
        }
        essence(raw)
    }
}

fn target(case: &str) -> String {
    format!("/?case={}", case.replace(' ', "%20"))
}

/// An answer that comes in one piece and is too small to be compressed has no `Vary`, and one in two pieces has: pieces depend on time.
const PLAIN: &str = "compression.algorithms=[]";

fn classic(workers: usize) -> Server {
    let workers = format!("pool.web.workers={workers}");
    Server::start(
        &App::bundled("nasty"),
        &[
            "pool.web.mode=\"classic\"",
            "pool.web.script=\"public/index.php\"",
            PLAIN,
            &workers,
        ],
    )
}

fn resident(workers: usize, settings: &[&str]) -> Server {
    let workers = format!("pool.web.workers={workers}");
    let all: Vec<&str> = settings.iter().copied().chain([PLAIN, &workers]).collect();
    Server::start(&App::bundled("nasty"), &all)
}

/// The answers of a process that has seen nothing: classic mode boots for each request.
fn record() -> BTreeMap<String, Raw> {
    let server = classic(1);
    let mut asker = Asker::new(server.address());
    let list = asker.ask("/?list").text();
    let cases = list
        .lines()
        .map(|line| line.split_once(' ').unwrap().1.to_owned());
    // An endless loop ends after a second of its own time, which on a busy machine is long.
    cases
        .filter(|case| !case.starts_with("slow/endless"))
        .map(|case| {
            let answer = asker.ask(&target(&case));
            (case, answer)
        })
        .collect()
}

/// The probe, once OPcache has compiled what it includes.
fn first_probe(server: &Server, process: &str) -> Raw {
    let mut asker = Asker::new(server.address());
    let target = format!("/?process={process:.<3}&probe={}", "0".repeat(64));
    let probes: Vec<Raw> = (0..12).map(|_| asker.ask(&target)).collect();
    let last = probes.last().unwrap().clone();
    assert_eq!(last.status, 200, "{}", last.text());
    last
}

fn plan(server: &Server, expected: BTreeMap<String, Raw>, process: &str, requests: usize) -> Plan {
    let first = first_probe(server, process);
    let probe = format!("/?process={process:.<3}&probe={}", sha256(&first.body, 1));
    Plan {
        expected,
        probe,
        first,
        requests,
    }
}

/// Lines of a probe that differ from the first one's.
fn differing(first: &str, now: &str) -> Vec<String> {
    let lines = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
    let (first, now) = (lines(first), lines(now));
    let gone = first.difference(&now).map(|line| format!("- {line}"));
    let new = now.difference(&first).map(|line| format!("+ {line}"));
    let mut lines: Vec<String> = gone.chain(new).take(12).collect();
    if lines.is_empty() {
        lines.push("the same lines in another order, or more often".to_owned());
    }
    lines
}

/// Sends everything from several clients; what was wrong.
fn run(server: &Server, plan: &Plan) -> BTreeSet<String> {
    let wrong = Mutex::new(BTreeSet::new());
    let sent = AtomicUsize::new(0);
    let cases: Vec<(&String, &Raw)> = plan.expected.iter().collect();
    let fast: Vec<&(&String, &Raw)> = cases
        .iter()
        .filter(|(case, _)| !case.starts_with("slow/"))
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut asker = Asker::new(server.address());
                // Relaxed: each number is taken once.
                loop {
                    let n = sent.fetch_add(1, Ordering::Relaxed);
                    if n >= plan.requests {
                        return;
                    }
                    // All once, then in an order that has nothing to do with theirs.
                    let (case, expected) = cases
                        .get(n)
                        .unwrap_or_else(|| fast[n.wrapping_mul(0x9e37_79b9) / 7 % fast.len()]);
                    let answer = asker.ask(&target(case));
                    if answer != **expected {
                        let text = format!("{case}: {answer:?} instead of {expected:?}");
                        wrong.lock().unwrap().insert(text);
                    }
                    if n.is_multiple_of(3) {
                        let probe = asker.ask(&plan.probe);
                        if probe.text() != "same" || probe.headers != plan.first.headers {
                            let lines = differing(&plan.first.text(), &probe.text());
                            let text = format!(
                                "the probe differs: {lines:?}, {} {:?}",
                                probe.status, probe.headers
                            );
                            wrong.lock().unwrap().insert(text);
                        }
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

fn assert_no_trace(server: &Server, plan: &Plan) {
    let wrong: Vec<String> = run(server, plan).into_iter().collect();
    assert!(
        wrong.is_empty(),
        "{} findings:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(server.log.count("worker died"), 0);
}

#[test]
fn a_classic_request_leaves_nothing_but_what_php_keeps() {
    let mut expected = record();
    expected.retain(|case, _| !KEPT_BY_PHP.contains(&case.as_str()));
    let server = classic(3);
    let plan = plan(&server, expected, "no", 600);
    assert_no_trace(&server, &plan);
}

/// `HEARTH_TEST_NASTY` for another number of cases than `requests`; half as many probes come on top.
fn assert_no_trace_of_resident_requests(method: &str, requests: usize) {
    let chosen = std::env::var("HEARTH_TEST_NASTY").ok();
    let requests = chosen.map_or(requests, |count| {
        count.parse().expect("HEARTH_TEST_NASTY is a number")
    });
    let expected = record();
    let method = format!("pool.web.isolation_method={method:?}");
    let server = resident(4, &["pool.web.isolation=\"request\"", &method]);
    let plan = plan(&server, expected, "yes", requests);
    assert_no_trace(&server, &plan);
}

#[test]
fn a_resident_request_that_is_rewound_leaves_no_trace() {
    assert_no_trace_of_resident_requests("auto", 15_000);
}

#[test]
fn a_resident_request_in_a_fork_of_its_own_leaves_no_trace() {
    assert_no_trace_of_resident_requests("fork", 500);
}

#[test]
fn the_probe_sees_what_a_worker_keeps() {
    let server = resident(1, &["pool.web.isolation=\"none\""]);
    let first = first_probe(&server, "yes").text();
    let mut asker = Asker::new(server.address());
    let cases = [
        ("globals/new variable", "global.user"),
        ("statics/trait property", "static Nasty\\Heir.inTrait"),
        ("declarations/constant", "LEFT_CONSTANT"),
        ("declarations/function", "left_function"),
        ("objects/list", "booted.list"),
        ("objects/database", "booted.rows"),
        (
            "handlers/exception handler that is not needed",
            "handler.exception",
        ),
        ("settings/bcmath", "bcmath.scale"),
        ("process/open files", "descriptor."),
    ];
    for (case, _) in cases {
        assert_eq!(asker.ask(&target(case)).status, 200, "{case}");
    }
    let target = format!("/?process=yes&probe={}", "0".repeat(64));
    let now = asker.ask(&target).text();
    for (case, name) in cases {
        let shown = now
            .lines()
            .any(|line| line.contains(name) && !first.contains(line));
        assert!(
            shown,
            "the probe does not show {name} after {case}: {:?}",
            differing(&first, &now)
        );
    }
}
