//! Health and readiness, over the admin socket and over TCP.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{App, Folder, Server, kill};

/// Status and body of the answer to a request without a body.
fn ask(mut stream: impl Read + Write, method: &str, route: &str) -> (u16, Value) {
    write!(stream, "{method} {route} HTTP/1.0\r\nhost: probe\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

fn ready(server: &Server) -> (u16, Value) {
    ask(
        UnixStream::connect(server.file("admin.sock")).unwrap(),
        "GET",
        "/ready",
    )
}

const GOOD: &str = "<?php while (hearth_handle_request(fn () => print('well'))) {}";

#[test]
fn probes_are_answered_over_tcp_and_nothing_else_is() {
    let server = Server::start(&App::of_tests(), &["admin_listen=\"127.0.0.1:0\""]);
    let address = server.log.wait("probes answered", |_| true)["address"].clone();
    let address: SocketAddr = address.as_str().unwrap().parse().unwrap();
    let probe = |method, route| ask(TcpStream::connect(address).unwrap(), method, route);
    let (status, health) = probe("GET", "/health");
    assert_eq!((status, &health["pid"]), (200, &Value::from(server.pid())));
    let (status, readiness) = probe("GET", "/ready");
    assert_eq!((status, &readiness["ready"]), (200, &Value::from(true)));
    assert_eq!(probe("GET", "/status").1["state"], "serving");
    assert_eq!(probe("POST", "/status").0, 405);
    for (method, route) in [
        ("GET", "/leaks"),
        ("POST", "/reload"),
        ("POST", "/rollback"),
        ("GET", "/"),
    ] {
        assert_eq!(probe(method, route).0, 404, "{method} {route}");
    }
}

#[test]
fn an_application_that_boots_no_more_is_not_ready_and_says_why() {
    let project = Folder::new("health");
    project.write("worker.php", GOOD);
    let server = Server::start(
        &project.app(),
        &[
            "pool.web.mode=\"resident\"",
            "pool.web.script=\"worker.php\"",
            "pool.web.workers=1",
        ],
    );
    assert_eq!(ready(&server).0, 200);
    project.write(
        "worker.php",
        "<?php throw new Exception('the disk is on holiday');",
    );
    let zygote = server.log.wait("zygote started", |_| true)["pid"]
        .as_i64()
        .unwrap();
    kill(i32::try_from(zygote).unwrap(), Signal::KILL);
    server.log.wait("zygote did not boot", |_| true);
    // The worker serves on.
    assert_eq!(ready(&server).0, 200);
    let trouble = &server.status()["pools"][0]["trouble"];
    let reason = trouble["reason"].as_str().unwrap();
    assert!(reason.contains("the disk is on holiday"), "{reason}");
    assert!(trouble["failed_boots"].as_u64().unwrap() >= 1);
    let shown = server.ask(&["status"]);
    assert!(
        shown.contains("  trouble: the application did not boot: "),
        "{shown}"
    );
    let worker = server.worker_pid(&Value::from(0));
    kill(worker, Signal::KILL);
    server.log.wait("worker died", |_| true);
    let (status, readiness) = ready(&server);
    let reason = readiness["reason"].as_str().unwrap();
    assert_eq!(status, 503);
    assert!(
        reason.starts_with("no worker of pool web runs: ") && reason.contains("the disk is on holiday"),
        "{reason}"
    );
    assert_eq!(
        ask(
            UnixStream::connect(server.file("admin.sock")).unwrap(),
            "GET",
            "/health"
        )
        .0,
        200
    );
    project.write("worker.php", GOOD);
    server.log.wait_for_count("worker ready", 2);
    assert_eq!(ready(&server).0, 200);
    assert_eq!(server.status()["pools"][0]["trouble"], Value::Null);
    assert_eq!(server.get("/").text(), "well");
}

#[test]
fn a_server_that_stops_is_not_ready() {
    let mut server = Server::start(&App::of_tests(), &["pool.web.workers=1"]);
    let open = server.file("open");
    let (mut client, _) = server.at_the_gate(&open);
    server.signal(Signal::TERM);
    server.log.wait("server stopping", |_| true);
    let (status, readiness) = ready(&server);
    assert_eq!((status, &readiness["reason"]), (503, &Value::from("stopping")));
    fs::write(open, "").unwrap();
    assert_eq!(client.read().unwrap().status, 200);
    assert!(server.wait_for_end().success());
}
