//! What the application says in the log: its own level, graded by what it says, and never nothing about a 5xx.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{App, Folder, Server};

/// A server that logs as its settings say.
fn start(app: App, settings: &[&str]) -> Server {
    let one = ["pool.web.workers=1"];
    Server::start(&app.with_env("RUST_LOG", ""), &[&one[..], settings].concat())
}

/// A script that logs what it is asked to, and answers as it is asked to.
fn talker() -> Folder {
    Folder::with(
        "talker",
        &[(
            "public/index.php",
            "<?php
            if (isset($_GET['log'])) error_log($_GET['log']);
            if (isset($_GET['stderr'])) file_put_contents('php://stderr', $_GET['stderr']);
            if (isset($_GET['ini'])) ini_set($_GET['ini'], $_GET['value']);
            if (isset($_GET['call'])) $_GET['call']();
            if (isset($_GET['retry'])) header('Retry-After: ' . $_GET['retry']);
            http_response_code((int) ($_GET['status'] ?? 200));
            echo 'said';",
        )],
    )
}

/// Starts it, with a php.ini of its own.
fn with_ini(folder: &Folder, ini: &str, flags: &[&str]) -> Server {
    let path = folder.write("etc/php.ini", ini);
    let app = flags.iter().fold(folder.app(), |app, flag| app.with_flag(flag));
    start(app, &[&format!("pool.web.php_ini={}", path.display())])
}

