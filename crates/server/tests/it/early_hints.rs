//! Interim responses (103) from PHP, and who gets them.

use std::process::Command;

use crate::harness::{RawClient, in_each_mode};

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
