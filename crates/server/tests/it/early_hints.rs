//! Interim responses (103) from PHP, and who gets them.

use std::process::Command;

use crate::harness::{App, RawClient, Server, in_each_mode};

const HINT: (&str, &str) = ("link", "</style.css>; rel=preload; as=style");

fn has_hint(headers: &[(String, String)]) -> bool {
    headers
        .iter()
        .any(|(name, value)| (name.as_str(), value.as_str()) == HINT)
}

#[test]
fn a_hint_comes_before_the_response_is_made() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        let open = server.file("open");
        let mut client = RawClient::connect(server.address());
        let request = format!("GET /hint?open={} HTTP/1.1\r\nHost: test\r\n\r\n", open.display());
        client.send(request.as_bytes()).unwrap();
        let first = client.interim().unwrap();
        assert_eq!(first.status, 103);
        assert!(has_hint(&first.headers), "{first:?}");
        assert!(first.header("content-type").is_none(), "{first:?}");
        // Only now may the script go on.
        std::fs::write(&open, "").unwrap();
        let last = client.read("GET").unwrap();
        assert_eq!((last.status, last.text()), (200, "hinted".to_owned()));
        assert!(has_hint(&last.headers));
        // The connection is as it was.
        client.send(b"GET /a HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        assert_eq!(client.read("GET").unwrap().text(), "hello from /a");
        std::fs::remove_file(&open).unwrap();
    });
}

#[test]
fn pipelined_requests_get_their_hints_in_turn() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        let open = server.file("open");
        std::fs::write(&open, "").unwrap();
        let mut client = RawClient::connect(server.address());
        let request = format!("GET /hint?open={} HTTP/1.1\r\nHost: test\r\n\r\n", open.display());
        client.send(request.repeat(3).as_bytes()).unwrap();
        for _ in 0..3 {
            let answer = client.read("GET").unwrap();
            assert_eq!(answer.interim, [103], "{answer:?}");
            assert_eq!((answer.status, answer.text()), (200, "hinted".to_owned()));
        }
    });
}

#[test]
fn however_quick_a_script_is_all_its_hints_come_in_order() {
    // More than the server keeps at a time.
    const HINTS: usize = 40;
    in_each_mode(&["pool.web.workers=1"], |server| {
        let mut client = RawClient::connect(server.address());
        for _ in 0..20 {
            let request = format!("GET /hints?count={HINTS} HTTP/1.1\r\nHost: test\r\n\r\n");
            client.send(request.as_bytes()).unwrap();
            for number in 0..HINTS {
                let hint = client.interim().unwrap();
                let link = format!("</{number}.css>; rel=preload");
                assert_eq!((hint.status, hint.header("link")), (103, Some(&*link)));
            }
            let answer = client.read("GET").unwrap();
            assert_eq!((answer.status, answer.interim), (200, Vec::new()));
        }
        let target = format!("http://{}/hints?count={HINTS}", server.address());
        let curl = Command::new("curl")
            .args(["-sSi", "--http2-prior-knowledge", "--max-time", "20", &target])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&curl.stdout).into_owned();
        let links = text.lines().filter_map(|line| line.strip_prefix("link: "));
        let mut expected: Vec<String> = (0..HINTS).map(|n| format!("</{n}.css>; rel=preload")).collect();
        // The headers stay part of the final response.
        expected.push(format!("</{}.css>; rel=preload", HINTS - 1));
        assert_eq!(links.collect::<Vec<_>>(), expected, "{text}");
    });
}

#[test]
fn http_1_0_gets_none() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        let open = server.file("open");
        std::fs::write(&open, "").unwrap();
        let mut client = RawClient::connect(server.address());
        let request = format!("GET /hint?open={} HTTP/1.0\r\n\r\n", open.display());
        client.send(request.as_bytes()).unwrap();
        let answer = client.read("GET").unwrap();
        assert_eq!((answer.status, answer.interim), (200, Vec::new()));
    });
}

#[test]
fn http_2_gets_them_too() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        let open = server.file("open");
        let target = format!("http://{}/hint?open={}", server.address(), open.display());
        let curl = Command::new("curl")
            .args(["-sSi", "--http2-prior-knowledge", "--max-time", "20"])
            .arg(target)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        server.log.wait("php", |event| event["text"] == "hint sent");
        std::fs::write(&open, "").unwrap();
        let output = curl.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.starts_with("HTTP/2 103"), "{text}");
        assert!(text.contains("HTTP/2 200"), "{text}");
        std::fs::remove_file(&open).unwrap();
    });
}

#[test]
fn a_script_waits_for_a_client_that_does_not_read_its_hints() {
    // Far less than the script sends in the time.
    const MOST: u64 = 64 * 1024;
    let settings = ["pool.web.workers=1", "limits.write_timeout='3 s'"];
    in_each_mode(&settings, |server| {
        assert_eq!(server.get("/x").text(), "hello from /x");
        let before = most_memory(server);
        let mut client = RawClient::connect(server.address());
        client
            .send(b"GET /flood?count=32768 HTTP/1.1\r\nHost: test\r\n\r\n")
            .unwrap();
        server.out.wait_for_line_with("\"write-timeout\"");
        let used = most_memory(server) - before;
        assert!(used < MOST, "the server has taken {used} KiB more");
        // The worker is free again.
        assert_eq!(server.get("/x").text(), "hello from /x");
        drop(client);
    });
}

#[test]
fn a_script_that_sends_nothing_but_hints_finds_that_its_client_has_left() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        let mut client = RawClient::connect(server.address());
        client.send(b"GET /flood HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        assert_eq!(client.interim().unwrap().status, 103);
        drop(client);
        server
            .log
            .wait("php", |event| event["text"] == "flood ended with 1");
    });
}

#[test]
fn over_http_2_a_response_has_so_many_bytes_of_hints() {
    let server = Server::start(&App::of_tests(), &["pool.web.workers=1"]);
    let target = format!("http://{}/flood?count=100", server.address());
    let curl = Command::new("curl")
        .args(["-sSi", "--http2-prior-knowledge", "--max-time", "20", &target])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&curl.stdout);
    // 64 KiB of 4 KB each.
    assert_eq!(text.matches("HTTP/2 103").count(), 16, "{text}");
    assert!(text.ends_with("flooded"), "{text}");
}

/// The most memory that the server has had, in KiB.
fn most_memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}
