//! Files and what is sent in their place: codings, preconditions, ranges, and files that scripts name.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use crate::harness::{Folder, Raw, RawClient, Server};

/// Two pages of text that shrinks, of 8 bytes a word.
fn words(count: usize) -> String {
    (0..count).fold(String::new(), |text, n| text + &format!("{n:7} "))
}

fn ask(server: &Server, method: &str, target: &str, lines: &str) -> Raw {
    let mut client = RawClient::connect(server.address());
    let request = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{lines}\r\n");
    client.send(request.as_bytes()).unwrap();
    client.read(method).unwrap()
}

fn get(server: &Server, target: &str, accept: &str) -> Raw {
    ask(server, "GET", target, &format!("Accept-Encoding: {accept}\r\n"))
}

/// The body as the client reads it.
fn decoded(answer: &Raw) -> Vec<u8> {
    decode(answer.header("content-encoding"), &answer.body)
}

fn decode(coding: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        Some("gzip") => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut out)),
        Some("zstd") => drop(
            zstd::stream::read::Decoder::new(body)
                .unwrap()
                .read_to_end(&mut out),
        ),
        Some("br") => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut out)),
        Some(other) => panic!("{other}"),
        None => out.extend_from_slice(body),
    }
    out
}

fn set_modified(path: &Path, ago: Duration) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - ago).unwrap();
}

#[test]
fn a_file_is_sent_in_the_coding_that_the_client_likes() {
    let text = words(4000);
    let folder = Folder::with("coded", &[("index.php", ""), ("big.css", &text)]);
    let server = folder.serve();
    for coding in ["zstd", "gzip", "br"] {
        let answer = get(&server, "/big.css", coding);
        assert_eq!(answer.header("content-encoding"), Some(coding));
        assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
        assert!(decoded(&answer) == text.as_bytes(), "{coding}");
        assert!(answer.body.len() < text.len() / 2, "{coding}");
        let head = ask(
            &server,
            "HEAD",
            "/big.css",
            &format!("Accept-Encoding: {coding}\r\n"),
        );
        let without_date = |raw: &Raw| {
            let mut headers = raw.headers.clone();
            headers.retain(|(name, _)| name != "date");
            headers.sort();
            headers
        };
        assert_eq!(without_date(&head), without_date(&answer));
        let tag = answer.header("etag").unwrap();
        assert!(tag.starts_with("W/\""), "{tag}");
        for tag in [tag, tag.trim_start_matches("W/")] {
            let lines = format!("Accept-Encoding: {coding}\r\nIf-None-Match: {tag}\r\n");
            let again = ask(&server, "GET", "/big.css", &lines);
            assert_eq!(
                (again.status, again.header("vary")),
                (304, Some("Accept-Encoding"))
            );
        }
    }
}

#[test]
fn a_file_is_sent_as_it_is_to_whom_nothing_else_can_be_sent() {
    let text = words(4000);
    let files = [
        ("index.php", ""),
        ("big.css", text.as_str()),
        ("small.css", "a{}"),
        ("photo.png", text.as_str()),
    ];
    let folder = Folder::with("plain", &files);
    let server = folder.serve();
    let plain = get(&server, "/big.css", "identity");
    assert_eq!(
        (plain.header("content-encoding"), plain.header("vary")),
        (None, Some("Accept-Encoding"))
    );
    assert!(plain.header("etag").unwrap().starts_with('"') && plain.body == text.as_bytes());
    for target in ["/small.css", "/photo.png"] {
        let answer = get(&server, target, "gzip, br, zstd");
        assert_eq!(
            (answer.header("content-encoding"), answer.header("vary")),
            (None, None),
            "{target}"
        );
    }
    let part = ask(
        &server,
        "GET",
        "/big.css",
        "Accept-Encoding: gzip\r\nRange: bytes=8-15\r\n",
    );
    assert_eq!((part.status, part.header("content-encoding")), (206, None));
    assert_eq!(
        (part.body.as_slice(), part.header("vary")),
        (&text.as_bytes()[8..16], Some("Accept-Encoding"))
    );
}

