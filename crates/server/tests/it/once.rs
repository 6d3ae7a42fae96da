//! `hearth_request()`: what stands above it in a script is booted once, what stands below it is each request. `parity` runs all its
//! cases in such a script, and compares with php-fpm.

mod above;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::harness::{App, Client, Folder, Fpm, Server};

const WAYS: [&str; 2] = ["pool.web.isolation_method=auto", "pool.web.isolation_method=fork"];

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/once")
}

fn start_app(app: &App, script: &str, settings: &[&str]) -> Server {
    let script = format!("pool.web.script={script}");
    let own = ["pool.web.mode=resident", "pool.web.workers=1", &script];
    Server::start(app, &[&own, settings].concat())
}

/// `once/app.php`, and the file in which it notes its boots.
fn start(settings: &[&str]) -> (Server, Folder) {
    let marks = Folder::new("once");
    let app = App::at(&dir()).with_env("TEST_MARKS", &marks.file("marks").display().to_string());
    (start_app(&app, "app.php", settings), marks)
}

fn boots(marks: &Folder) -> usize {
    fs::read_to_string(marks.file("marks")).unwrap().lines().count()
}

#[test]
fn each_request_starts_where_the_script_waits_whatever_the_way_and_the_warm_up() {
    for way in WAYS {
        for (warmup, expected) in [("none", 1), ("clean", 5), ("requests", 6)] {
            let warmup = format!("pool.web.warmup={warmup}");
            let paths = "pool.web.warmup_paths=[\"/\", \"/exit\"]";
            let (server, marks) = start(&[way, &warmup, paths]);
            assert_eq!(boots(&marks), expected, "{warmup}");
            for _ in 0..20 {
                assert_eq!(server.get("/count").text(), "1 1 1 0 5 down", "{way} {warmup}");
            }
            assert_eq!(boots(&marks), expected, "{warmup}");
            server.assert_same_workers(1);
        }
    }
}

#[test]
fn a_warm_up_by_requests_is_taken_for_clean_and_said_so_once() {
    let (server, _marks) = start(&["pool.web.warmup=requests"]);
    server
        .log
        .wait_for_line_with("this one calls hearth_request() and is warmed as by");
    server.log.wait_for_line_with("warmed by 2 requests in ");
    assert_eq!(server.log.text().matches("is warmed as by").count(), 1);
}

#[test]
fn no_ending_of_a_script_costs_a_worker() {
    for way in WAYS {
        let (server, _marks) = start(&[way, "pool.web.paranoid=true"]);
        for _ in 0..20 {
            for (path, status, text) in [
                ("/", 200, "served / to the end down"),
                ("/exit", 200, "served /exit down"),
                ("/throw", 500, "served /throw down"),
                ("/fatal", 500, "served /fatal down"),
                ("/memory", 500, " down"),
                ("/twice", 500, "served /twice down"),
                ("/fiber", 200, "served /fiber in a fiber down"),
                ("/finish", 200, "served /finish"),
            ] {
                let answer = server.get(path);
                assert_eq!((answer.status, answer.text().as_str()), (status, text), "{way}");
            }
        }
        let said = "hearth_request() was called a second time: one request a run of the script";
        server.log.wait_for_line_with(said);
        server.assert_same_workers(1);
    }
}

#[test]
fn a_fiber_may_wait_for_the_request() {
    for way in WAYS {
        for warmup in ["none", "clean"] {
            let warmup = format!("pool.web.warmup={warmup}");
            let settings = [way, &warmup, "pool.web.paranoid=true"];
            let server = start_app(&App::at(&dir()), "fiber.php", &settings);
            for _ in 0..20 {
                assert_eq!(server.get("/").text(), "1above script resumed end");
                assert_eq!(server.get("/?exit").text(), "1above script resumed exit");
            }
            server.assert_same_workers(1);
        }
    }
}

