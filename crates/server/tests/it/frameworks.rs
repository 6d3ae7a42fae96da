//! The bundled applications on the Symfony and the Laravel of the machine, resident and classic.
//!
//! What needs a newer one than the machine has is skipped, and says so; not in `make test-modern`, where all must be there.

use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Answer, App, Server};

const CLASSIC: [&str; 2] = [
    "pool.web.mode=\"classic\"",
    "pool.web.script=\"public/index.php\"",
];

/// Symfony's own runner for `frankenphp_handle_request()`, from 7.4 on.
const SYMFONY_RUNNER: &str = "/usr/share/php/Symfony/Component/Runtime/Runner/FrankenPhpWorkerRunner.php";

/// In Debian from forky on.
pub(crate) const LARAVEL: &str = "/usr/share/php/Illuminate/Foundation/Application.php";

/// Whether `file` of a package is installed. Where it must be, its absence fails the test.
pub(crate) fn installed(file: &str, test: &str) -> bool {
    let there = Path::new(file).exists();
    assert!(
        there || std::env::var_os("HEARTH_TEST_MODERN").is_none(),
        "{file} is missing, and HEARTH_TEST_MODERN is set"
    );
    if !there {
        // Past the test runner, which shows what eprintln!() says only if the test fails.
        let _ = writeln!(
            std::io::stderr(),
            "skipped {test}: there is no {file}; `make test-modern` runs it"
        );
    }
    there
}

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|e| panic!("{e}: {}", answer.text()))
}

/// What holds for the Symfony demo whoever runs its kernel. `mode` is what its pages say.
fn assert_symfony_serves(server: &Server, mode: &str) {
    let mut client = server.connect();
    for n in 0..3 {
        let answer = client.request("GET", "/api/hello", b"").unwrap();
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, r#"{"message":"Hello, world!"}"#)
        );
        let answer = client
            .request("POST", &format!("/api/request?n={n}"), b"body")
            .unwrap();
        let seen = json(&answer);
        assert_eq!(seen["query"]["n"], n.to_string(), "{seen}");
        assert_eq!(seen["method"], "POST");
    }
    let page = server.get("/");
    assert_eq!(page.status, 200, "{}", page.text());
    assert!(page.text().contains(mode), "no {mode:?} in {}", page.text());
    assert_eq!(server.get("/no/such/page").status, 404);
    assert_eq!(server.get("/throw").status, 500);
    let exited = server.get("/exit");
    assert_eq!(
        (exited.status, exited.text().as_str()),
        (200, "This page called exit() after this line.\n")
    );
    assert_eq!(server.get("/fatal").status, 500);
    assert_eq!(server.get("/api/hello").status, 200);
}

#[test]
fn the_symfony_demo_is_served_resident_by_the_runtime_of_hearth() {
    let server = Server::start(&App::bundled("symfony"), &["pool.web.workers=2"]);
    assert_symfony_serves(&server, "resident");
}

#[test]
fn the_symfony_demo_is_served_resident_by_its_own_runtime() {
    if !installed(
        SYMFONY_RUNNER,
        "the_symfony_demo_is_served_resident_by_its_own_runtime",
    ) {
        return;
    }
    let app = App::bundled("symfony").with_env("APP_RUNTIME", r"Symfony\Component\Runtime\SymfonyRuntime");
    let server = Server::start(&app, &["pool.web.workers=2"]);
    assert_symfony_serves(&server, "resident");
}

#[test]
fn a_worker_script_that_ends_after_some_requests_is_replaced_unnoticed() {
    if !installed(
        SYMFONY_RUNNER,
        "a_worker_script_that_ends_after_some_requests_is_replaced_unnoticed",
    ) {
        return;
    }
    let app = App::bundled("symfony")
        .with_env("APP_RUNTIME", r"Symfony\Component\Runtime\SymfonyRuntime")
        .with_env("FRANKENPHP_LOOP_MAX", "5");
    let ask = |server: &Server| {
        let mut client = server.connect();
        for _ in 0..22 {
            assert_eq!(client.request("GET", "/api/hello", b"").unwrap().status, 200);
        }
    };
    let server = Server::start(&app, &["pool.web.workers=1", "pool.web.isolation=none"]);
    ask(&server);
    server.log.wait_for_count("worker ready", 4);
    // What the script counts is put back, too.
    let server = Server::start(&app, &["pool.web.workers=1"]);
    ask(&server);
    assert_eq!(server.log.count("worker ready"), 1, "{}", server.log.text());
}