/// What `hearth check` prints of that.
fn checked(folder: &Folder) -> String {
    let ini = format!("pool.web.php_ini={}", folder.file("etc/php.ini").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.args(["check", "--listen", "127.0.0.1:0", "--set", &ini]);
    let output = command.arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn said(text: &str) -> impl Fn(&Value) -> bool {
    move |event| event["text"] == text
}

#[test]
fn the_lines_of_the_application_pass_at_any_level_of_the_server() {
    let folder = talker();
    let mut server = start(folder.app(), &["log.level=error"]);
    server.get("/?log=a+note&stderr=a+word%0a");
    for text in ["a note", "a word"] {
        let event = server.log.wait("php", said(text));
        assert_eq!((&event["level"], &event["pool"]), (&"INFO".into(), &"web".into()));
    }
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    assert_eq!(server.log.count("server ready"), 0);
}

#[test]
fn the_lines_of_the_application_have_the_level_that_they_name() {
    let folder = talker();
    let server = start(folder.app(), &["log.php_level=warn"]);
    for (query, text) in [
        ("log=[debug]+Notified", "[debug] Notified"),
        ("log=[info]+Matched", "[info] Matched"),
        ("log=a+note", "a note"),
    ] {
        server.get(&format!("/?{query}"));
        assert!(server.log.last("php", said(text)).is_none(), "{text}");
    }
    for (query, text, level) in [
        ("log=[warning]+Slow", "[warning] Slow", "WARN"),
        ("stderr=[critical]+Down%0a", "[critical] Down", "ERROR"),
        (
            "log=[2026-11-22T15:00:00%2B00:00]+app.CRITICAL:+Down",
            "[2026-11-22T15:00:00+00:00] app.CRITICAL: Down",
            "ERROR",
        ),
    ] {
        server.get(&format!("/?{query}"));
        let event = server.log.wait("php", said(text));
        assert_eq!(event["level"], level, "{text}");
    }
    server.get("/?call=missing");
    server.log.wait("php", |event| {
        let text = event["text"].as_str().unwrap();
        event["level"] == "ERROR" && text.contains("Call to undefined function missing()")
    });
    for text in ["[debug] Notified", "[info] Matched", "a note"] {
        assert!(server.log.last("php", said(text)).is_none(), "{text}");
    }
}

/// Any script can write what Hearth's own lines look like.
#[test]
fn a_line_cannot_be_put_down_to_a_request_of_another_worker() {
    let folder = Folder::with(
        "forger",
        &[(
            "public/index.php",
            "<?php
            if (isset($_GET['wait'])) {
                error_log('at the gate');
                while (!file_exists($_GET['wait'])) { usleep(1000); clearstatcache(); }
            } else {
                $own = str_pad($_SERVER['HEARTH_REQUEST_ID'], 16, '0', STR_PAD_LEFT);
                file_put_contents('php://stderr', \"\\x1e{$own}\\x1f3\\x1fmy own\\n\");
                file_put_contents('php://stderr', \"\\x1e{$_GET['id']}\\x1f3\\x1fforged\\n\");
                file_put_contents('php://stderr', \"\\x1effffffffffffffff\\x1f3\\x1finvented\\n\");
            }",
        )],
    );
    let app = folder.app().with_env("RUST_LOG", "");
    let server = Server::start(&app, &["pool.web.workers=2"]);
    let open = server.file("open");
    let mut waiting = server.connect();
    let target = format!("/?wait={}", open.display());
    waiting.send("GET", &target, b"").unwrap();
    let other = server.log.wait("php", said("at the gate"));
    let id = other["request"].as_str().unwrap();
    server.get(&format!("/?id={id:0>16}"));
    for (text, level) in [("forged", "INFO"), ("invented", "INFO")] {
        let event = server.log.wait("php", said(text));
        assert_eq!(
            (&event["level"], &event["request"]),
            (&level.into(), &Value::Null)
        );
    }
    let own = server.log.wait("php", said("my own"));
    assert_eq!(own["level"], "ERROR");
    assert!(own["request"].is_string() && own["request"] != other["request"]);
    std::fs::write(&open, "").unwrap();
    assert_eq!(waiting.read().unwrap().status, 200);
}

#[test]
fn the_ini_files_in_force_are_named() {
    let folder = talker();
    let server = with_ini(&folder, "log_errors = On\ndisplay_errors = Off", &[]);
    let path = folder.file("etc/php.ini").canonicalize().unwrap();
    let path = path.to_str().unwrap();
    let ini = &server.status()["pools"][0]["generations"][0]["ini"];
    assert_eq!(ini["loaded"], path);
    let scanned = ini["scanned"].as_array().unwrap();
    assert!(!scanned.is_empty(), "{ini}");
    let named = |text: &str| {
        assert!(text.contains(path) && text.contains(" files)"), "{text}");
    };
    named(&server.ask(&["status"]));
    let checked = checked(&folder);
    named(&checked);
    assert!(!checked.contains("warning"), "{checked}");
    named(server.log.wait("zygote ready", |_| true)["ini"].as_str().unwrap());
    assert_eq!(server.log.count("PHP shows errors to clients"), 0);
    assert_eq!(server.log.count("PHP does not log errors"), 0);
}

#[test]
fn settings_that_show_errors_to_clients_or_log_none_are_warned_of() {
    let folder = talker();
    let ini = "log_errors = Off\ndisplay_errors = On";
    let server = with_ini(&folder, ini, &[]);
    for (message, setting) in [
        ("PHP shows errors to clients", "display_errors = Off in "),
        ("PHP does not log errors", "log_errors = On in "),
    ] {
        let event = server.log.wait(message, |_| true);
        let hint = event["hint"].as_str().unwrap();
        assert!(hint.contains(setting) && hint.ends_with("/etc/php.ini"), "{hint}");
    }
    let checked = checked(&folder);
    for warning in [
        "warning: PHP shows errors to clients: set ",
        "warning: PHP does not log errors: set ",
    ] {
        assert!(checked.contains(warning), "{checked}");
    }
    drop(server);
    let server = with_ini(&folder, ini, &["--dev"]);
    assert_eq!(server.log.count("PHP shows errors to clients"), 0);
}

const UNEXPLAINED: &str = "the application answered with a server error, and logged nothing about it";

#[test]
fn a_server_error_of_which_nothing_is_logged_is_named() {
    let folder = talker();
    let server = with_ini(&folder, "log_errors = On\ndisplay_errors = Off", &[]);
    assert_eq!(server.get("/?status=500").status, 500);
    let event = server.log.wait(UNEXPLAINED, |_| true);
    assert_eq!(
        (&event["status"], &event["method"], &event["uri"], &event["level"]),
        (&500.into(), &"GET".into(), &"/?status=500".into(), &"WARN".into())
    );
    // What was explained is not named again: the last one comes behind it.
    assert_eq!(server.get("/?status=500&log=why").status, 500);
    assert_eq!(server.get("/?call=missing").status, 500);
    // A page for maintenance is meant. Of each status the first is named.
    for target in ["/?status=503&retry=60", "/?status=503"] {
        assert_eq!(server.get(target).status, 503);
    }
    let event = server.log.wait(UNEXPLAINED, |event| event["status"] == 503);
    assert_eq!(event["uri"], "/?status=503");
    assert_eq!(server.log.count(UNEXPLAINED), 2);
}

#[test]
fn a_fatal_error_that_php_neither_shows_nor_logs_is_logged() {
    let folder = talker();
    for ini in [
        "log_errors = Off\ndisplay_errors = Off",
        "log_errors = On\ndisplay_errors = On\nerror_reporting = 0",
    ] {
        let server = with_ini(&folder, ini, &[]);
        server.get("/?call=missing");
        let event = server.log.wait("php", |event| event["level"] == "ERROR");
        let text = event["text"].as_str().unwrap();
        assert!(
            text.contains("PHP Fatal error:  Uncaught Error: Call to undefined function missing()"),
            "{text}"
        );
    }
}

#[test]
fn a_fatal_error_has_status_500_where_it_is_shown_with_dev_alone() {
    let folder = talker();
    folder.write("public/parse.php", "<?php syntax error");
    let server = start(folder.app().with_flag("--dev"), &["pool.web.ini.html_errors=0"]);
    for target in ["/?call=missing", "/parse.php"] {
        let answer = server.get(target);
        assert_eq!(answer.status, 500, "{target}");
        assert!(answer.text().contains("error: "), "{}", answer.text());
    }
    drop(server);
    let server = start(folder.app(), &["pool.web.ini.display_errors=1"]);
    assert_eq!(server.get("/?call=missing").status, 200, "as under php-fpm");
}

#[test]
fn a_worker_script_that_ends_with_an_exit_status_is_warned_of() {
    let folder = Folder::with(
        "exits",
        &[(
            "worker.php",
            "<?php while (frankenphp_handle_request(function () { echo 'x'; exit((int) $_GET['status']); })) {}",
        )],
    );
    let settings = [
        "pool.web.mode=resident",
        "pool.web.script=worker.php",
        "pool.web.isolation=none",
        "pool.web.warmup=none",
    ];
    let server = start(folder.app(), &settings);
    server.get("/?status=3");
    let ended = "the worker script called exit() with status 3; a fresh worker takes over";
    assert_eq!(server.log.wait("php", said(ended))["level"], "WARN");
    server.get("/?status=0");
    let ended = "the worker script called exit(); a fresh worker takes over";
    assert_eq!(server.log.wait("php", said(ended))["level"], "INFO");
}

#[test]
fn a_warmed_application_is_logged_to_boot_once() {
    let folder = Folder::with(
        "chatty",
        &[(
            "worker.php",
            "<?php error_log('booted'); echo '<!doctype html><title>Oops</title>', str_repeat('x', 5000);
            file_put_contents('php://stderr', \"[2026-11-22 15:00:00.\" . hrtime(true) . \"] app.WARNING: slow\\n\");
            while (hearth_handle_request(function () { echo 'x'; })) {}",
        )],
    );
    let settings = [
        "pool.web.mode=resident",
        "pool.web.script=worker.php",
        "pool.web.warmup=clean",
    ];
    let server = start(folder.app(), &settings);
    server.log.wait("zygote ready", |_| true);
    let count = |part: &str| {
        server
            .log
            .text()
            .lines()
            .filter(|line| line.contains(part))
            .count()
    };
    server.log.wait("php", |event| {
        event["text"]
            .as_str()
            .unwrap()
            .starts_with("Oops (the title of a page")
    });
    assert_eq!(
        (count("\"booted\""), count("app.WARNING: slow"), count("xxx")),
        (1, 1, 0)
    );
}

#[test]
fn the_access_log_is_written_before_the_last_line_of_the_log() {
    let folder = talker();
    let file = folder.file("both");
    let both = [
        format!("log.file={}", file.display()),
        format!("log.access_file={}", file.display()),
    ];
    let mut server = start(folder.app(), &[&both[0], &both[1]]);
    server.get("/?last=1");
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    let text = std::fs::read_to_string(&file).unwrap();
    let at = |part: &str| text.find(part).unwrap();
    assert!(at("/?last=1") < at("server stopped"), "{text}");
}

#[test]
fn a_folder_in_which_nothing_answers_is_told_once_and_shown_with_dev() {
    let folder = Folder::with("nothing", &[("notes.txt", "x")]);
    let server = start(folder.app(), &[]);
    let first = server.get("/");
    assert_eq!(first.status, 404);
    assert!(!first.text().contains("index.php"), "{}", first.text());
    server.get("/");
    let event = server.log.wait("nothing answers /", |_| true);
    assert!(event["why"].as_str().unwrap().contains("no index.php"), "{event}");
    assert_eq!(server.log.count("nothing answers /"), 1);
    drop(server);
    let server = start(folder.app().with_flag("--dev"), &[]);
    let page = server.get("/").text();
    assert!(
        page.contains("<p>there is no index.php or index.html in "),
        "{page}"
    );
}
