//! Hearth in the place of php-fpm, behind the nginx and the Apache of the machine.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Answer, App, Client, Folder, Front, Server, WebServer};

const CLASSIC: [&str; 2] = [
    "pool.web.mode=\"classic\"",
    "pool.web.script=\"public/index.php\"",
];
const RESIDENT: [&str; 2] = ["pool.web.mode=\"resident\"", "pool.web.script=\"worker.php\""];
const BOTH: [WebServer; 2] = [WebServer::Nginx, WebServer::Apache];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/app/public")
}

/// The tests' application, by FastCGI alone but for what the harness asks.
fn start(folder: &Folder, settings: &[&str]) -> (Server, PathBuf) {
    let socket = folder.file("fcgi.sock");
    let listen = format!("fastcgi.listen=\"unix:{}\"", socket.display());
    let mut all = vec![listen.as_str()];
    // Apache does not run as root.
    if rustix::process::geteuid().is_root() {
        all.push("fastcgi.socket_group=\"www-data\"");
    }
    all.extend(settings);
    (Server::start(&App::of_tests(), &all), socket)
}

/// With `workers`, in a mode, behind a web server.
fn in_each_way(workers: usize, test: impl Fn(&Server, &Front)) {
    let workers = format!("pool.web.workers={workers}");
    for mode in [CLASSIC, RESIDENT] {
        let folder = Folder::new("fastcgi");
        let (server, socket) = start(&folder, &[mode[0], mode[1], &workers]);
        for web_server in BOTH {
            test(&server, &Front::start(web_server, &root(), &socket));
        }
    }
}

fn get(front: &Front, target: &str) -> Answer {
    Client::connect(front.address())
        .unwrap()
        .request("GET", target, b"")
        .unwrap()
}

#[test]
fn requests_are_answered_behind_nginx_and_apache() {
    in_each_way(2, |_, front| {
        let answer = get(front, "/some/page?a=b");
        assert_eq!(
            (answer.status, &*answer.text()),
            (200, "hello from /some/page?a=b")
        );
        assert_eq!(get(front, "/head?status=418&header=X-A:+b").status, 418);
        assert_eq!(
            get(front, "/head?status=302&header=X-A:+b").header("x-a"),
            Some("b")
        );
        assert_eq!(get(front, "/fatal").status, 500);
        assert_eq!(&*get(front, "/exit").text(), "said before exit");
        let file = get(front, "/style.css");
        assert_eq!((file.status, file.header("x-powered-by")), (200, None));
        let shown: Value = serde_json::from_slice(&get(front, "/server?x=y").body).unwrap();
        let root = root().canonicalize().unwrap();
        for (name, value) in [
            ("REMOTE_ADDR", "127.0.0.1"),
            ("REQUEST_URI", "/server?x=y"),
            ("QUERY_STRING", "x=y"),
            ("SCRIPT_NAME", "/index.php"),
            ("SCRIPT_FILENAME", &root.join("index.php").display().to_string()),
            ("DOCUMENT_ROOT", &root.display().to_string()),
        ] {
            assert_eq!(shown[name], value, "{name}");
        }
    });
}

#[test]
fn big_bodies_go_both_ways() {
    in_each_way(1, |server, front| {
        for size in [1, 65_535, 65_536, 3 << 20] {
            let body = vec![b'x'; size];
            let mut client = Client::connect(front.address()).unwrap();
            let answer = client.request("POST", "/length", &body).unwrap();
            assert_eq!(answer.text(), size.to_string());
        }
        let header = format!("/head?status=200&header=X-A:+{}", "y".repeat(20_000));
        if get(front, "/pid")
            .header("server")
            .is_some_and(|s| s.starts_with("nginx"))
        {
            assert_eq!(get(front, &header).header("x-a").map(str::len), Some(20_000));
        }
        assert_eq!(server.log.count("FastCGI connection closed"), 0);
    });
}

/// The worker that does not answer now is at the first try.
fn kill_working(front: &Front) {
    let free: i32 = get(front, "/pid").text().parse().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{free}/stat")).unwrap();
    let parent = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let other = children
        .split_whitespace()
        .filter_map(|pid| pid.parse::<i32>().ok())
        .find(|pid| *pid != free);
    crate::harness::kill(other.expect("two workers"), Signal::KILL);
}

#[test]
fn a_worker_that_is_killed_costs_no_request_that_is_safe_to_repeat() {
    in_each_way(2, |_, front| {
        let folder = Folder::new("fastcgi-once");
        let mark = folder.file("mark");
        let target = format!("/once?mark={}", mark.display());
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| get(front, &target));
            while !mark.exists() {
                std::thread::yield_now();
            }
            kill_working(front);
            assert_eq!(&*asking.join().unwrap().text(), "second try");
        });
        let mut client = Client::connect(front.address()).unwrap();
        assert_eq!(client.request("POST", "/kill", b"").unwrap().status, 502);
    });
}

#[test]
fn a_client_that_leaves_takes_its_request_along() {
    let folder = Folder::new("fastcgi");
    let (server, socket) = start(&folder, &[RESIDENT[0], RESIDENT[1], "pool.web.workers=1"]);
    let front = Front::start(WebServer::Nginx, &root(), &socket);
    let open = folder.file("open");
    let mut running = Client::connect(front.address()).unwrap();
    running
        .send("GET", &format!("/gate?open={}", open.display()), b"")
        .unwrap();
    server.log.wait("php", |event| event["text"] == "at the gate");
    // It waits for the only worker.
    let mut waiting = Client::connect(front.address()).unwrap();
    let mark = folder.file("started");
    waiting
        .send("GET", &format!("/once?mark={}", mark.display()), b"")
        .unwrap();
    while server.status()["pools"][0]["queue"]["waiting"] != 1 {
        std::thread::yield_now();
    }
    drop(waiting);
    server.out.wait_for_line_with("client-gone");
    drop(running);
    std::fs::write(&open, "").unwrap();
    assert_eq!(&*get(&front, "/x").text(), "hello from /x");
    assert!(!mark.exists(), "nobody waited for it");
}

