//! The Symfony demo: its requests are what they are behind nginx + php-fpm, its pages work, and its bad ends are its own.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::bodies::sha256;
use crate::harness::{App, Fpm, Raw, RawClient, Server, assert_constant_memory, cookie_line};
use crate::parity;

const INI: &str = include_str!("../../../../apps/symfony/php.ini");

/// How often `exit()` and a fatal error end a request. `HEARTH_TEST_ENDS=1000` for more.
fn ends() -> usize {
    let chosen = std::env::var("HEARTH_TEST_ENDS").ok();
    chosen.map_or(300, |count| count.parse().expect("HEARTH_TEST_ENDS is a number"))
}

fn start(workers: usize) -> Server {
    Server::start(
        &App::bundled("symfony"),
        &[&format!("pool.web.workers={workers}")],
    )
}

fn fpm() -> Fpm {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/symfony/public");
    Fpm::start(&root, INI, &[], 2)
}

fn ask(address: std::net::SocketAddr, method: &str, target: &str, lines: &str, body: &str) -> Raw {
    let mut client = RawClient::connect(address);
    let length = body.len();
    let text = format!(
        "{method} {target} HTTP/1.1\r\nHost: parity.test\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    );
    client.send(text.as_bytes()).unwrap();
    client.read(method).unwrap()
}

fn get(server: &Server, target: &str) -> Raw {
    ask(server.address(), "GET", target, "", "")
}

fn form(server: &Server, target: &str, lines: &str, body: &str) -> Raw {
    let lines = format!("Content-Type: application/x-www-form-urlencoded\r\n{lines}");
    ask(server.address(), "POST", target, &lines, body)
}

/// A value that a page shows in the element with this id.
fn shown(page: &str, id: &str) -> String {
    let text = page.split_once(&format!("id=\"{id}\"")).expect(id).1;
    let text = text.split_once('>').unwrap().1;
    text.split_once('<').unwrap().0.trim().to_owned()
}

#[test]
fn symfony_sees_the_same_request_as_under_php_fpm() {
    // First Hearth: its boot compiles the container for both.
    let (server, fpm) = (start(2), fpm());
    let mut different = String::new();
    let mut compared = 0;
    for case in parity::symfony_cases() {
        let (ours, theirs) = (case.send(server.address()), case.send(fpm.address()));
        let json = |raw: &Raw| serde_json::from_slice::<Value>(&raw.body).ok();
        let same = ours.status == theirs.status && json(&ours) == json(&theirs);
        compared += usize::from(json(&theirs).is_some());
        if !same {
            let _ = writeln!(
                different,
                "=== {}\n- {} {}\n+ {} {}",
                case.name(),
                theirs.status,
                theirs.text(),
                ours.status,
                ours.text()
            );
        }
    }
    assert!(different.is_empty(), "- php-fpm, + Hearth\n{different}");
    assert!(compared > 80, "only {compared} requests reached Symfony");
}

#[test]
fn pages_answer_as_under_php_fpm() {
    let (server, fpm) = (start(2), fpm());
    let pages = [
        ("/", 200, "It is warm in here."),
        ("/upload", 200, "name=\"upload[file]\""),
        ("/login", 200, "name=\"login[password]\""),
        ("/account", 303, "/login"),
        ("/cached", 200, "id=\"cached-value\""),
        ("/slow?ms=10", 200, "slept for 10 ms"),
        ("/api/hello", 200, "{\"message\":\"Hello, world!\"}"),
        ("/throw", 500, "500"),
        ("/exit", 200, "This page called exit() after this line.\n"),
        ("/fatal", 500, "500"),
        ("/no-such-page", 404, "404"),
        ("/download?size=100001", 200, "hearth keeps warm"),
        ("/download?size=3000000&length=0", 200, "hearth keeps warm"),
        ("/style.css", 200, "{"),
    ];
    // Twice: what a page leaves behind must not show in the next.
    for (target, status, text) in pages.into_iter().chain(pages) {
        let (ours, theirs) = (get(&server, target), ask(fpm.address(), "GET", target, "", ""));
        assert_eq!(
            (ours.status, theirs.status),
            (status, status),
            "{target}: {}",
            ours.text()
        );
        assert!(ours.text().contains(text), "{target}: {}", ours.text());
        assert!(ours.whole, "{target}");
        for name in [
            "content-type",
            "location",
            "content-disposition",
            "cache-control",
            "set-cookie",
        ] {
            if target != "/style.css" {
                assert_eq!(ours.header(name), theirs.header(name), "{target}: {name}");
            }
        }
        if matches!(target, "/exit" | "/api/hello") || target.starts_with("/download") {
            assert_eq!(ours.body, theirs.body, "{target}");
        }
    }
}

#[test]
fn a_login_holds_with_every_worker() {
    let server = start(3);
    let refused = form(&server, "/login", "", "login[user]=demo&login[password]=wrong");
    assert_eq!(refused.status, 422);
    let login = form(&server, "/login", "", "login[user]=demo&login[password]=hearth");
    assert_eq!((login.status, login.header("location")), (303, Some("/account")));
    let lines = cookie_line(&login.headers);
    let visit = || ask(server.address(), "GET", "/account", &lines, "");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(visit().status, 200);
                }
            });
        }
    });
    // PHP locks a session: no visit is lost, whichever worker counted it.
    assert!(visit().text().contains("31"), "{}", visit().text());
    let log = server.log.text();
    let ended = log.lines().filter(|line| line.contains("\"request ended\""));
    let workers: BTreeSet<String> = ended
        .filter_map(|line| Some(serde_json::from_str::<Value>(line).ok()?["worker"].to_string()))
        .collect();
    assert!(workers.len() > 1, "{workers:?}");
    let out = form(&server, "/logout", &lines, "");
    assert_eq!(out.status, 303);
    assert_eq!(visit().status, 303);
}

