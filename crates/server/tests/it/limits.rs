//! Limits of the queue: who waits too long is refused, and nobody else notices.

use crate::harness::in_each_mode;

#[test]
fn a_request_that_waits_too_long_is_refused_and_taken_back() {
    let settings = [
        "pool.web.workers=1",
        "reactors=1",
        "pool.web.queue_timeout=\"200 ms\"",
    ];
    in_each_mode(&settings, |server| {
        let mut running = server.connect();
        let target = format!("/gate?open={}", server.file("open").display());
        running.send("POST", &target, b"").unwrap();
        server.log.wait("php", |event| event["text"] == "at the gate");
        // More than there are slots: each comes back.
        for _ in 0..2 {
            let mut waiting: Vec<_> = (0..40).map(|_| server.connect()).collect();
            for client in &mut waiting {
                client.send("GET", "/waits", b"").unwrap();
            }
            for client in &mut waiting {
                assert_eq!(client.read().unwrap().status, 503);
            }
        }
        std::fs::write(server.file("open"), "").unwrap();
        assert_eq!(running.read().unwrap().text(), "through the gate");
        assert_eq!(server.get("/after").status, 200);
        assert_eq!(server.log.count("worker died"), 0);
    });
}

#[test]
fn no_more_requests_wait_than_queue_length_says() {
    for (length, answered) in [(0, 1), (3, 4)] {
        let length = format!("pool.web.queue_length={length}");
        in_each_mode(&["pool.web.workers=1", length.as_str()], |server| {
            let mut running = server.connect();
            let target = format!("/gate?open={}", server.file("open").display());
            running.send("POST", &target, b"").unwrap();
            server.log.wait("php", |event| event["text"] == "at the gate");
            let mut others: Vec<_> = (0..10).map(|_| server.connect()).collect();
            for client in &mut others {
                client.send("GET", "/waits", b"").unwrap();
            }
            server.log.wait_for_count("request failed", 11 - answered);
            std::fs::write(server.file("open"), "").unwrap();
            let statuses: Vec<_> = others
                .iter_mut()
                .map(|client| client.read().unwrap().status)
                .collect();
            let refused = statuses.iter().filter(|status| **status == 503).count();
            assert_eq!(refused, 11 - answered, "{statuses:?}");
            assert_eq!(running.read().unwrap().status, 200);
        });
    }
}
