//! Files, and which script or file a path means.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Server, statuses};
use crate::config::Mode;

#[test]
fn files_are_served_with_validators_and_ranges() {
    let server = Server::start(Mode::Resident, |_| {});
    let ask = |path: &str, more: &str| {
        server
            .exchange(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n").as_bytes())
    };
    let whole = ask("/a.txt", "");
    assert!(
        whole.contains("content-type: text/plain; charset=utf-8") && whole.ends_with("\r\n\r\n0123456789"),
        "{whole}"
    );
    let etag = whole.lines().find_map(|l| l.strip_prefix("etag: ")).unwrap();
    let same = ask("/a.txt", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!(statuses(&same), [304], "{same}");
    let part = ask("/a.txt", "Range: bytes=2-4\r\n");
    assert!(
        part.contains("content-range: bytes 2-4/10") && part.ends_with("\r\n\r\n234"),
        "{part}"
    );
    let parts = ask("/a.txt", "Range: bytes=0-0,-1\r\n");
    assert!(
        parts.contains("multipart/byteranges") && parts.contains("bytes 9-9/10\r\n\r\n9\r\n--"),
        "{parts}"
    );
    let length: usize = parts
        .lines()
        .find_map(|l| l.strip_prefix("content-length: "))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(parts.split_once("\r\n\r\n").unwrap().1.len(), length);
    let none = ask("/a.txt", "Range: bytes=10-\r\n");
    assert!(
        statuses(&none) == [416] && none.contains("content-range: bytes */10"),
        "{none}"
    );
    let head = server.exchange(b"HEAD /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(
        head.contains("content-length: 10") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let post = server.exchange(b"POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert!(
        statuses(&post) == [405] && post.contains("allow: GET, HEAD"),
        "{post}"
    );
    assert!(ask("/.well-known/x", "").ends_with("known"));
    for secret in ["/.env", "/a.php", "/a.php~", "/%2eenv", "/bare/../.env"] {
        let answer = ask(secret, "");
        assert!(
            answer.contains("SCRIPT_NAME=/worker.php") && !answer.contains("SECRET=1"),
            "{secret}: {answer}"
        );
    }
}

#[test]
fn a_big_file_comes_whole() {
    let server = Server::start(Mode::Resident, |_| {});
    let bytes: Vec<u8> = (0..3_000_001_u32)
        .map(|n| u8::try_from(n % 26).unwrap() + b'a')
        .collect();
    fs::write(server.dir.join("big.txt"), &bytes).unwrap();
    let answer = server.get("/big.txt");
    assert!(answer.split_once("\r\n\r\n").unwrap().1.as_bytes() == bytes);
}

#[test]
fn a_classic_site_finds_scripts_indexes_and_nothing() {
    let server = Server::start(Mode::Classic, |_| {});
    let info = server.get("/a.php/x%20y?q=1");
    for line in [
        "SCRIPT_NAME=/a.php",
        "PATH_INFO=/x y",
        "QUERY_STRING=q=1",
        "REQUEST_URI=/a.php/x%20y?q=1",
    ] {
        assert!(info.contains(&format!("\n{line}\n")), "{line} in {info}");
    }
    assert!(server.get("/").contains("\nSCRIPT_NAME=/index.php\n"));
    assert!(server.get("/sub/").ends_with("<p>sub"));
    assert!(server.get("/sub?x").contains("location: /sub/?x\r\n"));
    assert!(server.get("//sub").contains("location: /sub/\r\n"));
    for gone in ["/none.php", "/none", "/bare/", "/.env", "/a.php~", "/.x/a.php"] {
        assert_eq!(statuses(&server.get(gone)), [404], "{gone}");
    }
}

#[test]
fn a_file_that_is_replaced_again_and_again_is_always_there() {
    const ROUNDS: usize = 20;
    const REQUESTS: usize = 50;
    let server = Server::start(Mode::Resident, |_| {});
    let (path, next) = (server.dir.join("a.css"), server.dir.join("next"));
    let replace = |round: usize| {
        // Too big to be kept in memory: it is opened for each response.
        fs::write(&next, "a".repeat(150_000 + round % 7) + "\n").unwrap();
        fs::rename(&next, &path).unwrap();
    };
    replace(0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 1;
            while !over.load(Ordering::Relaxed) {
                replace(round);
                round += 1;
            }
        });
        let one = "GET /a.css HTTP/1.1\r\nHost: h\r\n\r\n";
        let answers = (0..ROUNDS).map(|_| server.exchange(one.repeat(REQUESTS).as_bytes()));
        let all: Vec<u16> = answers.flat_map(|answer| statuses(&answer)).collect();
        over.store(true, Ordering::Relaxed);
        assert_eq!(all, [200; ROUNDS * REQUESTS]);
    });
}