#[test]
fn a_cached_value_is_shared_by_the_workers() {
    let server = start(2);
    form(&server, "/cached/forget", "", "");
    let value = |page: Raw| shown(&page.text(), "cached-value");
    let first = value(get(&server, "/cached"));
    for _ in 0..6 {
        assert_eq!(value(get(&server, "/cached")), first);
    }
    assert_eq!(form(&server, "/cached/forget", "", "").status, 303);
    assert_ne!(value(get(&server, "/cached")), first);
}

#[test]
fn an_upload_of_200_mb_arrives_whole_in_constant_memory() {
    const COUNT: usize = 200;
    let server = start(1);
    assert_eq!(get(&server, "/").status, 200);
    let piece: Vec<u8> = (0..1_000_000_u32)
        .map(|n| u8::try_from(n % 249).unwrap())
        .collect();
    let start = "--XX\r\nContent-Disposition: form-data; name=\"upload[note]\"\r\n\r\nlarge\r\n--XX\r\nContent-Disposition: \
                 form-data; name=\"upload[file]\"; filename=\"large.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n";
    let end = "\r\n--XX--\r\n";
    let length = start.len() + COUNT * piece.len() + end.len();
    assert_constant_memory(server.pid(), 48 * 1024, || {
        let mut client = RawClient::connect(server.address());
        let head = format!(
            "POST /upload HTTP/1.1\r\nHost: test\r\nContent-Type: multipart/form-data; boundary=XX\r\nContent-Length: {length}\r\n\r\n"
        );
        client.send(head.as_bytes()).unwrap();
        client.send(start.as_bytes()).unwrap();
        for _ in 0..COUNT {
            client.send(&piece).unwrap();
        }
        client.send(end.as_bytes()).unwrap();
        let answer = client.read("POST").unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(
            answer.text().contains(&sha256(&piece, COUNT)),
            "{}",
            answer.text()
        );
    });
}

/// Sends requests until told to stop; returns how many were answered, each as it should be.
fn be_a_neighbour(server: &Server, n: usize, over: &AtomicBool) -> usize {
    let mut client = server.connect();
    let mut answered = 0;
    // Relaxed: a flag of its own.
    while !over.load(Ordering::Relaxed) || answered == 0 {
        let target = format!("/api/request?n={n}.{answered}");
        let answer = client
            .request("GET", &target, b"")
            .expect("the neighbour's response");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let own = format!("\"n\":\"{n}.{answered}\"");
        assert!(answer.text().contains(&own), "{}", answer.text());
        answered += 1;
    }
    answered
}

fn in_a_row(target: &str, status: u16, text: &str) {
    let server = start(3);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let neighbours = [0, 1].map(|n| {
            scope.spawn({
                let (server, over) = (&server, &over);
                move || be_a_neighbour(server, n, over)
            })
        });
        let wrong = (0..ends())
            .map(|_| server.get(target))
            .find(|answer| answer.status != status || !answer.text().contains(text));
        over.store(true, Ordering::Relaxed);
        for neighbour in neighbours {
            assert!(neighbour.join().unwrap() > 0);
        }
        assert!(wrong.is_none(), "{wrong:?}");
    });
    assert_eq!(
        server.log.count("worker died"),
        0,
        "no worker ended in an unplanned way"
    );
}

#[test]
fn exit_in_a_row_fails_no_neighbour() {
    in_a_row("/exit", 200, "This page called exit() after this line.\n");
}

#[test]
fn a_fatal_error_in_a_row_fails_no_neighbour() {
    in_a_row("/fatal", 500, "500");
}