#[test]
fn a_compressed_file_is_sent_for_the_one_beside_it() {
    let text = words(100);
    let folder = Folder::with(
        "beside",
        &[
            ("index.php", ""),
            ("a.css", &text),
            ("b.css", "b"),
            ("b.css.gz", "old"),
        ],
    );
    folder.write("a.css.br", "brotli's bytes");
    folder.write("a.css.gz", "gzip's");
    set_modified(&folder.path().join("b.css.gz"), Duration::from_hours(1));
    let server = folder.serve();
    let whole = get(&server, "/a.css", "");
    let gzip = get(&server, "/a.css", "gzip, br;q=0.5");
    let smallest = get(&server, "/a.css", "gzip, br");
    let brotli = get(&server, "/a.css", "br");
    assert_eq!(
        (whole.header("content-encoding"), whole.body.len()),
        (None, text.len())
    );
    assert_eq!(
        (brotli.header("content-encoding"), brotli.body.as_slice()),
        (Some("br"), &b"brotli's bytes"[..])
    );
    for answer in [&gzip, &smallest] {
        assert_eq!(
            (answer.header("content-encoding"), answer.body.as_slice()),
            (Some("gzip"), &b"gzip's"[..])
        );
    }
    for answer in [&whole, &gzip, &brotli] {
        assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
        assert_eq!(answer.header("content-type"), Some("text/css; charset=utf-8"));
        assert_eq!(answer.header("accept-ranges"), Some("bytes"));
    }
    let tags = [whole.header("etag"), gzip.header("etag"), brotli.header("etag")];
    assert!(
        tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2],
        "{tags:?}"
    );
    let range = format!(
        "Accept-Encoding: br\r\nRange: bytes=0-6\r\nIf-Range: {}\r\n",
        tags[2].unwrap()
    );
    let part = ask(&server, "GET", "/a.css", &range);
    assert_eq!((part.status, part.header("content-encoding")), (206, Some("br")));
    assert_eq!(
        (part.body.as_slice(), part.header("content-range")),
        (&b"brotli'"[..], Some("bytes 0-6/14"))
    );
    let older = get(&server, "/b.css", "gzip");
    assert_eq!(
        (older.header("content-encoding"), older.body.as_slice()),
        (None, &b"b"[..])
    );
}

#[test]
fn a_changed_file_is_sent_at_once() {
    let folder = Folder::with("changed", &[("index.php", ""), ("a.txt", "0")]);
    set_modified(&folder.path().join("a.txt"), Duration::from_hours(1));
    let server = folder.serve();
    assert_eq!(server.get("/a.txt").text(), "0");
    // So that what was sent is kept: it is, once its last change is old enough. No time is waited for in vain below.
    sleep(Duration::from_millis(2100));
    assert_eq!(server.get("/a.txt").text(), "0");
    for number in 1..50 {
        let text = (number % 10).to_string();
        folder.write("a.txt", &text);
        assert_eq!(server.get("/a.txt").text(), text);
    }
}

const PAGES: [(&str, &str); 4] = [
    (
        "page.php",
        "<?php header('ETag: \"p\"'); for ($i = 0; $i < (int) ($_GET['n'] ?? 1000); $i++) printf('%7d ', $i);",
    ),
    (
        "slow.php",
        "<?php header('Content-Type: ' . $_GET['type']);
        foreach (['first', 'second'] as $part) {
            echo str_repeat($part . ' ', 100); ob_get_level() && ob_flush(); flush();
            while (!file_exists($_GET['open'])) { usleep(1000); }
        }",
    ),
    (
        "coded.php",
        "<?php header('Content-Encoding: gzip'); echo gzencode(str_repeat('a', 5000));",
    ),
    (
        "fixed.php",
        "<?php header('Cache-Control: no-transform'); echo str_repeat('a', 5000);",
    ),
];

#[test]
fn a_scripts_answer_is_compressed_short_or_long() {
    let server_folder = Folder::with("pages", &PAGES);
    let server = server_folder.serve();
    for count in [1000, 100_000] {
        let expected = words(count);
        for coding in ["zstd", "gzip", "br"] {
            let target = format!("/page.php?n={count}");
            let answer = get(&server, &target, coding);
            assert_eq!(answer.header("content-encoding"), Some(coding), "{count}");
            assert_eq!(
                (answer.header("etag"), answer.header("vary")),
                (Some("W/\"p\""), Some("Accept-Encoding"))
            );
            assert!(
                answer.whole && decoded(&answer) == expected.as_bytes(),
                "{coding} {count}"
            );
        }
    }
    let short = get(&server, "/page.php?n=10", "gzip");
    assert_eq!(
        (short.header("content-encoding"), short.header("etag")),
        (None, Some("\"p\""))
    );
    let own = get(&server, "/coded.php", "br, gzip");
    assert_eq!(
        (own.header("content-encoding"), decoded(&own).len()),
        (Some("gzip"), 5000)
    );
    assert_eq!(
        get(&server, "/fixed.php", "gzip").header("content-encoding"),
        None
    );
}

