//! The thin client of `php/client`, run by the Apache and the php-fpm of the machine, in front of Hearth.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use serde_json::Value;

use crate::frameworks::{LARAVEL, installed};
use crate::harness::{App, Folder, Fpm, Raw, RawClient, Server, WebServer, cookie_line};
use crate::parity;

/// A host whose `index.php` is the thin client, in a folder with Hearth's socket.
struct Host {
    folder: Folder,
    fpm: Fpm,
}

impl Host {
    fn start(more: &[(&str, &str)], ini: &str) -> Self {
        Self::with_workers(4, more, ini)
    }

    fn with_workers(workers: usize, more: &[(&str, &str)], ini: &str) -> Self {
        let folder = Folder::new("thin-client");
        let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../php/client/index.php");
        folder.write("public/index.php", &fs::read_to_string(client).unwrap());
        folder.write(
            "public/old.php",
            "<?php echo 'the old one answers ', $_SERVER['REQUEST_URI'];",
        );
        let address = format!("unix://{}", folder.file("hearth.sock").display());
        let mut environment = vec![("HEARTH_ADDRESS", &*address)];
        environment.extend(more);
        let root = folder.file("public");
        let ini = format!("display_errors = 0\n{ini}");
        let fpm = Fpm::behind(WebServer::Apache, (&[], &root), &ini, &environment, workers);
        Self { folder, fpm }
    }

    /// Hearth for it.
    fn serve(&self, app: &App, settings: &[&str]) -> Server {
        let socket = self.folder.file("hearth.sock");
        let listen = format!("listen=['127.0.0.1:0', 'unix:{}']", socket.display());
        let all: Vec<&str> = [&*listen, "trusted_proxies.addresses=['unix']"]
            .into_iter()
            .chain(settings.iter().copied())
            .collect();
        Server::start(app, &all)
    }

    fn ask(&self, method: &str, target: &str, lines: &str, body: &[u8]) -> Raw {
        ask(self.fpm.address(), method, target, lines, body)
    }

    fn get(&self, target: &str) -> Raw {
        self.ask("GET", target, "", b"")
    }
}

fn ask(address: SocketAddr, method: &str, target: &str, lines: &str, body: &[u8]) -> Raw {
    let mut client = RawClient::connect(address);
    let length = body.len();
    let head =
        format!("{method} {target} HTTP/1.1\r\nHost: parity.test\r\n{lines}Content-Length: {length}\r\n\r\n");
    // It may have answered before it took everything.
    let _ = client.send(&[head.as_bytes(), body].concat());
    client.read(method).unwrap()
}

/// Parts of a form, each with its headers.
fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (disposition, content) in parts {
        body.extend(format!("--XX\r\nContent-Disposition: form-data; {disposition}\r\n\r\n").as_bytes());
        body.extend(*content);
        body.extend(b"\r\n");
    }
    body.extend(b"--XX--\r\n");
    body
}

const FORM: &str = "Content-Type: multipart/form-data; boundary=XX\r\n";

/// A plain application, one page for each thing that can come back.
const APP: &str = r"<?php
function gate() {
    while (!file_exists($_GET['open'])) { usleep(2000); clearstatcache(); }
}
while (ob_get_level() > 0) {
    ob_end_flush();
}
switch (parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH)) {
    case '/redirect': header('Location: /there', true, 307); break;
    case '/teapot': header('HTTP/1.1 418 Short and stout'); echo 'tea'; break;
    case '/cookies': setcookie('a', '1'); setcookie('b', '2'); header('X-A: 1'); header('X-A: 2', false); echo 'set'; break;
    case '/nothing': http_response_code(204); break;
    case '/unmodified': http_response_code(304); header('ETag: w'); break;
    case '/stream': for ($i = 0; $i < 3; $i++) { echo $i; flush(); } break;
    case '/untyped': header_remove(); ini_set('default_mimetype', ''); echo 'x'; break;
    case '/big': for ($i = 0; $i < 50; $i++) { echo str_repeat('x', 100000); } break;
    case '/late': gate(); echo 'late'; break;
    case '/rest': for ($i = 0; $i < 50; $i++) { echo str_repeat('x', 100000); flush(); if ($i == 1) { gate(); } } break;
    case '/broken': echo 'start'; flush(); gate(); break;
    default: echo json_encode([
        'method' => $_SERVER['REQUEST_METHOD'], 'uri' => $_SERVER['REQUEST_URI'], 'get' => $_GET, 'post' => $_POST,
        'files' => array_map(fn ($f) => [$f['name'], $f['type'], $f['error'], $f['size']], $_FILES),
        'md5' => array_map(fn ($f) => is_string($f['tmp_name']) && $f['tmp_name'] ? md5_file($f['tmp_name']) : null, $_FILES),
        'length' => strlen(file_get_contents('php://input')), 'cookie' => $_COOKIE, 'client' => $_SERVER['REMOTE_ADDR'],
        'host' => $_SERVER['HTTP_HOST'], 'user' => $_SERVER['PHP_AUTH_USER'] ?? null, 'scheme' => $_SERVER['REQUEST_SCHEME'],
        'forwarded' => $_SERVER['HTTP_X_FORWARDED_FOR'] ?? null, 'proxy' => $_SERVER['HTTP_PROXY'] ?? null,
    ]);
}
";

