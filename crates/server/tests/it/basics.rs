//! The thinnest line: a request goes in, the response comes out.

use std::path::Path;
use std::process::Command;

use crate::harness::{App, Folder, Server, in_each_mode};

#[test]
fn the_bundled_hello_is_served_in_resident_mode() {
    let server = Server::start(&App::bundled("hello"), &[]);
    for _ in 0..3 {
        let answer = server.get("/");
        assert_eq!((answer.status, answer.text().as_str()), (200, "Hello, world!"));
        assert_eq!(answer.header("content-type"), Some("text/html; charset=UTF-8"));
    }
}

#[test]
fn the_bundled_hello_is_served_in_classic_mode() {
    let settings = [
        "pool.web.mode=\"classic\"",
        "pool.web.script=\"public/index.php\"",
    ];
    let server = Server::start(&App::bundled("hello"), &settings);
    assert_eq!(server.get("/").text(), "Hello, world!");
}

#[test]
fn a_path_without_a_file_reaches_the_application() {
    in_each_mode(&[], |server| {
        let answer = server.get("/some/path?and=query");
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "hello from /some/path?and=query")
        );
    });
}

#[test]
fn phps_own_settings_are_stronger_than_its_ini_files() {
    let settings = [
        "pool.web.ini.opcache.jit=tracing",
        "pool.web.ini.user_agent='; \"quoted\" = \\\\'",
    ];
    in_each_mode(&settings, |server| {
        assert_eq!(server.get("/ini?name=opcache.jit").text(), "tracing");
        assert_eq!(server.get("/ini?name=user_agent").text(), "; \"quoted\" = \\\\");
    });
}

#[test]
fn a_connection_is_kept_for_many_requests() {
    in_each_mode(&[], |server| {
        let mut client = server.connect();
        for n in 0..20 {
            let target = format!("/{n}");
            assert_eq!(
                client.request("GET", &target, b"").unwrap().text(),
                format!("hello from {target}")
            );
        }
    });
}

#[test]
fn a_static_file_needs_no_worker() {
    in_each_mode(&[], |server| {
        let answer = server.get("/style.css");
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("text/css; charset=utf-8"))
        );
        assert_eq!(answer.text(), "body { color: black; }\n");
    });
}

#[test]
fn bodies_in_memory_and_spooled_reach_php_whole() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        for length in [0, 1, 100_000, 256 * 1024, 256 * 1024 + 1, 3_000_000] {
            let answer = server.post("/length", &vec![b'x'; length]);
            assert_eq!((answer.status, answer.text()), (200, length.to_string()));
        }
    });
}

#[test]
fn what_php_says_is_in_the_log_with_worker_and_request() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        assert_eq!(server.get("/log").text(), "spoken");
        let logged = server
            .log
            .wait("php", |event| event["text"] == "logged\nin two lines");
        let printed = server.log.wait("php", |event| event["text"] == "printed");
        for event in [logged, printed] {
            assert_eq!(event["worker"], 0);
            assert_eq!(event["request"].as_str().map(str::len), Some(8), "{event}");
        }
    });
}

#[test]
fn the_server_is_not_linked_with_php() {
    let hearth = Path::new(env!("CARGO_BIN_EXE_hearth"));
    let output = Command::new("ldd").arg(hearth).output().unwrap();
    let libraries = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && libraries.contains("libc"),
        "{libraries}"
    );
    assert!(!libraries.contains("libphp"), "{libraries}");
}

#[test]
fn a_line_of_hearth_log_has_the_level_that_the_script_gave_it() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        assert_eq!(server.get("/levels").text(), "logged");
        for (level, text) in [
            ("INFO", "PHP Fatal error: only information"),
            (
                "DEBUG",
                "in two\nlines {\"a\":{\"b\":1.5},\"c\":\"\u{fffd}\",\"d\":0,\"e\":\"ü/\"}",
            ),
            ("WARN", "warning [\"a list\"]"),
            ("ERROR", "error"),
            ("ERROR", "beyond"),
            ("DEBUG", "below"),
        ] {
            let event = server.log.wait("php", |event| event["text"] == text);
            assert_eq!(
                (&event["level"], &event["worker"]),
                (&level.into(), &0.into()),
                "{text}"
            );
            assert!(event["request"].is_string(), "{event}");
        }
    });
}

#[test]
fn the_functions_of_pcntl_are_switched_off_as_the_manual_says() {
    let manual = include_str!("../../../../docs/workers.md");
    let from = manual.find("disable_functions = ").expect("the setting");
    let to = from + manual[from..].find("```").unwrap();
    let settings = format!("[pool.web.ini]\n{}", &manual[from..to]);
    let script = "<?php echo implode(' ', get_extension_funcs('pcntl') ?: []);";
    let bare = Folder::with("pcntl", &[("public/index.php", script)]);
    assert_ne!(bare.serve().get("/").text(), "", "there are some");
    let folder = Folder::with(
        "pcntl",
        &[("public/index.php", script), ("hearth.toml", &settings)],
    );
    assert_eq!(folder.serve().get("/").text(), "");
}