#[test]
fn a_script_behind_nginx_finds_at_its_next_flush_that_its_client_has_left() {
    for mode in [CLASSIC, RESIDENT] {
        let folder = Folder::new("fastcgi-leaving");
        let buffers = "pool.web.ini.output_buffering=4096";
        let (server, socket) = start(&folder, &[mode[0], mode[1], "pool.web.workers=1", buffers]);
        let front = Front::start(WebServer::Nginx, &root(), &socket);
        let mut client = Client::connect(front.address()).unwrap();
        client.send("GET", "/stream?delay=0", b"").unwrap();
        server.log.wait("php", |event| event["text"] == "streaming");
        drop(client);
        server.log.wait("php", |event| event["text"] == "ended with 1");
        server.out.wait_for_line_with("client-gone");
    }
}

#[test]
fn no_request_fails_while_the_binary_is_replaced_behind_nginx() {
    let folder = Folder::new("fastcgi");
    let (mut server, socket) = start(&folder, &[RESIDENT[0], RESIDENT[1], "pool.web.workers=2"]);
    let front = Front::start(WebServer::Nginx, &root(), &socket);
    let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // nginx keeps its connections for the second.
        for target in ["/x", "/kept/x"].repeat(2) {
            let (front, over, count) = (&front, &over, &count);
            scope.spawn(move || {
                // Relaxed: a flag and a number, on their own.
                while !over.load(Ordering::Relaxed) {
                    let answer = get(front, target);
                    assert_eq!(
                        (answer.status, answer.text()),
                        (200, format!("hello from {target}"))
                    );
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for times in 1..=3 {
            let before = count.load(Ordering::Relaxed);
            let replaced = "replaced: another server has taken over, this one finishes its requests";
            server.signal(Signal::USR2);
            server.log.wait_for_count(replaced, times);
            let pid = server.log.last(replaced, |_| true).unwrap()["pid"]
                .as_i64()
                .unwrap();
            server.follow(i32::try_from(pid).unwrap());
            server.log.wait_for_count("server ready", times + 1);
            while count.load(Ordering::Relaxed) < before + 50 {
                std::thread::yield_now();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    server.log.wait_for_count("server stopped", 3);
}

#[test]
fn a_request_finishes_when_the_server_is_told_to_stop() {
    let folder = Folder::new("fastcgi");
    let (mut server, socket) = start(&folder, &[RESIDENT[0], RESIDENT[1], "pool.web.workers=1"]);
    let front = Front::start(WebServer::Nginx, &root(), &socket);
    let open = folder.file("open");
    let mut client = Client::connect(front.address()).unwrap();
    client
        .send("POST", &format!("/gate?open={}", open.display()), b"")
        .unwrap();
    server.log.wait("php", |event| event["text"] == "at the gate");
    server.signal(Signal::TERM);
    server.log.wait("server stopping", |_| true);
    std::fs::write(&open, "").unwrap();
    assert_eq!(&*client.read().unwrap().text(), "through the gate");
    assert!(server.wait_for_end().success());
}

#[test]
fn what_is_no_fastcgi_is_logged_and_closed() {
    let folder = Folder::new("fastcgi");
    let (server, socket) = start(&folder, &CLASSIC);
    for bytes in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"\x01\x01\0\x01\0\x02\0\0ab"] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }
    server.log.wait_for_count("FastCGI connection closed", 2);
}

#[test]
fn settings_of_the_web_server_hold_for_its_request_in_a_classic_pool() {
    let folder = Folder::new("fastcgi");
    let (server, socket) = start(&folder, &[CLASSIC[0], CLASSIC[1], "pool.web.workers=1"]);
    let front = Front::start(WebServer::Nginx, &root(), &socket);
    for (name, value) in [
        ("upload_max_filesize", "7M"),
        ("precision", "9"),
        ("memory_limit", "77M"),
    ] {
        let target = format!("/ini?name={name}");
        assert_eq!(&*get(&front, &target).text(), value);
        assert_ne!(&*server.get(&target).text(), value, "{name} is left");
    }
    let folder = Folder::new("fastcgi");
    let (server, socket) = start(&folder, &RESIDENT);
    let front = Front::start(WebServer::Nginx, &root(), &socket);
    let answer = get(&front, "/ini?name=memory_limit");
    assert_eq!(answer.status, 200);
    assert_ne!(&*answer.text(), "77M");
    server.log.wait(
        "settings of the web server ignored: PHP_VALUE and PHP_ADMIN_VALUE hold in classic pools only",
        |_| true,
    );
}

#[test]
fn hearths_own_refusals_are_in_the_log_of_the_web_server() {
    let folder = Folder::new("fastcgi");
    let (_server, socket) = start(&folder, &[CLASSIC[0], CLASSIC[1], "limits.body_bytes=1000"]);
    let front = Front::start(WebServer::Nginx, &root(), &socket);
    let mut client = Client::connect(front.address()).unwrap();
    assert_eq!(client.request("POST", "/x", &[b'x'; 2000]).unwrap().status, 413);
    assert!(front.log().contains("hearth: request "), "{}", front.log());
    assert!(front.log().contains("Payload Too Large"), "{}", front.log());
}
