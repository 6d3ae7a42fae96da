//! What must not stand above `hearth_request()`, and where it must not be called: dropped, warned of, or refused.

use std::fs;
use std::process::Command;

use super::{dir, start_app};
use crate::harness::{App, Folder, Server};

#[test]
fn what_is_printed_above_is_dropped_with_one_warning_that_names_its_line() {
    let script = "<?php\necho 'above';\nheader('X-Above: 1');\nsetcookie('above', '1');\nhearth_request();\necho 'below';";
    let folder = Folder::with("once-dropped", &[("worker.php", script)]);
    let server = start_app(&folder.app(), "worker.php", &["pool.web.warmup=clean"]);
    let answer = server.get("/");
    assert_eq!(
        (answer.text().as_str(), answer.header("x-above")),
        ("below", None)
    );
    assert_eq!(answer.header("set-cookie"), None);
    for (what, line) in [("output", 2), ("header", 3)] {
        let said = format!(
            "the {what} above hearth_request() belongs to no request and is dropped (the first is in "
        );
        let event = server.log.wait("php", |event| {
            event["text"].as_str().is_some_and(|text| text.starts_with(&said))
        });
        let text = event["text"].as_str().unwrap();
        assert!(text.contains(&format!("worker.php:{line})")), "{text}");
        assert_eq!(server.log.text().matches(&said).count(), 1);
    }
}

/// A script and a file that it includes; both read the request above the line.
fn reader() -> Folder {
    let script = "<?php
        require 'boot.php';
        $page = $_GET['page'] ?? 1;
        $env = $_SERVER['PATH'] . $_SERVER['SCRIPT_FILENAME'];
        function wait() {
            $host = isset($_SERVER['HTTP_HOST']);
            hearth_request();
            echo 'served ', $_GET['page'], $_COOKIE['no'] ?? '';
        }
        wait();
    ";
    let boot = "<?php\nfunction secure() { return !empty($_SERVER['HTTPS']); }\nsecure();\nsecure();\nfunction unused() { return $_POST; }";
    Folder::with("once-reads", &[("worker.php", script), ("boot.php", boot)])
}

#[test]
fn reads_of_the_request_above_the_line_are_warned_of_with_their_lines() {
    let folder = reader();
    let server = start_app(&folder.app(), "worker.php", &[]);
    assert_eq!(server.get("/?page=2").text(), "served 2");
    for said in [
        "worker.php:3 reads $_GET while",
        "worker.php:6 reads $_SERVER['HTTP_HOST'] while",
    ] {
        server.log.wait_for_line_with(said);
    }
    assert_eq!(
        server
            .log
            .text()
            .matches(" while the application boots: ")
            .count(),
        2
    );
}

#[test]
fn all_reads_of_the_request_above_the_line_are_listed_on_demand() {
    let folder = reader();
    let output = Command::new(env!("CARGO_BIN_EXE_hearth"))
        .args(["check", "--image", "--set", "pool.web.mode=resident"])
        .args([
            "--set",
            "pool.web.script=worker.php",
            "--set",
            "listen=127.0.0.1:0",
        ])
        .arg(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for said in [
        "worker.php:3 reads $_GET while",
        "worker.php:6 reads $_SERVER['HTTP_HOST'] while",
        "boot.php:2 reads $_SERVER['HTTPS'] while",
    ] {
        assert_eq!(text.matches(said).count(), 1, "{said} in {text}");
    }
    assert_eq!(
        text.matches(" while the application boots: ").count(),
        3,
        "{text}"
    );
}

#[test]
fn a_call_where_no_request_can_begin_is_refused_at_the_start_with_its_line() {
    let source = fs::read_to_string(dir().join("refused.php")).unwrap();
    for (place, says) in [
        (
            "callback",
            "hearth_request() cannot wait for a request in an output callback: ",
        ),
        (
            "destructor",
            "hearth_request() cannot wait for a request in a destructor: ",
        ),
        (
            "autoloader",
            "hearth_request() cannot wait for a request in an autoloader: ",
        ),
        (
            "shutdown",
            "hearth_request() cannot wait for a request in a shutdown function: ",
        ),
        (
            "finally",
            "hearth_request() cannot wait for a request while an exception is thrown: ",
        ),
        ("session", "a session was started above hearth_request(): "),
    ] {
        let app = App::at(&dir()).with_env("TEST_PLACE", place);
        let failed = Server::fail(&app, &["pool.web.mode=resident", "pool.web.script=refused.php"]);
        assert_eq!(failed.status.code(), Some(1), "{place}");
        let text = failed.log.text();
        let mark = format!("// {place}");
        let line = 1 + source.lines().position(|line| line.ends_with(&mark)).unwrap();
        let at = format!("refused.php:{line}");
        assert!(
            text.contains(says) && text.contains(&at),
            "{place}: no {says:?}, {at} in {text}"
        );
        failed.log.wait_for_line("error: the application did not boot: ");
    }
}

#[test]
fn isolation_none_is_refused_at_the_start_with_the_reason() {
    let marks = Folder::new("once-none");
    let app = App::at(&dir()).with_env("TEST_MARKS", &marks.file("marks").display().to_string());
    for warmup in ["none", "clean", "requests"] {
        let warmup = format!("pool.web.warmup={warmup}");
        let settings = [
            "pool.web.mode=resident",
            "pool.web.script=app.php",
            "pool.web.isolation=none",
            &warmup,
        ];
        let failed = Server::fail(&app, &settings);
        assert_eq!(failed.status.code(), Some(1));
        let said = failed.log.wait_for_line("error: the application did not boot: ");
        assert!(
            said.contains("app.php calls hearth_request(), which boots once")
                && said.contains("it needs isolation = \"request\", and pool.web has \"none\""),
            "{said}"
        );
    }
}
