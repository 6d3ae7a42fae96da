//! A Laravel application that leaves something behind on each of its pages (`apps/leaky`), booted once and put back after each
//! request, answers as under a real php-fpm that boots it each time: status, headers and body.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::frameworks::{LARAVEL, installed};
use crate::harness::{App, Fpm, Raw, RawClient, Server};

/// Requests to each server; `HEARTH_TEST_LEAKY` for another number.
const REQUESTS: usize = 2_000;
const CLIENTS: usize = 4;

/// Pages and what may stand for the star.
const PAGES: [(&str, &[&str]); 42] = [
    ("/static/*", &["alice", "bob", "carol"]),
    ("/singleton/*", &["alice", "bob", "carol"]),
    ("/config/*", &["left", "right"]),
    ("/locale/*", &["en", "de"]),
    ("/zone/*", &["Asia-Tokyo", "Europe-Berlin", "UTC"]),
    ("/listener/*", &["1", "2", "3"]),
    ("/macro/*", &["1", "2"]),
    ("/bind/*", &["1", "2"]),
    ("/share/*", &["alice", "bob"]),
    ("/view", &[""]),
    ("/blade/*", &["1", "2"]),
    ("/url/*", &["one", "two"]),
    ("/route/*", &["1", "2"]),
    ("/left/*", &["1", "2"]),
    ("/middleware/*", &["1", "2"]),
    ("/database/*", &["1", "2"]),
    ("/transaction/*", &["1", "2"]),
    ("/model/*", &["1", "2"]),
    ("/cache/*", &["one", "two"]),
    ("/validator/*", &["a", "longer"]),
    ("/log/*", &["alice", "bob"]),
    ("/facade/*", &["1", "2"]),
    ("/http/*", &["1", "2"]),
    ("/resource/*", &["1", "2"]),
    ("/pages/*", &["2", "7"]),
    ("/carbon/*", &["10", "20"]),
    ("/environment/*", &["one", "two"]),
    ("/constant/*", &["one", "two"]),
    ("/globals/*", &["one", "three"]),
    ("/exit/*", &["alice", "bob"]),
    ("/throw/*", &["one", "two"]),
    ("/abort/*", &["403", "404", "503"]),
    ("/memory/*", &["x", "y"]),
    ("/fatal/*", &["1", "2"]),
    ("/handlers/*", &["1", "2"]),
    ("/terminating/*", &["1", "2"]),
    ("/stream/*", &["1", "2"]),
    ("/session/visit/*", &["alice", "bob"]),
    ("/session/flash/*", &["one", "two"]),
    ("/session/exit/*", &["alice", "bob"]),
    ("/auth/*", &["1", "2"]),
    ("/cookie/*", &["one", "two"]),
];

fn requests() -> usize {
    let chosen = std::env::var("HEARTH_TEST_LEAKY").ok();
    chosen.map_or(REQUESTS, |count| {
        count.parse().expect("HEARTH_TEST_LEAKY is a number")
    })
}

/// Numbers that look random and are the same in each run: xorshift.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % below
    }

    fn target(&mut self) -> String {
        let (page, words) = PAGES[self.next(PAGES.len())];
        page.replace('*', words[self.next(words.len())])
    }
}

/// A browser of one server: its cookies are sent back to it.
struct Browser {
    address: SocketAddr,
    client: Option<RawClient>,
    cookies: Vec<(String, String)>,
}

impl Browser {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            client: None,
            cookies: Vec::new(),
        }
    }

    fn ask(&mut self, target: &str) -> Raw {
        let address = self.address;
        let client = self.client.get_or_insert_with(|| RawClient::connect(address));
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let cookies = cookies.join("; ");
        let text = format!("GET {target} HTTP/1.1\r\nHost: parity.test\r\nCookie: {cookies}\r\n\r\n");
        let sent = client.send(text.as_bytes());
        let raw = sent
            .and_then(|()| client.read("GET"))
            .unwrap_or_else(|e| panic!("{target}: {e}"));
        if !raw.whole || raw.header("connection") == Some("close") {
            self.client = None;
        }
        self.keep_cookies(&raw);
        raw
    }

    fn keep_cookies(&mut self, raw: &Raw) {
        for (_, cookie) in raw.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.retain(|(known, _)| known != name);
            self.cookies.push((name.to_owned(), value.to_owned()));
        }
    }
}

