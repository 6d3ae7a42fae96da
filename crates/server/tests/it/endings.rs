//! `exit()`, fatal errors, exceptions and the memory limit end the request, and nothing else.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{RawClient, Server, in_each_mode};

/// Runs `act` while another client sends requests; returns how many of those were answered, all with 200.
fn beside_a_neighbour(server: &Server, act: impl FnOnce()) -> usize {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            let mut client = server.connect();
            let mut answered = 0;
            // Relaxed: a flag of its own.
            while !over.load(Ordering::Relaxed) || answered == 0 {
                let answer = client
                    .request("GET", "/neighbour", b"")
                    .expect("the neighbour's response");
                assert_eq!(
                    (answer.status, answer.text().as_str()),
                    (200, "hello from /neighbour")
                );
                answered += 1;
            }
            answered
        });
        act();
        over.store(true, Ordering::Relaxed);
        neighbour.join().unwrap()
    })
}

fn a_hundred_times(target: &str, status: u16, text: &str) {
    in_each_mode(&["pool.web.workers=2"], |server| {
        let answered = beside_a_neighbour(server, || {
            for _ in 0..100 {
                let answer = server.get(target);
                assert_eq!(
                    (answer.status, answer.text().as_str()),
                    (status, text),
                    "{target}"
                );
            }
        });
        assert!(answered > 0);
        assert_eq!(
            server.log.count("worker died"),
            0,
            "no worker ended in an unplanned way"
        );
    });
}

#[test]
fn exit_a_hundred_times_fails_no_neighbour() {
    a_hundred_times("/exit", 200, "said before exit");
}

#[test]
fn a_fatal_error_a_hundred_times_fails_no_neighbour() {
    a_hundred_times("/fatal", 500, "said before the error");
}

#[test]
fn an_uncaught_exception_a_hundred_times_fails_no_neighbour() {
    a_hundred_times("/throw", 500, "");
}

#[test]
fn the_memory_limit_a_hundred_times_fails_no_neighbour() {
    a_hundred_times("/memory", 500, "");
}

#[test]
fn a_head_that_is_none_fails_its_request_and_nothing_else() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        for (target, status) in [
            ("/head?status=200&header=X-A:b", 200),
            ("/head?status=200&header=X-A:%01", 502),
            ("/head?status=200&header=X%20A:b", 502),
        ] {
            assert_eq!(server.get(target).status, status, "{target}");
        }
        assert_eq!(server.get("/after").status, 200);
        assert_eq!(server.log.count("worker killed"), 0);
    });
}

#[test]
fn a_final_status_that_no_response_can_have_is_answered_once_and_named_in_the_log() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        let mut client = RawClient::connect(server.address());
        for status in [-7, 42, 99, 100, 101, 102, 103, 199, 1000, 70_000] {
            let request = format!("GET /head?status={status}&header=A:b HTTP/1.1\r\nHost: test\r\n\r\n");
            client.send(request.as_bytes()).unwrap();
            let answer = client.read("GET").unwrap();
            assert_eq!((answer.status, &*answer.interim), (502, &[][..]), "{status}");
            assert_eq!(answer.header("a"), None, "{status}");
            let says = format!("the script's final status is {status}, which");
            server.log.wait("request failed", |event| {
                event["error"].as_str().is_some_and(|error| error.contains(&says))
            });
        }
        // The same from a function that is there for interim ones.
        assert_eq!(server.get("/hint?status=101&open=/").status, 502);
    });
}

#[test]
fn a_status_beyond_599_is_the_scripts_own() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        for status in [600, 799, 999] {
            let answer = server.get(&format!("/head?status={status}&header=A:b"));
            assert_eq!((answer.status, answer.text()), (status, "body".to_owned()));
            assert_eq!(answer.header("a"), Some("b"));
        }
    });
}
