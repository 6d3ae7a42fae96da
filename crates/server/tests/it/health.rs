//! Health and readiness, over the admin socket and over TCP.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{App, Folder, Server, kill};

/// Status and body of the answer to a request without a body.
fn ask(mut stream: impl Read + Write, method: &str, route: &str) -> (u16, Value) {
    write!(stream, "{method} {route} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
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

/// A server that answers probes over TCP, and where.
fn probed(settings: &[&str]) -> (Server, SocketAddr) {
    let settings = [&["admin_listen=\"127.0.0.1:0\"", "pool.web.workers=1"], settings].concat();
    let server = Server::start(&App::of_tests(), &settings);
    let address = server.log.wait("probes answered", |_| true)["address"].clone();
    let address = address.as_str().unwrap().parse().unwrap();
    (server, address)
}

const GOOD: &str = "<?php while (hearth_handle_request(fn () => print('well'))) {}";

#[test]
fn probes_are_answered_over_tcp_and_nothing_else_is() {
    let (server, address) = probed(&[]);
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

/// Keeps 64 connections that say nothing; each that is closed is opened again.
fn be_idle(address: SocketAddr, over: &AtomicBool) {
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = (0..64).map(|_| connect()).collect();
    // Relaxed: nothing else is shared.
    while !over.load(Ordering::Relaxed) {
        for stream in &mut streams {
            let read = stream.read(&mut [0]);
            if read.is_ok() || read.is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                *stream = connect();
            }
        }
    }
}

#[test]
fn probes_are_answered_while_idle_connections_come_and_stay() {
    let (_server, address) = probed(&[]);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| be_idle(address, &over));
        }
        let answers: Vec<_> = (0..50)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                // Far more than an answer takes, and less than the idle ones could last.
                stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                stream
                    .write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
                    .unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).map(|_| answer)
            })
            .collect();
        over.store(true, Ordering::Relaxed);
        for answer in answers {
            let answer = answer.expect("an answer in time");
            assert!(
                answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close"),
                "{answer}"
            );
        }
    });
}

#[test]
fn a_connection_for_probes_that_asks_nothing_is_closed() {
    let (_server, address) = probed(&[]);
    for said in ["", "GET /health HTTP/1.1\r\n"] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

#[test]
fn probes_are_answered_for_known_hosts_only() {
    let (_server, address) = probed(&["admin_hosts=[\"probes.test\"]"]);
    for (host, status) in [
        ("localhost", 200),
        ("LocalHost:9180", 200),
        ("127.0.0.1:9180", 200),
        ("192.0.2.7", 200),
        ("[::1]:9180", 200),
        ("[2001:db8::1]", 200),
        ("probes.test", 200),
        ("Probes.Test:9180", 200),
        ("evil.test", 421),
        ("probes.test.evil.test", 421),
        ("127.0.0.1.evil.test", 421),
        ("localhost.evil.test:9180", 421),
        ("", 421),
    ] {
        for (target, version) in [("/status", "1.0"), ("/health", "1.1"), ("/nothing", "1.1")] {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET {target} HTTP/{version}\r\nhost: {host}\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let status = if status == 200 && target == "/nothing" {
                404
            } else {
                status
            };
            let expected = format!("HTTP/{version} {status} ");
            assert!(answer.starts_with(&expected), "{host} {target}: {answer}");
        }
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET http://evil.test/status HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
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
