//! A pool whose number of workers follows the requests.

use std::fs;

use crate::harness::{Server, in_each_mode};

/// Has `count` requests wait at a gate, each in a worker of its own, then lets them through.
fn crowd(server: &Server, name: &str, count: usize) {
    let gate = server.file(name);
    let target = format!("/gate?open={}", gate.display());
    let before = server.log.count("php");
    let mut clients: Vec<_> = (0..count).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("POST", &target, b"").unwrap();
    }
    server.log.wait_for_count("php", before + count);
    fs::write(gate, "").unwrap();
    for client in &mut clients {
        assert_eq!(client.read().unwrap().text(), "through the gate");
    }
}

#[test]
fn a_pool_grows_while_requests_wait_and_shrinks_when_workers_are_idle() {
    let settings = [
        "pool.web.workers=4",
        "pool.web.min_workers=1",
        "pool.web.worker_idle_timeout=\"300 ms\"",
    ];
    in_each_mode(&settings, |server| {
        let workers = || server.status()["pools"][0]["workers"].as_array().unwrap().len();
        assert_eq!(workers(), 1);
        for time in 1..=2 {
            crowd(server, &format!("gate{time}"), 4);
            server
                .log
                .wait_for_count_of("workers added", time, |event| event["workers"] == 4);
            server
                .log
                .wait_for_count_of("idle workers retired", time, |event| event["workers"] == 1);
            server.log.wait_for_count("worker ended", time * 3);
        }
        let first = server.log.wait("workers added", |_| true);
        assert_eq!(first["workers"], 2);
        assert_eq!(workers(), 1);
        let stayed = server.log.last("worker ended", |event| event["worker"] == 0);
        assert!(stayed.is_none(), "{stayed:?}");
        assert_eq!(server.log.count("worker died"), 0);
    });
}

#[test]
fn a_pool_that_has_grown_is_reloaded_and_rolled_back() {
    in_each_mode(&["pool.web.workers=3", "pool.web.min_workers=1"], |server| {
        crowd(server, "before", 3);
        for (command, name) in [("reload", "after"), ("rollback", "back")] {
            server.ask(&[command]);
            assert_eq!(server.get("/here").status, 200);
            crowd(server, name, 3);
        }
    });
}

#[test]
fn a_pool_of_a_fixed_number_stays_as_it_is() {
    in_each_mode(
        &["pool.web.workers=2", "pool.web.worker_idle_timeout=\"1 ms\""],
        |server| {
            crowd(server, "gate", 2);
            server.log.wait_for_count("worker ready", 2);
            assert_eq!(server.log.count("idle workers retired"), 0);
        },
    );
}
