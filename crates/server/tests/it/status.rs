//! `hearth status` and the admin socket that it asks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{App, Folder, Log, Server, kill};

const RESIDENT: [&str; 3] = [
    "pool.web.mode=\"resident\"",
    "pool.web.script=\"worker.php\"",
    "pool.web.workers=2",
];

/// The pool once its workers have finished so many requests: a client has its answer a moment before.
fn after(server: &Server, requests: u64) -> Value {
    loop {
        let pool = server.status()["pools"][0].take();
        if pool["totals"]["requests"].as_u64().unwrap() >= requests {
            return pool;
        }
    }
}

#[test]
fn status_shows_the_server_its_pool_and_its_workers() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    server.log.wait_for_count("worker ready", 2);
    server.get("/");
    after(&server, 1);
    let status = server.status();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["pid"], server.pid());
    assert_eq!(status["state"], "serving");
    assert_eq!(status["listen"], server.address().to_string());
    let pool = &status["pools"][0];
    assert_eq!(
        (&pool["name"], &pool["mode"]),
        (&json!("web"), &json!("resident"))
    );
    assert!(pool["script"].as_str().unwrap().ends_with("/worker.php"));
    assert_eq!(pool["queue"], json!({ "waiting": 0, "length": 1024 }));
    assert_eq!(pool["totals"], json!({ "requests": 1, "forked": 2, "died": 0 }));
    let generation = &pool["generations"][0];
    assert_eq!(generation["number"], 1);
    assert_eq!(generation["state"], "ready");
    assert!(generation["php_version"].as_str().unwrap().starts_with("8."));
    assert!(generation["boot_ms"].is_u64() && generation["pid"].is_i64());
    let workers = pool["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 2);
    for worker in workers {
        assert_eq!(worker["generation"], 1);
        assert_eq!(worker["pid"], server.worker_pid(&worker["number"]));
        assert_eq!(worker["request"], json!(null));
        assert!(worker["memory"]["private_bytes"].as_u64().unwrap() > 0);
        assert!(worker["memory"]["shared_bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn status_names_what_a_worker_runs_and_what_waits() {
    let server = Server::start(
        &App::of_tests(),
        &[RESIDENT[0], RESIDENT[1], "pool.web.workers=1"],
    );
    let open = server.file("open");
    let target = format!("/gate?open={}", open.display());
    let mut running = server.connect();
    running.send("POST", &target, b"").unwrap();
    let gate = server.log.wait("php", |event| event["text"] == "at the gate");
    let mut waiting = server.connect();
    waiting.send("GET", "/", b"").unwrap();
    let pool = loop {
        let pool = server.status()["pools"][0].take();
        if pool["queue"]["waiting"] == 1 {
            break pool;
        }
    };
    let worker = &pool["workers"][0];
    assert_eq!(worker["state"], "running");
    assert_eq!(worker["request"]["id"], gate["request"]);
    assert_eq!(worker["request"]["method"], "POST");
    assert_eq!(worker["request"]["uri"], target);
    let seconds = worker["request"]["seconds"].as_f64().unwrap();
    assert!((0.0..20.0).contains(&seconds), "{seconds}");
    let table = server.ask(&["status"]);
    assert!(table.contains("1 worker, 1 running; queue 1 of 1024;"), "{table}");
    assert!(table.contains("POST /gate?open="), "{table}");
    fs::write(&open, "").unwrap();
    assert_eq!(running.read().unwrap().text(), "through the gate");
    assert_eq!(waiting.read().unwrap().status, 200);
}

#[test]
fn status_says_how_requests_are_undone_and_why() {
    let pool = |settings: &[&str]| {
        let server = Server::start(&App::of_tests(), settings);
        let pool = server.status()["pools"][0].take();
        (pool, server.ask(&["status"]))
    };
    let (isolated, table) = pool(&RESIDENT);
    let isolation = &isolated["generations"][0]["isolation"];
    let method = isolation["method"].as_str().unwrap();
    assert!(["rewind", "fork"].contains(&method), "{isolated:#}");
    assert!(!isolation["reason"].as_str().unwrap().is_empty());
    assert_eq!(isolated["isolation"], "request");
    assert!(
        table.contains(&format!("isolation request by {method}: ")),
        "{table}"
    );
    let (kept, _) = pool(&[&RESIDENT[..], &["pool.web.isolation=\"none\""]].concat());
    assert_eq!(kept["isolation"], "none");
    assert_eq!(kept["generations"][0]["isolation"], json!(null));
    let (classic, _) = pool(&["pool.web.mode=\"classic\""]);
    assert_eq!(
        (&classic["isolation"], &classic["warmup"]),
        (&json!(null), &json!(null))
    );
}

#[test]
fn requests_of_dead_workers_stay_in_the_totals() {
    let server = Server::start(
        &App::of_tests(),
        &[RESIDENT[0], RESIDENT[1], "pool.web.workers=1"],
    );
    server.get("/");
    after(&server, 1);
    kill(server.worker_pid(&json!(0)), Signal::KILL);
    server.log.wait_for_count("worker ready", 2);
    server.get("/");
    let pool = after(&server, 2);
    assert_eq!(pool["totals"], json!({ "requests": 2, "forked": 2, "died": 1 }));
    assert_eq!(pool["workers"][0]["requests"], 1);
}

#[test]
fn a_server_that_stops_says_so_and_takes_its_socket_along() {
    let mut server = Server::start(&App::of_tests(), &RESIDENT);
    let open = server.file("open");
    let (mut client, _) = server.at_the_gate(&open);
    server.signal(Signal::TERM);
    server.log.wait("server stopping", |_| true);
    assert_eq!(server.status()["state"], "stopping");
    fs::write(&open, "").unwrap();
    client.read().unwrap();
    assert!(server.wait_for_end().success());
    assert!(!server.file("admin.sock").exists());
}

#[test]
fn a_second_server_on_the_same_socket_is_refused() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    let socket = server.file("admin.sock");
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let failed = Server::fail(&App::of_tests(), &[&format!("admin_socket={}", socket.display())]);
    assert_eq!(failed.status.code(), Some(1));
    let said = failed.log.wait_for_line("error: another server of ");
    assert!(
        said.contains("admin.sock")
            && said.contains(&format!("(pid {})", server.pid()))
            && said.contains("stop it before you start another"),
        "{said}"
    );
    assert_eq!(server.status()["state"], "serving");
}

#[test]
fn a_socket_that_a_killed_server_left_is_replaced() {
    let dir = std::env::temp_dir().join(format!("hearth-it-stale-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let socket = dir.join("admin.sock");
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    let server = Server::start(&App::of_tests(), &[&format!("admin_socket={}", socket.display())]);
    server.log.wait("admin socket ready", |event| {
        event["path"] == socket.to_str().unwrap()
    });
    drop(server);
    assert!(!socket.exists());
    fs::remove_dir(&dir).unwrap();
}

#[test]
fn a_server_is_found_by_the_setting_it_was_started_with() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.args(["status", "--json", "--set", "pool.web.workers=2", "--set"]);
    command.arg(format!("admin_socket={}", server.file("admin.sock").display()));
    let output = command.arg(server.file(".")).output().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["pid"], server.pid());
}

/// A user of the tests' own.
const SOMEBODY: u32 = 54_324;

/// A command with a temporary folder of its own and no other place for sockets.
fn command_in(temporary: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.args(words).env("TMPDIR", temporary);
    command.env_remove("XDG_RUNTIME_DIR");
    command
}

#[test]
fn root_finds_the_server_of_another_user() {
    let folder = Folder::with("others", &[("app/index.php", "<?php echo 'on';")]);
    let temporary = folder.file("tmp");
    fs::create_dir(&temporary).unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o1777)).unwrap();
    let mut may = command_in(&temporary, &["--version"]);
    if !may.uid(SOMEBODY).output().is_ok_and(|done| done.status.success()) {
        eprintln!("not run: no other user may run the server here");
        return;
    }
    let app = folder.file("app").display().to_string();
    let mut serve = command_in(&temporary, &["serve", "--listen", "127.0.0.1:0", &app]);
    serve.uid(SOMEBODY).gid(SOMEBODY).current_dir(&app);
    let mut server = serve
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = Log::default();
    let reader = out.follow(server.stdout.take().unwrap());
    out.wait_for_line("hearth: ready on ");
    let asked = command_in(&temporary, &["status", "--json", &app])
        .output()
        .unwrap();
    kill(i32::try_from(server.id()).unwrap(), Signal::TERM);
    assert!(server.wait().unwrap().success());
    reader.join().unwrap();
    let status: Value = serde_json::from_slice(&asked.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&asked.stderr)));
    assert_eq!(status["pid"], server.id());
}