/// What must be the same: all but time, framing, the server's name, and what encryption makes of a cookie's value.
fn essence(raw: &Raw) -> (u16, Vec<String>, String, bool) {
    const OURS: [&str; 6] = [
        "date",
        "server",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
    ];
    let mut headers: Vec<String> = raw
        .headers
        .iter()
        .filter(|(name, _)| !OURS.contains(&name.as_str()))
        .map(|(name, value)| {
            if name == "set-cookie" {
                format!("{name}: {}", without_value(value))
            } else {
                format!("{name}: {value}")
            }
        })
        .collect();
    headers.sort();
    (raw.status, headers, raw.text(), raw.whole)
}

fn without_value(cookie: &str) -> String {
    let (name, rest) = cookie.split_once('=').unwrap();
    let attributes = rest
        .split(';')
        .skip(1)
        // The clock is read twice, and a second may pass between.
        .filter(|part| {
            !["expires=", "Max-Age="]
                .iter()
                .any(|time| part.trim().starts_with(time))
        });
    format!("{name}=…;{}", attributes.collect::<Vec<_>>().join(";"))
}

/// A folder for sessions and compiled views.
fn storage(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("hearth-leaky-{}-{name}", std::process::id()));
    for part in ["sessions", "views", "cache"] {
        fs::create_dir_all(dir.join("framework").join(part)).unwrap();
    }
    dir
}

fn compare(server: &Server, fpm: &Fpm) -> Vec<String> {
    let different = Mutex::new(Vec::new());
    let different_ref = &different;
    std::thread::scope(|scope| {
        for number in 1..=CLIENTS {
            scope.spawn(move || {
                let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64));
                let (mut ours, mut theirs) = (Browser::new(server.address()), Browser::new(fpm.address()));
                for _ in 0..requests() / CLIENTS {
                    let target = dice.target();
                    let (a, b) = (essence(&ours.ask(&target)), essence(&theirs.ask(&target)));
                    if a != b {
                        different_ref
                            .lock()
                            .unwrap()
                            .push(format!("{target}\n  ours   {a:?}\n  theirs {b:?}"));
                    }
                }
            });
        }
    });
    different.into_inner().unwrap()
}

fn assert_as_under_fpm(name: &str, settings: &[&str]) {
    if !installed(LARAVEL, name) {
        return;
    }
    let (ours, theirs) = (
        storage(&format!("{name}-ours")),
        storage(&format!("{name}-theirs")),
    );
    let app = App::bundled("leaky").with_env("LARAVEL_STORAGE_PATH", &ours.display().to_string());
    // php-fpm says no Vary.
    let plain: Vec<&str> = settings
        .iter()
        .copied()
        .chain(["compression.algorithms=[]"])
        .collect();
    let server = Server::start(&app, &plain);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/leaky/public");
    let ini = include_str!("../../../../apps/leaky/php.ini");
    let fpm = Fpm::start(
        &root,
        ini,
        &[("LARAVEL_STORAGE_PATH", &theirs.display().to_string())],
        2,
    );
    let different = compare(&server, &fpm);
    let first: Vec<&String> = different.iter().take(10).collect();
    assert!(
        different.is_empty(),
        "{} of {} differ, e.g. {first:#?}",
        different.len(),
        requests()
    );
    assert_eq!(server.log.count("worker died"), 0);
    for dir in [ours, theirs] {
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn a_leaky_laravel_application_answers_classic_as_under_php_fpm() {
    assert_as_under_fpm(
        "a_leaky_laravel_application_answers_classic_as_under_php_fpm",
        &[
            "pool.web.mode=\"classic\"",
            "pool.web.script=\"public/index.php\"",
            "pool.web.php_ini=\"php.ini\"",
        ],
    );
}

#[test]
fn a_leaky_laravel_application_that_is_rewound_answers_as_under_php_fpm() {
    assert_as_under_fpm(
        "a_leaky_laravel_application_that_is_rewound_answers_as_under_php_fpm",
        &["pool.web.isolation=\"request\"", "pool.web.workers=4"],
    );
}