#[test]
fn the_symfony_demo_is_served_classic() {
    let server = Server::start(&App::bundled("symfony"), &CLASSIC);
    assert_symfony_serves(&server, "classic");
}

fn assert_laravel_serves(server: &Server) {
    for n in 0..3 {
        let answer = server.get("/api/hello");
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, r#"{"message":"Hello, world!"}"#)
        );
        let seen = json(&server.post(&format!("/api/request?n={n}"), b"body"));
        assert_eq!(seen["url"], format!("http://test/api/request?n={n}"));
        assert_eq!(seen["input"]["n"], n.to_string(), "{seen}");
    }
    assert_a_session_counts_its_own_visits(server);
    assert_eq!(server.get("/no/such/page").status, 404);
    let thrown = server.get("/api/throw");
    assert_eq!(thrown.status, 500);
    assert!(!thrown.text().contains("on purpose"), "{}", thrown.text());
    let exited = server.get("/api/exit");
    assert_eq!(
        (exited.status, exited.text().as_str()),
        (200, "This page called exit() after this line.\n")
    );
    assert_eq!(server.get("/api/hello").status, 200);
}

fn assert_a_session_counts_its_own_visits(server: &Server) {
    let mut client = server.connect();
    let mut first = client.request("GET", "/?name=%3Cb%3E", b"").unwrap();
    let other = server.get("/");
    for visits in 1..=3 {
        let page = first.text();
        assert_eq!(first.status, 200, "{page}");
        assert!(page.contains("<h1>Hello, &lt;b&gt;!</h1>"), "{page}");
        let counted = format!("Visits in this session: {visits}. Counted by this application: 1.");
        assert!(page.contains(&counted), "not {counted:?} but {page}");
        first = client.get_again("/?name=%3Cb%3E", &first).unwrap();
    }
    assert!(other.text().contains("Hello, world!"), "{}", other.text());
    assert!(
        other.text().contains("Visits in this session: 1."),
        "{}",
        other.text()
    );
}

#[test]
fn the_laravel_demo_is_served_resident_by_its_worker_script() {
    if installed(
        LARAVEL,
        "the_laravel_demo_is_served_resident_by_its_worker_script",
    ) {
        let server = Server::start(&App::bundled("laravel"), &["pool.web.workers=2"]);
        let ready = server.out.wait_for_line("hearth: ready on ");
        assert!(ready.contains("resident"), "{ready}");
        assert_laravel_serves(&server);
    }
}

#[test]
fn the_laravel_demo_is_served_resident_by_its_front_controller() {
    if installed(
        LARAVEL,
        "the_laravel_demo_is_served_resident_by_its_front_controller",
    ) {
        let settings = [
            "pool.web.mode=resident",
            "pool.web.script=public/index.php",
            "pool.web.workers=2",
        ];
        let server = Server::start(&App::bundled("laravel"), &settings);
        server
            .log
            .wait_for_line_with("waits where it asks HttpFoundation for its request");
        assert_laravel_serves(&server);
    }
}

#[test]
fn the_laravel_demo_is_served_classic() {
    if installed(LARAVEL, "the_laravel_demo_is_served_classic") {
        assert_laravel_serves(&Server::start(&App::bundled("laravel"), &CLASSIC));
    }
}

/// A newer root may bring newer versions: then the names of the targets and of the documents are to follow.
#[test]
fn the_modern_versions_are_what_they_are_said_to_be() {
    if std::env::var_os("HEARTH_TEST_MODERN").is_none() {
        return;
    }
    let symfony = Server::start(&App::bundled("symfony"), &[]);
    let ready = symfony.out.wait_for_line("hearth: ready on ");
    assert!(ready.contains("PHP 8.4."), "{ready}");
    let page = symfony.get("/").text();
    assert!(page.contains("7.4."), "{page}");
    let page = Server::start(&App::bundled("laravel"), &[]).get("/").text();
    assert!(page.contains("Laravel 13."), "{page}");
}
