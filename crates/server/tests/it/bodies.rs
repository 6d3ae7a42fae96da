//! Large bodies: neither PHP nor the server needs memory for them, and a slow or vanished client holds no worker.
//!
//! 256 MiB by default, so that the suite stays short; `HEARTH_TEST_BODY=1073741824` for as much as you like.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{App, RawClient, Server, assert_constant_memory};

/// What any process of the server may need beyond what it had, in KiB. Buffers, spool pages on their way and PHP's own.
const ROOM: u64 = 48 * 1024;

fn size() -> usize {
    let chosen = std::env::var("HEARTH_TEST_BODY").ok();
    chosen.map_or(256 << 20, |bytes| {
        bytes.parse().expect("HEARTH_TEST_BODY is a number of bytes")
    })
}

/// The scripts of the parity suite, in each mode, with one worker that takes bodies of any size.
fn in_each_mode(test: impl Fn(&Server)) {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scripts");
    let ini = std::env::temp_dir().join(format!("hearth-bodies-{:?}.ini", std::thread::current().id()));
    std::fs::write(
        &ini,
        "post_max_size = 0\nmemory_limit = 16M\noutput_buffering = 4096\n",
    )
    .unwrap();
    for (mode, script) in [("classic", "public/index.php"), ("resident", "worker.php")] {
        let settings = [
            format!("pool.web.mode={mode:?}"),
            format!("pool.web.script={script:?}"),
            format!("pool.web.php_ini=\"{}\"", ini.display()),
            "pool.web.workers=1".to_owned(),
            "root=\"public\"".to_owned(),
        ];
        test(&Server::start(
            &App::at(&scripts),
            &settings.each_ref().map(String::as_str),
        ));
    }
    let _ = std::fs::remove_file(ini);
}

fn head(method: &str, target: &str, run: &str, length: usize) -> Vec<u8> {
    let length = if method == "POST" {
        format!("Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n")
    } else {
        String::new()
    };
    format!("{method} {target} HTTP/1.1\r\nHost: test\r\nX-Run: bulk/{run}\r\n{length}\r\n").into_bytes()
}

fn download(server: &Server, bytes: usize) -> RawClient {
    let mut client = RawClient::connect(server.address());
    let target = format!("/?bytes={bytes}");
    client.send(&head("GET", &target, "download", 0)).unwrap();
    client
}

fn assert_serves(server: &Server) {
    let mut client = RawClient::connect(server.address());
    client.send(&head("GET", "/", "small", 0)).unwrap();
    assert_eq!(client.read("GET").unwrap().text(), "small");
}

/// Of `count` times `piece`, by the system's own program.
pub(crate) fn sha256(piece: &[u8], count: usize) -> String {
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for _ in 0..count {
        input.write_all(piece).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout)[..64].to_owned()
}

fn piece() -> Vec<u8> {
    (0..1_u32 << 20).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

#[test]
fn an_upload_needs_no_memory() {
    let (piece, count) = (piece(), size() >> 20);
    let expected = format!("{} {}", count << 20, sha256(&piece, count));
    in_each_mode(|server| {
        assert_serves(server);
        assert_constant_memory(server.pid(), ROOM, || {
            let mut client = RawClient::connect(server.address());
            client.send(&head("POST", "/", "upload", count << 20)).unwrap();
            for _ in 0..count {
                client.send(&piece).unwrap();
            }
            assert_eq!(client.read("POST").unwrap().text(), expected);
        });
    });
}

#[test]
fn a_download_needs_no_memory() {
    in_each_mode(|server| {
        assert_serves(server);
        assert_constant_memory(server.pid(), ROOM, || {
            let mut client = download(server, size());
            let head = client.head().unwrap();
            let got = client.count(&head, usize::MAX).unwrap();
            assert_eq!(got, size());
        });
    });
}

#[test]
fn a_client_that_does_not_read_holds_no_worker() {
    const BYTES: usize = 64 << 20;
    in_each_mode(|server| {
        let mut slow = download(server, BYTES);
        let head = slow.head().unwrap();
        // There is but one worker: it answers as soon as the server has taken the whole response.
        assert_serves(server);
        assert_eq!(slow.count(&head, usize::MAX).unwrap(), BYTES);
    });
}

#[test]
fn slow_downloads_hold_no_place_of_others() {
    // Beyond what the server keeps in memory, and of more clients than may be served at a time.
    const BYTES: usize = 2 << 20;
    in_each_mode(|server| {
        let mut slow: Vec<_> = (0..160).map(|_| download(server, BYTES)).collect();
        for client in &mut slow {
            client.head().unwrap();
            assert_serves(server);
        }
    });
}

#[test]
fn a_client_that_leaves_in_its_upload_reaches_no_worker() {
    in_each_mode(|server| {
        let mut client = RawClient::connect(server.address());
        client.send(&head("POST", "/", "upload", 100 << 20)).unwrap();
        client.send(&piece()).unwrap();
        drop(client);
        let line = server.out.wait_for_line_with("\"client-gone\"");
        assert!(!line.contains("\"worker\""), "{line}");
        assert_serves(server);
    });
}

#[test]
fn a_client_that_leaves_in_its_download_frees_the_worker() {
    in_each_mode(|server| {
        // More than the server spools: only the client's leaving can end it.
        let mut client = download(server, 1 << 40);
        let head = client.head().unwrap();
        client.count(&head, 1 << 20).unwrap();
        drop(client);
        server.out.wait_for_line_with("\"client-gone\"");
        assert_serves(server);
    });
}
