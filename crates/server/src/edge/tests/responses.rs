//! What becomes of a script's response, and of the lack of one.

use super::{Server, statuses};
use crate::config::Mode;

#[test]
fn errors_of_dispatch_have_one_status_each() {
    let server = Server::start(Mode::Resident, |_| {});
    for (path, status) in [("/died", 502), ("/full", 503), ("/late", 504)] {
        let answer = server.get(path);
        assert_eq!(statuses(&answer), [status], "{answer}");
        assert_eq!(answer.contains("retry-after"), status == 503);
    }
    let log = server.stop();
    for ending in ["worker-died", "queue-full", "request-timeout"] {
        assert!(log.contains(&format!(" web/- {ending}\n")), "{log}");
    }
}

#[test]
fn lengths_and_connection_headers_of_scripts_are_not_trusted() {
    let server = Server::start(Mode::Resident, |_| {});
    assert!(server.get("/short").ends_with("\r\n\r\nhel"));
    let long = server.get("/long");
    assert!(
        long.contains("content-length: 9") && long.ends_with("\r\n\r\nhello"),
        "{long}"
    );
    let twice = "GET /long HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
    assert_eq!(
        statuses(&server.exchange(twice.as_bytes())),
        [200],
        "the connection is not used again"
    );
    let nobody = server.get("/nobody");
    assert!(nobody.ends_with("\r\n\r\n"), "{nobody}");
    let hops = server.get("/hops");
    assert!(
        hops.contains("x-kept: 1") && hops.contains("content-length: 4"),
        "{hops}"
    );
    assert!(
        !hops.contains("gzip") && !hops.contains("x-y") && !hops.contains("keep-alive"),
        "{hops}"
    );
    assert!(server.get("/reason").starts_with("HTTP/1.1 200 Fine by me\r\n"));
}

#[test]
fn a_stream_is_chunked_and_a_broken_one_has_no_end() {
    let server = Server::start(Mode::Resident, |_| {});
    assert!(
        server
            .get("/stream")
            .ends_with("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    );
    let broken = server.get("/stream-died");
    assert_eq!(statuses(&broken), [200]);
    assert!(!broken.ends_with("0\r\n\r\n"), "{broken}");
    let log = server.stop();
    assert!(
        log.contains(" web/w7 ok\n") && log.contains(" web/w7 worker-died\n"),
        "{log}"
    );
}