#[test]
fn an_admin_socket_that_is_removed_comes_back() {
    let mut server = Server::start(&App::of_tests(), &RESIDENT);
    let anew = "admin socket was removed, and is bound anew";
    fs::remove_file(server.file("admin.sock")).unwrap();
    server.log.wait(anew, |_| true);
    assert_eq!(server.status()["pid"], server.pid());
    // A successor gets the new one.
    server.replace(1);
    server.log.wait_for_count("server stopped", 1);
    assert_eq!(server.status()["pid"], server.pid());
    fs::remove_file(server.file("admin.sock")).unwrap();
    server.log.wait_for_count(anew, 2);
    assert_eq!(server.status()["pid"], server.pid());
}

#[test]
fn without_a_server_the_command_says_so() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    let dir = std::env::temp_dir();
    let output = command
        .arg("status")
        .arg("--socket")
        .arg("/nonexistent/admin.sock")
        .arg(&dir)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("error: no server of ") && said.contains("/nonexistent/admin.sock"),
        "{said}"
    );
}

#[test]
fn what_the_socket_does_not_know_is_refused() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    let ask = |request: &str| {
        use std::io::{Read, Write};
        let mut stream = std::os::unix::net::UnixStream::connect(server.file("admin.sock")).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("GET /nothing HTTP/1.0\r\n\r\n").contains("404 Not Found"));
    assert!(ask("POST /status HTTP/1.0\r\n\r\n").contains("405 Method Not Allowed"));
    assert!(ask("nonsense\r\n\r\n").contains("400 Bad Request"));
}