#[test]
fn what_a_script_flushes_is_seen_at_once_compressed_or_not() {
    let folder = Folder::with("slow", &PAGES);
    let server = folder.serve();
    for (kind, coding) in [("text/html", Some("gzip")), ("text/event-stream", None)] {
        let open = server.file(&kind.replace('/', "-"));
        let mut client = RawClient::connect(server.address());
        let target = format!("/slow.php?type={kind}&open={}", open.display());
        let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n");
        client.send(request.as_bytes()).unwrap();
        let head = client.head().unwrap();
        assert_eq!(head.header("content-encoding"), coding, "{kind}");
        let mut body = Vec::new();
        while decode(coding, &body).len() < 600 {
            body.extend(client.part(&head, 1).unwrap());
        }
        assert!(decode(coding, &body).ends_with(b"first "), "{kind}");
        fs::write(&open, "").unwrap();
    }
}

const SENDER: &str = "<?php
    foreach ($_GET as $name => $value) { if ($name !== 'x') header(str_replace('_', '-', $name) . ': ' . $value); }
    header('Content-Disposition: attachment; filename=\"r.txt\"');
    setcookie('seen', '1');
    echo 'not this';";

/// An application whose script names files, and the text of one.
fn sender() -> (Folder, String) {
    let toml = "[pool.web]\nmode = 'classic'\n[pool.web.internal]\n'/protected/' = 'files'\n";
    let text = words(500);
    let files = [
        ("hearth.toml", toml),
        ("public/send.php", SENDER),
        ("public/index.php", "<?php echo 'front';"),
        ("files/r.txt", text.as_str()),
        ("secret.txt", "secret"),
    ];
    let folder = Folder::with("accel", &files);
    (folder, text)
}