#[test]
fn a_worker_that_ends_runs_nothing_of_the_script() {
    let script = "<?php
        register_shutdown_function(fn () => touch(__DIR__ . '/shutdown'));
        final class Kept { public function __destruct() { touch(__DIR__ . '/destructor'); } }
        $kept = new Kept();
        try { hearth_request(); } finally { if (!isset($_SERVER['REMOTE_ADDR'])) { touch(__DIR__ . '/finally'); } }
        echo 'served';
    ";
    let folder = Folder::with("once-end", &[("worker.php", script)]);
    let mut server = start_app(&folder.app(), "worker.php", &["pool.web.warmup=none"]);
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait_for_end().success());
    for mark in ["shutdown", "destructor", "finally"] {
        assert!(!folder.file(mark).exists(), "{mark}");
    }
    let server = start_app(&folder.app(), "worker.php", &["pool.web.warmup=none"]);
    assert_eq!(server.get("/").text(), "served");
    drop(server);
    for (mark, runs) in [("shutdown", true), ("destructor", true), ("finally", false)] {
        assert_eq!(folder.file(mark).exists(), runs, "{mark}");
    }
}

/// What `once/public/index.php` answers to three requests of one visitor.
fn visits(address: SocketAddr) -> Vec<String> {
    let ask = |(line, body): (&str, &str)| {
        let mut client = Client::connect(address).unwrap();
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let len = body.len();
        let bytes = format!("{line} HTTP/1.1\r\nHost: h\r\n{kind}\r\nContent-Length: {len}\r\n\r\n{body}");
        client.raw(bytes.as_bytes()).unwrap();
        let answer = client.read().unwrap();
        let header = |name| answer.header(name).unwrap_or_default();
        let (visits, cookie) = (header("x-visits"), header("set-cookie"));
        format!("{} {visits} {cookie} {}", answer.status, answer.text())
    };
    let requests = [("GET /?a=1", ""), ("POST /?b[]=2", "c=d"), ("PUT /put", "body")];
    requests.map(ask).to_vec()
}

#[test]
fn one_file_answers_the_same_resident_classic_and_under_php_fpm() {
    let sessions = Folder::new("once-sessions");
    let place = sessions.path().display();
    let ini = format!(
        "expose_php = 0\noutput_buffering = 4096\nregister_argc_argv = 0\nsession.save_path = {place}\n"
    );
    let fpm = Fpm::start(&dir().join("public"), &ini, &[], 1);
    let expected = visits(fpm.address());
    for (number, answer) in (1..).zip(&expected) {
        assert!(answer.starts_with(&format!("200 {number} ")), "{answer}");
    }
    let php_ini = format!("pool.web.php_ini={}", sessions.write("php.ini", &ini).display());
    for mode in [
        &["pool.web.mode=classic"][..],
        &["pool.web.mode=resident", WAYS[0]],
        &["pool.web.mode=resident", WAYS[1]],
    ] {
        fs::remove_file(sessions.file("sess_abc")).unwrap();
        let own = [
            "pool.web.script=public/index.php",
            "root=public",
            &php_ini,
            "pool.web.workers=1",
            "pool.web.warmup=none",
        ];
        let server = Server::start(&App::at(&dir()), &[mode, &own].concat());
        assert_eq!(visits(server.address()), expected, "{mode:?}");
    }
}

#[test]
fn the_shop_of_the_documentation_sells_the_same_everywhere() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hearth-request.md");
    let page = fs::read_to_string(page).unwrap();
    let part = |start: &str, end: &str| {
        let (_, rest) = page.split_once(start).unwrap();
        rest.split_once(end).unwrap().0.to_owned()
    };
    let prices = part("printf '", "' >").replace("\\n", "\n");
    let script = part("```php\n", "```");
    let shop = Folder::with("shop", &[("prices.ini", &prices), ("public/index.php", &script)]);
    let sold = |address: SocketAddr| {
        ["/", "/?name=coffee", "/?name=rum"].map(|target| {
            let answer = Client::connect(address)
                .unwrap()
                .request("GET", target, b"")
                .unwrap();
            (answer.status, answer.text())
        })
    };
    let expected = [
        (200, "tea costs 3\n"),
        (200, "coffee costs 4\n"),
        (404, "no rum here\n"),
    ];
    let expected = expected.map(|(status, text)| (status, text.to_owned()));
    let fpm = Fpm::start(&shop.file("public"), "", &[], 1);
    assert_eq!(sold(fpm.address()), expected);
    for mode in ["classic", "resident"] {
        let mode = format!("pool.web.mode={mode}");
        let settings = ["root=public", &mode, "pool.web.script=public/index.php"];
        let server = Server::start(&shop.app(), &settings);
        assert_eq!(sold(server.address()), expected, "{mode}");
        assert_eq!(sold(server.address()), expected, "{mode}");
    }
}
