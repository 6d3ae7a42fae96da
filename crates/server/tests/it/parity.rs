//! What PHP sees of a request and what the client gets for it equal what nginx and php-fpm make of the same bytes.
//!
//! The scripts are in `scripts/`, the requests in `parity/requests.rs` and `parity/responses.rs`, the differences that are
//! permitted in `parity/permitted.rs`, with their reasons in `docs/parity.md`.

mod permitted;
mod requests;
mod responses;
mod timing;

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::harness::{App, Fpm, Raw, RawClient, Server};

/// Limits low enough that small requests pass them, and the settings that show most.
const INI: &str = "display_errors = 0\nhtml_errors = 0\nlog_errors = 1\nerror_reporting = -1\nexpose_php = 1\n\
    output_buffering = 4096\nvariables_order = GPCS\nrequest_order = GP\nmemory_limit = 16M\n\
    post_max_size = 256K\nupload_max_filesize = 64K\nmax_file_uploads = 4\nmax_input_vars = 40\n\
    max_input_nesting_level = 8\nsession.use_strict_mode = 0\nsession.gc_probability = 0\n";

/// One exchange: bytes that are sent to each server.
pub(crate) struct Case {
    name: String,
    method: &'static str,
    target: String,
    version: &'static str,
    /// The lines behind the request line.
    lines: Vec<String>,
    body: Vec<u8>,
    /// In resident mode the URL names no script.
    only_classic: bool,
    /// Further permitted differences: starts of lines of the dump, names of headers.
    permit: &'static [&'static str],
}

impl Case {
    fn new(run: &str, method: &'static str, target: &str) -> Self {
        Self {
            name: format!("{run} {method} {target}"),
            method,
            target: target.to_owned(),
            version: "HTTP/1.1",
            lines: vec!["Host: parity.test".to_owned(), format!("X-Run: {run}")],
            body: Vec::new(),
            only_classic: false,
            permit: &[],
        }
    }

    fn get(run: &str, target: &str) -> Self {
        Self::new(run, "GET", target)
    }

    fn post(run: &str, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut case = Self::new(run, "POST", "/");
        case.name = format!("{run} POST {media_type}");
        if !media_type.is_empty() {
            case.lines.push(format!("Content-Type: {media_type}"));
        }
        case.with_body(body)
    }

    fn named(mut self, name: &str) -> Self {
        self.name = format!("{} ({name})", self.name);
        self
    }

    fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Without `Host`, or with another.
    fn host(mut self, host: Option<&str>) -> Self {
        match host {
            Some(host) => self.lines[0] = format!("Host: {host}"),
            None => drop(self.lines.remove(0)),
        }
        self
    }

    fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.lines.push(format!("Content-Length: {}", self.body.len()));
        self
    }

    fn chunked(mut self, chunks: &[&str]) -> Self {
        self.lines.push("Transfer-Encoding: chunked".to_owned());
        for chunk in chunks {
            self.body
                .extend(format!("{:x}\r\n{chunk}\r\n", chunk.len()).bytes());
        }
        self.body.extend(b"0\r\n\r\n");
        self
    }

    /// With the errors that PHP would show.
    fn shown(self) -> Self {
        self.line("X-Display: 1").named("shown")
    }

    fn only_classic(mut self) -> Self {
        self.only_classic = true;
        self
    }

    fn permit(mut self, permit: &'static [&'static str]) -> Self {
        self.permit = permit;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let head = format!("{} {} {}\r\n", self.method, self.target, self.version);
        // One byte a character, so that a case can hold bytes that are no UTF-8.
        let head = format!("{head}{}\r\n\r\n", self.lines.join("\r\n"));
        let mut bytes: Vec<u8> = head
            .chars()
            .map(|c| u8::try_from(u32::from(c)).unwrap())
            .collect();
        bytes.extend(&self.body);
        bytes
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn send(&self, address: SocketAddr) -> Raw {
        let mut client = RawClient::connect(address);
        // A server may refuse before it has read everything.
        let _ = client.send(&self.bytes());
        client
            .read(self.method)
            .unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }
}

