//! Ending the server: gracefully, and at once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{App, Client, Folder, Server, kill};

const RESIDENT: [&str; 3] = [
    "pool.web.mode=\"resident\"",
    "pool.web.script=\"worker.php\"",
    "pool.web.workers=1",
];

/// A server with a request in a worker that waits for the file `open`.
fn with_a_running_request() -> (Server, Client) {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    let (client, _) = server.at_the_gate(&server.file("open"));
    (server, client)
}

#[test]
fn sigterm_lets_the_running_request_finish() {
    let (mut server, mut client) = with_a_running_request();
    let mut idle = server.connect();
    assert_eq!(idle.request("GET", "/style.css", b"").unwrap().status, 200);
    server.signal(Signal::TERM);
    server.log.wait("server stopping", |_| true);
    // The idle connection is closed by the server; by then nothing listens any more.
    assert!(idle.read().is_err());
    assert!(TcpStream::connect(server.address()).is_err());
    std::fs::write(server.file("open"), "").unwrap();
    assert_eq!(client.read().unwrap().text(), "through the gate");
    assert!(server.wait_for_end().success());
    server.log.assert_clean_end();
}

#[test]
fn sigquit_does_the_same_and_a_second_one_ends_the_server_at_once() {
    let (mut server, mut client) = with_a_running_request();
    server.signal(Signal::QUIT);
    server
        .log
        .wait("server stopping", |event| event["signal"] == "SIGQUIT");
    std::fs::write(server.file("open"), "").unwrap();
    assert_eq!(client.read().unwrap().text(), "through the gate");
    assert!(server.wait_for_end().success());

    let (mut server, mut client) = with_a_running_request();
    server.signal(Signal::QUIT);
    server.log.wait("server stopping", |_| true);
    server.signal(Signal::QUIT);
    assert!(server.wait_for_end().success());
    assert!(client.read().is_err());
    server.log.wait("server stopping at once", |_| true);
}

