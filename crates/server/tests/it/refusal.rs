//! What a script does while it boots that no image can hold: the pool does not start, or says what is wrong. Scripts are in
//! `refusal/`.

use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{App, Database, Server};

const FFI: &str = "pool.web.ini.ffi.enable=\"true\"";

fn app() -> App {
    App::at(&folder())
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/refusal")
}

fn settings(script: &str) -> Vec<String> {
    vec![
        "pool.web.mode=resident".to_owned(),
        format!("pool.web.script={script}"),
        "pool.web.warmup=none".to_owned(),
        "pool.web.workers=1".to_owned(),
        FFI.to_owned(),
    ]
}

/// Why a pool with this script does not start, when it is isolated.
fn refusal(app: &App, script: &str) -> String {
    let settings = settings(script);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let failed = Server::fail(app, &settings);
    assert_eq!(failed.status.code(), Some(1));
    failed.log.wait_for_line("error: the application did not boot: ");
    failed.log.text()
}

/// `hearth check --image`.
fn check(script: &str, environment: &[(&str, &str)]) -> Output {
    check_with(&settings(script), environment)
}

fn check_with(settings: &[String], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.args(["check", "--image"]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    command.envs(environment.iter().copied());
    command.arg(folder()).output().unwrap()
}

#[test]
fn a_connection_of_the_boot_is_refused_by_peer_holder_and_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = format!("tcp://{}", listener.local_addr().unwrap());
    let said = refusal(&app().with_env("TEST_PEER", &peer), "connected.php");
    for part in [
        peer.trim_start_matches("tcp://"),
        "a stream in Upstream::$links (",
        "refusal/connected.php:11)",
        "connect in the request",
        "isolation = \"none\"",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert!(
        !said.contains("PDO"),
        "a database in a file is no connection: {said}"
    );
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);

    let output = check("connected.php", &[("TEST_PEER", &peer)]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("Upstream::$links"), "{complaint}");
}

#[test]
fn a_connection_that_the_boot_has_closed_is_not_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = format!("tcp://{}", listener.local_addr().unwrap());
    let app = app().with_env("TEST_PEER", &peer).with_env("TEST_CLOSES", "1");
    let settings = settings("connected.php");
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Server::start(&app, &settings);
    assert_eq!(server.get("/").text(), "served");
}

#[test]
fn a_connection_of_the_boot_is_a_warning_without_isolation() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = format!("tcp://{}", listener.local_addr().unwrap());
    let mut settings = settings("connected.php");
    settings.push("pool.web.isolation=none".to_owned());
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Server::start(&app().with_env("TEST_PEER", &peer), &settings);
    assert_eq!(server.get("/").text(), "served");
    server.log.wait_for_line_with("all workers share it");
}

#[test]
fn a_connection_of_an_extension_is_refused_with_the_object_that_may_hold_it() {
    let redis = Database::redis();
    let socket = redis.address().display().to_string();
    let said = refusal(&app().with_env("TEST_REDIS", &socket), "redis.php");
    for part in [&*socket, "Redis in Cache::$redis (", "refusal/redis.php:12)"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}

#[test]
fn a_persistent_connection_that_nobody_uses_is_closed_before_the_fork() {
    let redis = Database::redis();
    let socket = redis.address().display().to_string();
    let app = app()
        .with_env("TEST_REDIS", &socket)
        .with_env("TEST_PERSISTENT", "1");
    let settings = settings("redis.php");
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Server::start(&app, &settings);
    for _ in 0..3 {
        assert_eq!(server.get("/").text(), "an answer");
    }
}

#[test]
fn a_thread_of_the_boot_is_refused_by_name() {
    let booted = Path::new(env!("CARGO_MANIFEST_DIR")).join("../worker/tests/apps");
    let said = refusal(&App::at(&booted), "threads.php");
    assert!(said.contains("(telemetry)"), "{said}");
    assert!(said.contains("Ways out"), "{said}");
}

#[test]
fn a_generator_of_the_boot_is_told_with_its_holder_and_line() {
    let settings = settings("dice.php");
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Server::start(&app(), &settings);
    let line = server.log.wait_for_line_with("draws the same numbers");
    assert!(line.contains("Mt19937 in Dice::$randomizer ("), "{line}");
    assert!(line.contains("refusal/dice.php:11)"), "{line}");
    let line = server
        .log
        .wait_for_line_with("was locked by flock() while the application booted");
    assert!(line.contains("the zygote keeps the lock"), "{line}");
    assert_eq!(server.get("/").text(), server.get("/").text());
}

#[test]
fn the_image_is_described_on_demand() {
    let output = check("dice.php", &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}{complaint}");
    for part in [
        "      isolation: request, by ",
        ": 2 of the application and its libraries, ",
        "    destructors: Journal (1 object)",
        "refusal/dice.php\n",
        "     generators: Random\\Engine\\Mt19937 in Dice::$randomizer (",
        "        finding: Random\\Engine\\Mt19937 in Dice",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    if text.contains("by rewind") {
        assert!(
            text.contains(" MiB, ") && text.contains("pages of 4 KiB"),
            "{text}"
        );
    }
}

/// What `hearth check --image` says that the warm-up has left, a line each; `None`: it says nothing of it.
fn left_by(warmup: &str, path: &str) -> Option<Vec<String>> {
    let mut settings = settings("memory.php");
    settings.push(format!("pool.web.warmup={warmup}"));
    settings.push(format!("pool.web.warmup_paths=[\"{path}\"]"));
    let output = check_with(&settings, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}{complaint}");
    let (_, list) = text.split_once("left by warm-up: ")?;
    let (list, _) = list.split_once("        finding: ").unwrap();
    Some(
        list.lines()
            .map(|line| line.trim_start_matches([' ', ':']).to_owned())
            .collect(),
    )
}

#[test]
fn what_a_warm_up_by_requests_leaves_in_the_image_is_named() {
    let left = left_by("requests", "/?tenant=a&user=alice&locale=de_DE").unwrap();
    let handle = format!(
        "resource STDIO {}: left open",
        folder().join("memory.php").display()
    );
    let expected = [
        "setting precision: changed",
        "handler: error handler: null → Closure",
        "constant TENANT: defined",
        &handle,
        "environment variable MEMORY_USER: set",
        "process: time zone: UTC → Asia/Tokyo",
        "global $user: null → string(5)",
        "static variable locale()::$locale (memory.php:21): null → string(5)",
        "static property Tenants::$current (memory.php:11): null → string(1)",
        "static variable closure::$first (memory.php:35): null → string(5)",
        "property Tenants->known (memory.php:11): array(0) → array(1)",
    ];
    for line in expected {
        assert!(left.iter().any(|one| one == line), "no {line:?} in {left:#?}");
    }
    let named = |part: &str| left.iter().any(|line| line.contains(part));
    assert!(named("process: locale: "), "{left:#?}");
    // What the boot has set, and values.
    for part in ["booted", "memory_limit", "alice", "de_DE"] {
        assert!(!named(part), "{part} in {left:#?}");
    }
}

#[test]
fn a_warm_up_that_leaves_nothing_is_said_to_leave_nothing() {
    assert_eq!(left_by("requests", "/plain").unwrap(), ["none"]);
    for warmup in ["clean", "none"] {
        assert_eq!(
            left_by(warmup, "/?tenant=a&user=alice&locale=de_DE"),
            None,
            "{warmup}"
        );
    }
}