/// The requests that mean the same to any application, for the demo's route that shows Symfony's request.
pub(crate) fn symfony_cases() -> Vec<Case> {
    let usable =
        |case: &Case| case.name.starts_with("dump/all") && !case.only_classic && case.permit.is_empty();
    let mut cases: Vec<Case> = requests::cases().into_iter().filter(usable).collect();
    for case in &mut cases {
        if case.target.starts_with('/') {
            let query = case.target.split_once('?').map(|(_, query)| format!("?{query}"));
            case.target = format!("/api/request{}", query.unwrap_or_default());
        }
    }
    cases
}

/// The three servers.
struct Peers {
    fpm: Fpm,
    classic: Server,
    resident: Server,
    dir: PathBuf,
}

impl Peers {
    fn start(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("hearth-parity-{}-{name}", std::process::id()));
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scripts");
        let scripts = scripts.canonicalize().unwrap();
        fs::create_dir(&dir).unwrap();
        // Sessions of their own, so that each server meets the ids anew.
        let ini = |server: &str| {
            let folder = dir.join(server);
            fs::create_dir(&folder).unwrap();
            let text = format!("{INI}session.save_path = {}\n", folder.display());
            let path = folder.join("php.ini");
            fs::write(&path, &text).unwrap();
            (text, path)
        };
        let hearth = |mode: &str, script: &str| {
            let settings = [
                format!("pool.web.mode={mode:?}"),
                format!("pool.web.script={script:?}"),
                format!("pool.web.php_ini=\"{}\"", ini(mode).1.display()),
                "pool.web.workers=2".to_owned(),
                "root=\"public\"".to_owned(),
            ];
            Server::start(&App::at(&scripts), &settings.each_ref().map(String::as_str))
        };
        Self {
            fpm: Fpm::start(&scripts.join("public"), &ini("fpm").0, &[]),
            classic: hearth("classic", "public/index.php"),
            resident: hearth("resident", "worker.php"),
            dir,
        }
    }

    /// What differs between php-fpm and Hearth, as text for a person.
    fn differences(&self, case: &Case) -> String {
        let mut out = String::new();
        let expected = permitted::normalise(case.send(self.fpm.address()), case);
        for (mode, server) in [("classic", &self.classic), ("resident", &self.resident)] {
            if mode == "resident" && case.only_classic {
                continue;
            }
            let found = permitted::normalise(case.send(server.address()), case);
            if found != expected {
                let _ = writeln!(out, "=== {} — {mode}\n{}", case.name, diff(&expected, &found));
            }
        }
        out
    }

    fn compare(&self, cases: &[Case]) {
        let differences: String = cases.iter().map(|case| self.differences(case)).collect();
        assert!(differences.is_empty(), "- php-fpm, + Hearth\n{differences}");
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The lines that only one of both has.
fn diff(expected: &str, found: &str) -> String {
    let (before, after): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let mut out = String::new();
    for line in before.iter().filter(|line| !after.contains(line)) {
        let _ = writeln!(out, "- {line}");
    }
    for line in after.iter().filter(|line| !before.contains(line)) {
        let _ = writeln!(out, "+ {line}");
    }
    if out.is_empty() {
        let _ = writeln!(out, "the same lines in another order:\n{expected}\n--\n{found}");
    }
    out
}

#[test]
fn php_sees_the_same_request_as_under_php_fpm() {
    Peers::start("requests").compare(&requests::cases());
}

#[test]
fn the_client_gets_the_same_response_as_from_php_fpm() {
    Peers::start("responses").compare(&responses::cases());
}

#[test]
fn the_suite_is_as_large_as_it_says() {
    let count = requests::cases().len() + responses::cases().len();
    assert!(count > 250, "{count} cases");
}