/// Status and body of the answer to the readiness probe.
fn ready(server: &Server) -> String {
    let mut stream = UnixStream::connect(server.file("admin.sock")).unwrap();
    stream
        .write_all(b"GET /ready HTTP/1.0\r\nhost: h\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const SERVES_ON: &str = "server serves on, and is not ready any more";

#[test]
fn during_stop_delay_requests_are_served_and_probes_hear_of_the_end() {
    let settings = [&RESIDENT[..], &["stop_delay=\"1 h\""]].concat();
    let mut server = Server::start(&App::of_tests(), &settings);
    let mut kept = server.connect();
    assert_eq!(kept.request("GET", "/", b"").unwrap().status, 200);
    server.signal(Signal::TERM);
    server.log.wait(SERVES_ON, |event| event["signal"] == "SIGTERM");
    let answer = ready(&server);
    assert!(
        answer.starts_with("HTTP/1.0 503 ") && answer.contains("\"stopping\""),
        "{answer}"
    );
    assert_eq!(kept.request("GET", "/", b"").unwrap().status, 200);
    assert_eq!(server.get("/new").text(), "hello from /new");
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    server.log.wait("server stopping at once", |_| true);
}

#[test]
fn after_stop_delay_running_requests_finish_and_ctrl_c_does_not_wait_for_it() {
    let settings = [&RESIDENT[..], &["stop_delay=\"100 ms\""]].concat();
    let mut server = Server::start(&App::of_tests(), &settings);
    let (mut client, _) = server.at_the_gate(&server.file("open"));
    server.signal(Signal::QUIT);
    server.log.wait(SERVES_ON, |_| true);
    server.log.wait("server stopping", |_| true);
    std::fs::write(server.file("open"), "").unwrap();
    assert_eq!(client.read().unwrap().text(), "through the gate");
    assert!(server.wait_for_end().success());

    let settings = [&RESIDENT[..], &["stop_delay=\"1 h\""]].concat();
    let mut server = Server::start(&App::of_tests(), &settings);
    server.signal(Signal::INT);
    assert!(server.wait_for_end().success());
    assert_eq!(server.log.count(SERVES_ON), 0);
    server.log.assert_clean_end();
}

#[test]
fn hearth_stop_returns_when_requests_and_the_server_have_ended() {
    let (mut server, mut client) = with_a_running_request();
    let stopped = std::thread::scope(|scope| {
        let stopping = scope.spawn(|| server.ask(&["stop"]));
        server
            .log
            .wait("server stopping", |event| event["signal"] == "hearth stop");
        assert!(!stopping.is_finished());
        std::fs::write(server.file("open"), "").unwrap();
        stopping.join().unwrap()
    });
    assert_eq!(client.read().unwrap().text(), "through the gate");
    assert!(
        stopped.starts_with(&format!("stopped: pid {} has ended, after ", server.pid())),
        "{stopped}"
    );
    assert!(server.wait_for_end().success());
    server.log.assert_clean_end();
}

#[test]
fn hearth_stop_now_waits_for_nothing_also_where_it_stops_already() {
    let (mut server, mut client) = with_a_running_request();
    server.signal(Signal::TERM);
    server.log.wait("server stopping", |_| true);
    let answer: serde_json::Value = serde_json::from_str(&server.ask(&["stop", "--now", "--json"])).unwrap();
    assert_eq!(answer["pid"], server.pid());
    assert!(server.wait_for_end().success());
    assert!(client.read().is_err());

    let (mut server, mut client) = with_a_running_request();
    server.ask(&["stop", "--now"]);
    assert!(server.wait_for_end().success());
    assert!(client.read().is_err());
    let output = server.command(&["stop"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("no server of ") && said.contains(" is running (nobody answers on "),
        "{said}"
    );
}

#[test]
fn hearth_stop_ends_a_server_that_still_starts() {
    let folder = Folder::with(
        "stop",
        &[(
            "worker.php",
            "<?php while (!file_exists(__DIR__ . '/go')) { usleep(1000); }",
        )],
    );
    let settings = ["pool.web.mode=\"resident\"", "pool.web.script=\"worker.php\""];
    for watched in [false, true] {
        let watch = format!("watch={watched}");
        if watched {
            folder.write("worker.php", "<?php nonsense(");
        }
        let mut server = Server::launch(&App::at(folder.path()), &[&settings[..], &[&watch]].concat());
        let event = if watched {
            "application not booted: waiting for a change of its files"
        } else {
            "zygote started"
        };
        server.log.wait(event, |_| true);
        assert!(server.ask(&["stop"]).starts_with("stopped: "));
        assert!(server.wait_for_end().success());
    }
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let (mut server, mut client) = with_a_running_request();
    server.signal(Signal::INT);
    server.log.wait("server stopping", |_| true);
    server.signal(Signal::INT);
    assert!(server.wait_for_end().success());
    assert!(client.read().is_err());
    server.log.wait("workers stopped", |event| event["killed"] == 1);
}

#[test]
fn a_stopped_zygote_does_not_hold_up_the_stop() {
    let mut server = Server::start(&App::of_tests(), &RESIDENT);
    let zygote = server.log.wait("zygote started", |_| true)["pid"]
        .as_i64()
        .unwrap();
    let worker = server.log.wait("worker ready", |_| true)["worker"].clone();
    kill(i32::try_from(zygote).unwrap(), Signal::STOP);
    // It is to be forked anew, which it will never be.
    kill(server.worker_pid(&worker), Signal::KILL);
    server.log.wait("worker died", |_| true);
    let since = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    // stop_timeout is 30 s.
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    server.log.wait("zygote killed", |event| {
        event["reason"] == "it was stopped by a signal"
    });
}

#[test]
fn stop_timeout_bounds_the_stop() {
    let mut settings = RESIDENT.to_vec();
    settings.push("stop_timeout=\"200 ms\"");
    let mut server = Server::start(&App::of_tests(), &settings);
    let (_client, _) = server.at_the_gate(&server.file("never"));
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    server.log.wait("workers stopped", |event| event["killed"] == 1);
}
