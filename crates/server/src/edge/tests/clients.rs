//! What one client may have: connections, requests, time.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use socket2::SockRef;

use super::{Server, read_all, statuses, wait_for_log};
use crate::config::{Config, Mode, Rate, RateKey, TrustedProxies};

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

fn trusting(config: &mut Config, protocol: bool) {
    config.trusted_proxies = TrustedProxies {
        addresses: vec!["127.0.0.0/8".parse().unwrap()],
        protocol,
        ..TrustedProxies::default()
    };
}

#[test]
fn a_client_has_no_more_connections_than_it_may() {
    let server = Server::start(Mode::Resident, |l| l.connections_per_client = 2);
    let ask = |socket: &mut std::net::TcpStream| {
        let _ = socket.write_all(GET);
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).is_ok()
    };
    let (mut one, mut two) = (server.connect(), server.connect());
    assert!(ask(&mut one) && ask(&mut two));
    assert!(!ask(&mut server.connect()), "closed without a word");
    drop(one);
    let asked = std::iter::repeat_with(|| ask(&mut server.connect()));
    assert!(asked.take(10_000).any(|answered| answered), "there is room again");
}

#[test]
fn a_connection_ends_with_its_last_request() {
    let server = Server::start(Mode::Resident, |l| l.requests_per_connection = 3);
    let answer = server.exchange(&GET.repeat(5));
    assert_eq!(statuses(&answer), [200, 200, 200]);
    assert_eq!(answer.matches("connection: close").count(), 1);
}

#[test]
fn a_client_asks_no_more_often_than_it_may() {
    let server = Server::start_with(Mode::Resident, |config| {
        config.rate = Some(Rate {
            requests: 1,
            period: Duration::from_hours(1),
            burst: 3,
            key: RateKey::Header("x-key".parse().unwrap()),
            paths: vec!["/short".into(), "/x/*".into()],
        });
    });
    let ask = |path: &str, key: &str| {
        server.exchange(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Key: {key}\r\n\r\n").as_bytes())
    };
    for path in ["/short", "/x/y?z", "/x"] {
        assert_eq!(statuses(&ask(path, "one")), [200]);
    }
    let refused = ask("/short", "one");
    assert!(
        statuses(&refused) == [429] && !refused.contains("connection: close"),
        "{refused}"
    );
    let wait = refused
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "));
    let wait: u32 = wait.unwrap().parse().unwrap();
    assert!((3590..=3600).contains(&wait), "{wait}");
    assert_eq!(statuses(&ask("/short", "two")), [200]);
    assert_eq!(statuses(&ask("/other", "one")), [200]);
    let log = server.stop();
    assert!(log.contains(" 429 ") && log.contains(" rate-limit\n"), "{log}");
}

#[test]
fn clients_behind_a_proxy_are_told_apart() {
    let server = Server::start_with(Mode::Resident, |config| {
        trusting(config, false);
        config.limits.connections_per_client = 1;
        config.rate = Some(Rate {
            requests: 1,
            period: Duration::from_hours(1),
            burst: 1,
            key: RateKey::Address,
            paths: Vec::new(),
        });
    });
    let _idle = server.connect();
    let ask = |client: &str| {
        server.exchange(
            format!("GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.9, {client}\r\n\r\n").as_bytes(),
        )
    };
    let answer = ask("192.0.2.1");
    assert!(answer.contains("\nREMOTE_ADDR=192.0.2.1\n"), "{answer}");
    assert_eq!(statuses(&ask("192.0.2.1")), [429]);
    assert_eq!(statuses(&ask("192.0.2.2")), [200]);
    let log = server.stop();
    assert!(
        log.contains("192.0.2.1 - - [") && !log.contains("127.0.0.1"),
        "{log}"
    );
}

#[test]
fn a_proxy_says_for_whom_it_connects() {
    let server = Server::start_with(Mode::Resident, |config| trusting(config, true));
    let request = "GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n";
    let answer = server.exchange(format!("PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\n{request}").as_bytes());
    for line in [
        "REMOTE_ADDR=192.0.2.1",
        "REMOTE_PORT=4711",
        "SERVER_ADDR=192.0.2.2",
        "SERVER_PORT=443",
        "HTTP_X_FORWARDED_FOR=6.6.6.6",
    ] {
        assert!(answer.contains(&format!("\n{line}\n")), "{line} in {answer}");
    }
    let local = [b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", request.as_bytes()].concat();
    assert!(server.exchange(&local).contains("\nREMOTE_ADDR=6.6.6.6\n"));
    for without in [
        request,
        "PROXY TCP4 a b c d\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "",
    ] {
        assert_eq!(server.exchange(without.as_bytes()), "", "closed without a word");
    }
    let log = server.stop();
    assert!(log.starts_with("192.0.2.1 - - ["), "{log}");
}

#[test]
fn a_proxy_that_says_nothing_is_cut() {
    let server = Server::start_with(Mode::Resident, |config| {
        trusting(config, true);
        config.limits.header_timeout = Duration::from_millis(100);
    });
    let mut socket = server.connect();
    socket.write_all(b"PROXY TCP4 192.").unwrap();
    assert_eq!(read_all(&mut socket), "");
}

#[test]
fn a_slow_reader_is_cut_by_its_average_rate() {
    let server = Server::start(Mode::Resident, |l| {
        l.write_timeout = Duration::from_millis(400);
        l.write_min_rate = 1_000_000_000;
    });
    let big = fs::File::create(server.dir.join("big.bin")).unwrap();
    big.set_len(1 << 30).unwrap();
    let mut slow = server.connect();
    // Little enough that the server notices what is taken, and that a pause is never as long as the limit.
    SockRef::from(&slow).set_recv_buffer_size(64 * 1024).unwrap();
    slow.write_all(b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let mut taken: u64 = 0;
    let mut some = [0; 16 * 1024];
    while let Ok(count @ 1..) = slow.read(&mut some) {
        taken += count as u64;
        // Slow by intent.
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(taken < 1 << 30);
    wait_for_log(&server, "write-timeout");
}

#[test]
fn the_rest_of_a_head_that_came_behind_a_request_is_waited_for_no_longer_than_any_head() {
    let server = Server::start(Mode::Resident, |l| {
        l.header_timeout = Duration::from_millis(200);
        l.idle_timeout = Duration::from_hours(1);
    });
    let mut socket = server.connect();
    socket.write_all(&[GET, b"GET /b HT"].concat()).unwrap();
    assert_eq!(statuses(&read_all(&mut socket)), [200, 408]);
}

#[test]
fn trailers_and_extensions_that_trickle_are_cut() {
    let server = Server::start(Mode::Resident, |l| l.body_timeout = Duration::from_millis(300));
    for start in ["0\r\nX: ", "1;x="] {
        let mut socket = server.connect();
        let head = "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        socket.write_all([head, start].concat().as_bytes()).unwrap();
        let mut out = socket.try_clone().unwrap();
        // Ends when the server has closed the connection.
        let trickle = std::thread::spawn(move || {
            while out.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        assert_eq!(statuses(&read_all(&mut socket)), [408], "{start}");
        trickle.join().unwrap();
    }
}
