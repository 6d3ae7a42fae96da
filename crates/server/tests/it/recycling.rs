//! Workers are replaced when they have served long enough: one at a time, and no request notices.

use serde_json::Value;

use crate::harness::{App, Server, in_each_mode};

/// Messages of the log in order, of those that are asked for.
fn in_order(server: &Server, messages: &[&str]) -> Vec<String> {
    let text = server.log.text();
    let events = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found = events.filter_map(|event| Some(event["message"].as_str()?.to_owned()));
    found.filter(|message| messages.contains(&&**message)).collect()
}

#[test]
fn a_worker_that_has_served_max_requests_is_replaced_and_nobody_notices() {
    in_each_mode(&["pool.web.workers=2", "pool.web.max_requests=30"], |server| {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut client = server.connect();
                    while server.log.count("worker recycled") < 4 {
                        let answer = client.request("POST", "/here", b"").unwrap();
                        assert_eq!((answer.status, &*answer.text()), (200, "hello from /here"));
                    }
                });
            }
        });
        let event = server.log.wait("worker recycled", |_| true);
        assert_eq!(event["reason"], "max_requests");
        let (value, limit) = (event["value"].as_u64().unwrap(), event["limit"].as_u64().unwrap());
        assert!((27..=33).contains(&limit) && value >= limit, "{event}");
        server.log.wait("worker ended", |event| event["why"] == "drained");
        server.log.wait("worker ready", |event| event["incarnation"] == 2);
        assert_eq!(server.log.count("worker died"), 0);
    });
}

#[test]
fn old_workers_are_replaced_one_at_a_time() {
    let settings = ["pool.web.workers=3", "pool.web.max_age=\"1 s\""];
    in_each_mode(&settings, |server| {
        server.log.wait_for_count("worker recycled", 3);
        server.log.wait_for_count("worker ready", 6);
        let event = server.log.wait("worker recycled", |_| true);
        assert_eq!(event["reason"], "max_age");
        // Each has its successor before the next one goes.
        let order = in_order(server, &["worker recycled", "worker ready"]);
        let (recycled, ready) = ("worker recycled", "worker ready");
        assert_eq!(
            &order[..9],
            [
                ready, ready, ready, recycled, ready, recycled, ready, recycled, ready
            ]
        );
        assert_eq!(server.get("/after").status, 200);
    });
}

#[test]
fn a_worker_that_keeps_too_much_memory_is_replaced() {
    let settings = [
        "pool.web.mode=resident",
        "pool.web.script=worker.php",
        "pool.web.isolation=none",
        "pool.web.workers=1",
        "pool.web.max_memory=\"200 MiB\"",
        "pool.web.ini.memory_limit=1G",
    ];
    let server = Server::start(&App::of_tests(), &settings);
    for times in 1..=3 {
        assert_eq!(server.get("/keep?mib=80").text(), times.to_string());
    }
    let event = server.log.wait("worker recycled", |_| true);
    assert_eq!(event["reason"], "max_memory");
    let (value, limit) = (event["value"].as_u64().unwrap(), event["limit"].as_u64().unwrap());
    assert!(value > limit && limit == 200 << 20, "{event}");
    server.log.wait("worker ready", |event| event["incarnation"] == 2);
    assert_eq!(server.get("/keep?mib=1").text(), "1");
}

#[test]
fn a_worker_that_is_told_to_end_finishes_its_request() {
    in_each_mode(&["pool.web.workers=1", "pool.web.max_age=\"100 ms\""], |server| {
        let open = server.file("open");
        let (mut client, _) = server.at_the_gate(&open);
        let runs = server.log.last("worker ready", |_| true).unwrap();
        let is_it = |event: &Value| event["incarnation"] == runs["incarnation"];
        server.log.wait("worker recycled", is_it);
        std::fs::write(open, "").unwrap();
        assert_eq!(client.read().unwrap().text(), "through the gate");
        assert_eq!(server.get("/after").status, 200);
        assert_eq!(server.log.count("worker died"), 0);
    });
}