fn plain() -> Folder {
    let app = Folder::new("thin-client-app");
    app.write("public/index.php", APP);
    app
}

const CLASSIC: [&str; 3] = [
    "pool.web.mode=classic",
    "pool.web.script=public/index.php",
    "root=public",
];

fn json(raw: &Raw) -> Value {
    serde_json::from_slice(&raw.body).unwrap_or_else(|e| panic!("{e}: {} {}", raw.status, raw.text()))
}

#[test]
fn requests_pass_as_they_are() {
    let host = Host::start(&[], "");
    let app = plain();
    let _server = host.serve(&app.app(), &CLASSIC);
    let lines =
        "Cookie: s=1; t=2\r\nAuthorization: Basic am9lOnB3\r\nProxy: x\r\nX-Forwarded-For: 9.9.9.9\r\n";
    let seen = json(&host.ask("GET", "/a%20b?x[y]=1&z=%26", lines, b""));
    assert_eq!(
        (&seen["method"], &seen["uri"]),
        (&"GET".into(), &"/a%20b?x[y]=1&z=%26".into())
    );
    assert_eq!(seen["get"], serde_json::json!({"x": {"y": "1"}, "z": "&"}));
    assert_eq!(seen["cookie"], serde_json::json!({"s": "1", "t": "2"}));
    assert_eq!(
        (&seen["user"], &seen["host"]),
        (&"joe".into(), &"parity.test".into())
    );
    assert_eq!(
        (&seen["client"], &seen["scheme"]),
        (&"127.0.0.1".into(), &"http".into())
    );
    assert_eq!(
        (&seen["forwarded"], &seen["proxy"]),
        (&"127.0.0.1".into(), &Value::Null)
    );

    let urlencoded = "Content-Type: application/x-www-form-urlencoded\r\n";
    let seen = json(&host.ask("POST", "/", urlencoded, b"a=1&b[]=2&b[]=3"));
    assert_eq!(
        (&seen["post"], &seen["length"]),
        (&serde_json::json!({"a": "1", "b": ["2", "3"]}), &15.into())
    );
    let big = vec![b'x'; 3 << 20];
    let seen = json(&host.ask("PUT", "/", "Content-Type: text/plain\r\n", &big));
    assert_eq!(
        (&seen["method"], &seen["length"]),
        (&"PUT".into(), &(3 << 20).into())
    );
}