#[test]
fn a_script_has_a_file_sent_for_it() {
    let (folder, text) = sender();
    let server = folder.serve();
    let uri = "/send.php?X_Accel_Redirect=/protected/r.txt";
    let answer = ask(&server, "GET", &format!("{uri}&Content_Type=text/x-own"), "");
    assert_eq!((answer.status, answer.body.as_slice()), (200, text.as_bytes()));
    assert_eq!(answer.header("content-type"), Some("text/x-own;charset=UTF-8"));
    assert_eq!(
        answer.header("content-disposition"),
        Some("attachment; filename=\"r.txt\"")
    );
    assert!(answer.header("set-cookie").is_some() && answer.header("last-modified").is_some());
    assert_eq!(answer.header("x-accel-redirect"), None);
    let guessed = ask(
        &server,
        "POST",
        &format!("{uri}&Content_Type="),
        "Content-Length: 0\r\n",
    );
    assert_eq!(
        (guessed.status, guessed.header("content-type")),
        (200, Some("text/plain; charset=utf-8"))
    );
    let part = ask(&server, "GET", uri, "Range: bytes=0-7\r\n");
    assert_eq!((part.status, part.body.as_slice()), (206, &text.as_bytes()[..8]));
    let tag = answer.header("etag").unwrap();
    let same = ask(&server, "GET", uri, &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((same.status, same.body.len()), (304, 0));
    let packed = get(&server, uri, "gzip");
    assert!(packed.header("content-encoding") == Some("gzip") && decoded(&packed) == text.as_bytes());
    let head = ask(&server, "HEAD", uri, "");
    assert_eq!((head.status, head.header("content-length")), (200, Some("4000")));
}

#[test]
fn a_script_can_name_only_files_of_the_folders_for_that() {
    let (folder, text) = sender();
    let server = folder.serve();
    let path = folder.path().join("files/r.txt");
    let by_path = ask(
        &server,
        "GET",
        &format!("/send.php?X_Sendfile={}", path.display()),
        "",
    );
    assert_eq!((by_path.status, by_path.body.as_slice()), (200, text.as_bytes()));
    assert_eq!(by_path.header("x-sendfile"), None);
    let outside = folder.path().join("secret.txt");
    for target in [
        "/send.php?X_Accel_Redirect=/protected/../secret.txt".to_owned(),
        "/send.php?X_Accel_Redirect=/index.php".to_owned(),
        format!("/send.php?X_Sendfile={}", outside.display()),
        "/protected/none".to_owned(),
    ] {
        let answer = ask(&server, "GET", &target, "");
        let front = target.starts_with("/protected");
        assert_eq!(answer.status, if front { 200 } else { 404 }, "{target}");
        assert!(
            !answer
                .headers
                .iter()
                .any(|(name, _)| name.starts_with("x-accel") || name == "x-sendfile")
        );
    }
    server.log.wait(
        "script named a file that lies in no folder of pool.*.internal",
        |_| true,
    );
}

#[test]
fn a_big_file_is_sent_whole_and_in_parts_one_after_the_other() {
    // Each 8 bytes are others, so that no part can be taken for another.
    let text = words(400_000);
    let bytes = text.as_bytes();
    let folder = Folder::with("big", &[("index.php", ""), ("big.png", &text)]);
    let server = folder.serve();
    let whole = get(&server, "/big.png", "gzip");
    assert!(whole.whole && whole.body == bytes);
    let part = ask(&server, "GET", "/big.png", "Range: bytes=1000000-2999999\r\n");
    assert!(part.status == 206 && part.body == bytes[1_000_000..3_000_000]);
    let parts = ask(
        &server,
        "GET",
        "/big.png",
        "Range: bytes=0-999999,7-8,2000000-2100000\r\n",
    );
    let expected = |start: usize, end: usize| {
        let head = format!("content-range: bytes {start}-{end}/{}\r\n\r\n", bytes.len());
        [head.as_bytes(), &bytes[start..=end], b"\r\n--"].concat()
    };
    for (start, end) in [(0, 999_999), (7, 8), (2_000_000, 2_100_000)] {
        let wanted = expected(start, end);
        assert!(
            parts.body.windows(wanted.len()).any(|window| window == wanted),
            "{start}-{end}"
        );
    }
    // Sent at once, read one by one: the second waits for the first to be gone.
    let mut client = RawClient::connect(server.address());
    let request = "GET /big.png HTTP/1.1\r\nHost: test\r\n\r\n";
    client.send(request.repeat(3).as_bytes()).unwrap();
    for _ in 0..3 {
        assert!(client.read("GET").unwrap().body == bytes);
    }
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_sent_breaks_its_connection_off() {
    let text = words(4_000_000);
    let folder = Folder::with("shorter", &[("index.php", ""), ("big.png", &text)]);
    let server = folder.serve();
    let mut client = RawClient::connect(server.address());
    client
        .send(b"GET /big.png HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    let head = client.head().unwrap();
    // 32 MB do not fit into the buffers of a connection that nobody reads from.
    fs::File::options()
        .write(true)
        .open(folder.file("big.png"))
        .unwrap()
        .set_len(1000)
        .unwrap();
    let got = client.count(&head, text.len()).unwrap();
    assert!(got < text.len(), "{got}");
    assert_eq!(server.get("/big.png").body.len(), 1000);
}

/// Each row of the last table of docs/parity.md.
#[test]
fn files_and_folders_are_answered_as_documented_where_nginx_answers_otherwise() {
    let files = [
        ("index.php", "<?php echo 'front';"),
        ("a.js", "js"),
        ("a.mjs", "js"),
        ("a.md", "text"),
        ("a.csv", "text"),
        ("a.conf", "text"),
        ("a.unknown", "text"),
        ("empty/.keep", ""),
    ];
    let folder = Folder::with("documented", &files);
    let server = folder.serve();
    for (target, kind) in [
        ("/a.js", "text/javascript; charset=utf-8"),
        ("/a.mjs", "application/javascript"),
        ("/a.md", "text/markdown; charset=utf-8"),
        ("/a.csv", "text/csv; charset=utf-8"),
        ("/a.conf", "text/plain; charset=utf-8"),
        ("/a.unknown", "application/octet-stream"),
    ] {
        assert_eq!(server.get(target).header("content-type"), Some(kind), "{target}");
    }
    assert_eq!(server.get("/empty/").text(), "front");
    let later = "If-Modified-Since: Fri, 01 Jan 2038 00:00:00 GMT\r\n";
    assert_eq!(ask(&server, "GET", "/a.md", later).status, 304);
    for method in ["POST", "OPTIONS", "DELETE"] {
        let answer = ask(&server, method, "/a.md", "Content-Length: 0\r\n");
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some("GET, HEAD")),
            "{method}"
        );
    }
}