#[test]
fn a_request_in_a_fork_of_its_own_is_counted_once() {
    let fork = "pool.web.isolation_method=\"fork\"";
    let server = Server::start(
        &App::of_tests(),
        &[RESIDENT[0], RESIDENT[1], "pool.web.workers=1", fork],
    );
    for _ in 0..3 {
        server.get("/");
    }
    // The last one may not be counted yet, those before it are.
    let counted = server.status()["pools"][0]["totals"]["requests"]
        .as_u64()
        .unwrap();
    assert!((2..=3).contains(&counted), "{counted} of 3 requests");
}

#[test]
fn a_status_that_is_watched_comes_again_and_again() {
    use std::io::{BufRead, BufReader};

    let server = Server::start(&App::of_tests(), &["pool.web.workers=1"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.args(["status", "--watch", "--socket"]);
    command.arg(server.file("admin.sock")).arg(server.file("."));
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let heads = lines
        .map(|line| line.unwrap())
        .filter(|line| line.starts_with("hearth 0.1.0: serving "));
    let seen = heads.take(3).count();
    kill(i32::try_from(watch.id()).unwrap(), Signal::INT);
    watch.wait().unwrap();
    assert_eq!(seen, 3);
}

#[test]
fn on_a_terminal_each_status_is_drawn_over_the_last() {
    use std::io::{BufRead, BufReader};

    let server = Server::start(&App::of_tests(), &["pool.web.workers=1"]);
    let line = format!(
        "exec {} status --watch --socket {} {}",
        env!("CARGO_BIN_EXE_hearth"),
        server.file("admin.sock").display(),
        server.file(".").display()
    );
    // It runs the command on a terminal of its own.
    let mut command = Command::new("script");
    command.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut watch = command.spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let drawn: Vec<String> = lines.map(|line| line.unwrap()).take(12).collect();
    kill(i32::try_from(watch.id()).unwrap(), Signal::TERM);
    watch.wait().unwrap();
    // To the top; each line to its end, then what is below.
    assert!(drawn[0].starts_with("\x1b[Hhearth 0.1.0: serving "), "{drawn:?}");
    assert!(drawn[0].trim_end().ends_with("\x1b[K"), "{drawn:?}");
    let again = "\x1b[J\x1b[Hhearth 0.1.0: serving ";
    assert!(drawn[1..].iter().any(|line| line.starts_with(again)), "{drawn:?}");
}

#[test]
fn a_title_says_what_a_worker_is_at() {
    let server = Server::start(&App::of_tests(), &["pool.web.workers=1"]);
    let worker = server.log.wait("worker ready", |_| true)["pid"].as_i64().unwrap();
    let title = || {
        let line = std::fs::read_to_string(format!("/proc/{worker}/cmdline")).unwrap();
        line.trim_end_matches('\0').to_owned()
    };
    let open = server.file("open");
    let (mut client, _) = server.at_the_gate(&open);
    assert_eq!(title(), "hearth: worker web 0 gen 1 running POST /gate");
    std::fs::write(open, "").unwrap();
    client.read().unwrap();
    // Shown once the worker asks for the next request.
    while title() != "hearth: worker web 0 gen 1 idle" {
        std::thread::yield_now();
    }
}