#[test]
fn answers_pass_as_they_are() {
    let host = Host::start(&[], "");
    let app = plain();
    let _server = host.serve(&app.app(), &CLASSIC);
    let redirect = host.get("/redirect");
    assert_eq!(
        (redirect.status, redirect.header("location")),
        (307, Some("/there"))
    );
    let teapot = host.get("/teapot");
    assert_eq!(
        (teapot.status, &*teapot.reason, &*teapot.text()),
        (418, "Short and stout", "tea")
    );
    let cookies = host.get("/cookies");
    let all = |name: &str| {
        cookies
            .headers
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(all("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(all("x-a").join(", "), "1, 2");
    assert_eq!(host.get("/nothing").status, 204);
    let unmodified = host.ask("GET", "/unmodified", "If-None-Match: w\r\n", b"");
    assert_eq!((unmodified.status, unmodified.body.len()), (304, 0));
    assert_eq!(&*host.get("/stream").text(), "012");
    assert_eq!(host.get("/big").body.len(), 5_000_000);
    let head = host.ask("HEAD", "/x", "", b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn forms_with_files_are_written_anew() {
    let host = Host::start(
        &[],
        "upload_max_filesize = 1M\npost_max_size = 4M\nmax_input_vars = 20\n",
    );
    let app = plain();
    let _server = host.serve(&app.app(), &CLASSIC);
    let file = vec![7; 200_000];
    let body = form(&[
        ("name=\"a\"", b"1"),
        ("name=\"n[x][y]\"", b"two\r\nlines"),
        (
            "name=\"f\"; filename=\"a \\\"b\\\" c.txt\"\r\nContent-Type: text/x",
            &file,
        ),
        ("name=\"g[k][]\"; filename=\"g.txt\"", b"nested"),
        ("name=\"none\"; filename=\"\"", b""),
        ("name=\"empty\"; filename=\"e\"", b""),
    ]);
    let seen = json(&host.ask("POST", "/", FORM, &body));
    assert_eq!(
        seen["post"],
        serde_json::json!({"a": "1", "n": {"x": {"y": "two\r\nlines"}}})
    );
    let files = &seen["files"];
    assert_eq!(
        files["f"],
        serde_json::json!(["a \"b\" c.txt", "text/x", 0, 200_000])
    );
    assert_eq!(files["g"][0], serde_json::json!({"k": ["g.txt"]}));
    assert_eq!((&files["none"][2], &files["empty"][2]), (&4.into(), &0.into()));
    let digest = &seen["md5"]["f"];
    let direct = form(&[("name=\"f\"; filename=\"f\"", &file)]);
    assert_eq!(*digest, json(&host.ask("POST", "/", FORM, &direct))["md5"]["f"]);
    // Beyond what the form allows: the application is told so.
    let body = form(&[
        ("name=\"MAX_FILE_SIZE\"", b"10"),
        ("name=\"f\"; filename=\"f\"", &file),
    ]);
    assert_eq!(json(&host.ask("POST", "/", FORM, &body))["files"]["f"][2], 2);
    // Beyond what php-fpm of this host allows: nothing of it may be lost silently.
    let large = vec![7; 2 << 20];
    let body = form(&[("name=\"f\"; filename=\"f\"", &large)]);
    assert_eq!(host.ask("POST", "/", FORM, &body).status, 413);
    let body = form(&[("name=\"a\"", &vec![b'x'; 5 << 20])]);
    assert_eq!(host.ask("POST", "/", FORM, &body).status, 413);
    let names: Vec<String> = (0..30).map(|n| format!("name=\"v{n}\"")).collect();
    let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"1"[..])).collect();
    assert_eq!(host.ask("POST", "/", FORM, &form(&many)).status, 413);
}

#[test]
fn forms_pass_as_they_came_where_php_leaves_them_alone() {
    let host = Host::start(&[], "enable_post_data_reading = 0\npost_max_size = 1M\n");
    let app = plain();
    let _server = host.serve(&app.app(), &CLASSIC);
    let body = form(&[
        ("name=\"a\"", b"1"),
        ("name=\"f\"; filename=\"f\"", &vec![7; 1_500_000]),
    ]);
    let seen = json(&host.ask("POST", "/", FORM, &body));
    assert_eq!(
        (&seen["post"]["a"], &seen["files"]["f"][3]),
        (&"1".into(), &1_500_000.into())
    );
}

#[test]
fn without_hearth_there_is_an_error_page_or_the_old_front_controller() {
    let host = Host::start(&[("HEARTH_READ_TIMEOUT", "3")], "");
    let away = host.get("/x");
    assert_eq!(
        (away.status, away.header("cache-control")),
        (502, Some("no-store"))
    );
    let app = plain();
    let open = app.file("open");
    {
        let _server = host.serve(&app.app(), &CLASSIC);
        assert_eq!(host.get("/x").status, 200);
        let late = format!("/late?open={}", open.display());
        assert_eq!(host.get(&late).status, 504);
        // An answer that breaks off must not look like a whole one.
        let broken = host.get(&format!("/broken?open={}", open.display()));
        assert_eq!(
            (broken.status, &*broken.text(), broken.whole),
            (200, "start", false)
        );
        fs::write(&open, "").unwrap();
    }
    let host = Host::start(&[("HEARTH_FALLBACK", "old.php")], "");
    assert_eq!(
        &*host.get("/some/page?x").text(),
        "the old one answers /some/page?x"
    );
    let _server = host.serve(&app.app(), &CLASSIC);
    assert_eq!(json(&host.get("/some/page?x"))["uri"], "/some/page?x");
}

/// The target of the next request on `socket`, which ends with `end`.
fn heard(socket: &mut UnixStream, end: &str) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(end.as_bytes()) {
        let mut bytes = [0; 4096];
        let count = socket.read(&mut bytes).unwrap();
        assert!(count > 0, "it ended within {:?}", String::from_utf8_lossy(&seen));
        seen.extend(&bytes[..count]);
    }
    String::from_utf8_lossy(&seen)
        .split(' ')
        .nth(1)
        .unwrap()
        .to_owned()
}

fn answer(socket: &mut UnixStream, body: &str) {
    let length = body.len();
    write!(
        socket,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
}

#[test]
fn a_request_runs_again_only_where_it_may_if_its_connection_has_ended() {
    let host = Host::with_workers(1, &[], "");
    let listener = UnixListener::bind(host.folder.file("hearth.sock")).unwrap();
    let hearth = thread::spawn(move || {
        let accept = || listener.accept().unwrap().0;
        let mut targets = Vec::new();
        let mut first = accept();
        targets.push(heard(&mut first, "\r\n\r\n"));
        answer(&mut first, "one");
        targets.push(heard(&mut first, "\r\n\r\n"));
        drop(first);
        let mut second = accept();
        targets.push(heard(&mut second, "\r\n\r\n"));
        answer(&mut second, "two");
        targets.push(heard(&mut second, "a=1"));
        drop(second);
        let mut third = accept();
        targets.push(heard(&mut third, "\r\n\r\n"));
        answer(&mut third, "four");
        targets
    });
    assert_eq!(&*host.get("/1").text(), "one");
    assert_eq!(&*host.get("/2").text(), "two");
    let urlencoded = "Content-Type: application/x-www-form-urlencoded\r\n";
    assert_eq!(host.ask("POST", "/3", urlencoded, b"a=1").status, 502);
    assert_eq!(&*host.get("/4").text(), "four");
    assert_eq!(hearth.join().unwrap(), ["/1", "/2", "/2", "/3", "/4"]);
}

#[test]
fn an_answer_that_does_not_say_where_it_ends_is_none() {
    const ANSWERS: [&str; 8] = [
        "Content-Length: x\r\n\r\nhi",
        "Content-Length: -2\r\n\r\nhi",
        "Connection: close\r\n\r\nhi",
        "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nzz\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhi\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n",
    ];
    let host = Host::with_workers(1, &[], "");
    let listener = UnixListener::bind(host.folder.file("hearth.sock")).unwrap();
    let hearth = thread::spawn(move || {
        for answer in ANSWERS {
            let mut socket = listener.accept().unwrap().0;
            heard(&mut socket, "\r\n\r\n");
            write!(socket, "HTTP/1.1 200 OK\r\n{answer}").unwrap();
        }
    });
    for answer in ANSWERS {
        let mut client = RawClient::connect(host.fpm.address());
        client
            .send(b"GET /x HTTP/1.1\r\nHost: parity.test\r\n\r\n")
            .unwrap();
        let whole = client.read("GET").is_ok_and(|raw| raw.status == 200);
        assert!(!whole, "{answer:?}");
    }
    hearth.join().unwrap();
}

#[test]
fn nobody_gets_what_was_left_of_the_answer_of_a_client_that_went() {
    let host = Host::with_workers(1, &[], "");
    let app = plain();
    let open = app.file("open");
    let server = host.serve(&app.app(), &CLASSIC);
    assert_eq!(host.get("/x").status, 200);
    let mut client = RawClient::connect(host.fpm.address());
    let head = format!(
        "GET /rest?open={} HTTP/1.1\r\nHost: parity.test\r\n\r\n",
        open.display()
    );
    client.send(head.as_bytes()).unwrap();
    let head = client.head().unwrap();
    // More than Apache keeps to itself.
    client.part(&head, 1000).unwrap();
    drop(client);
    fs::write(&open, "").unwrap();
    assert_eq!(json(&host.get("/own"))["uri"], "/own");
    // And the connection that is kept does not outlive its Hearth.
    drop(server);
    let _server = host.serve(&app.app(), &CLASSIC);
    assert_eq!(json(&host.ask("POST", "/again", "", b""))["uri"], "/again");
}

#[test]
fn symfony_sees_the_same_request_as_without_the_client() {
    let host = Host::start(&[], "max_input_vars = 100000\n");
    let server = host.serve(&App::bundled("symfony"), &["pool.web.workers=2"]);
    let mut different = String::new();
    let mut compared = 0;
    for case in parity::symfony_cases() {
        let (direct, through) = (case.send(server.address()), case.send(host.fpm.address()));
        let fields = |raw: &Raw| {
            let seen: Value = serde_json::from_slice(&raw.body).ok()?;
            let names = [
                "method", "path", "client", "secure", "user", "query", "post", "cookies", "files",
            ];
            Some(names.map(|name| seen[name].clone()))
        };
        let (Some(expected), Some(found)) = (fields(&direct), fields(&through)) else {
            // Apache takes less for a request than Hearth does, or the other way round.
            continue;
        };
        compared += 1;
        if expected != found {
            let _ = writeln!(different, "=== {}\n- {expected:?}\n+ {found:?}", case.name());
        }
    }
    assert!(
        different.is_empty(),
        "- Hearth, + through the thin client\n{different}"
    );
    assert!(compared > 60, "only {compared} requests reached Symfony");
}

#[test]
fn a_session_of_symfony_holds_through_the_client() {
    let host = Host::start(&[], "");
    let _server = host.serve(&App::bundled("symfony"), &["pool.web.workers=3"]);
    let urlencoded = "Content-Type: application/x-www-form-urlencoded\r\n";
    let login = host.ask(
        "POST",
        "/login",
        urlencoded,
        b"login[user]=demo&login[password]=hearth",
    );
    assert_eq!((login.status, login.header("location")), (303, Some("/account")));
    let lines = cookie_line(&login.headers);
    for _ in 0..5 {
        assert_eq!(host.ask("GET", "/account", &lines, b"").status, 200);
    }
    let page = host.ask("GET", "/account", &lines, b"").text();
    assert!(page.contains('6'), "{page}");
    let download = host.get("/download?size=3000000&length=0");
    assert_eq!((download.status, download.body.len()), (200, 3_000_000));
    assert_eq!(host.get("/throw").status, 500);
    assert_eq!(host.get("/no-such-page").status, 404);
}

#[test]
fn laravel_answers_through_the_client() {
    if !installed(LARAVEL, "laravel_answers_through_the_client") {
        return;
    }
    let host = Host::start(&[], "");
    let settings = [
        "pool.web.mode=resident",
        "pool.web.script=worker.php",
        "root=public",
    ];
    let _server = host.serve(&App::bundled("laravel"), &settings);
    assert_eq!(&*host.get("/api/hello").text(), "{\"message\":\"Hello, world!\"}");
    let body = form(&[
        ("name=\"a\"", b"1"),
        ("name=\"file\"; filename=\"f\"", b"content"),
    ]);
    let seen = json(&host.ask("POST", "/api/request?b=2", FORM, &body));
    assert_eq!(
        (&seen["input"]["a"], &seen["input"]["b"]),
        (&"1".into(), &"2".into())
    );
    assert_eq!(
        (&seen["file"], &seen["method"]),
        (&"content".into(), &"POST".into())
    );
    assert_eq!(seen["url"], "http://parity.test/api/request?b=2");
    let first = host.get("/");
    assert_eq!(first.status, 200);
    let lines = cookie_line(&first.headers);
    let second = host.ask("GET", "/", &lines, b"");
    assert!(
        second.text().contains("Visits in this session: 2."),
        "{}",
        second.text()
    );
}
