//! Isolation "request": each request starts from the booted application, in each way of doing it, and no ending costs a worker.
//!
//! `nasty` looks for traces in every corner, `parity` compares with php-fpm; here are the choice of the way, and what must never
//! cost a worker.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{App, Folder, Server};

const WORKERS: u64 = 2;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/isolation")
}

/// `isolation/worker.php` and settings besides.
fn start(settings: &[&str]) -> Server {
    start_app(&App::at(&dir()), settings)
}

fn start_app(app: &App, settings: &[&str]) -> Server {
    let resident = ["pool.web.mode=resident", "pool.web.script=worker.php"];
    let all: Vec<&str> = resident.iter().chain(settings).copied().collect();
    Server::start(app, &all)
}

/// How requests are undone here: by the log and by `hearth status`, which agree.
fn method(server: &Server) -> (String, String) {
    let ready = server.log.wait("zygote ready", |_| true);
    let status = server.status();
    let told = &status["pools"][0]["generations"][0]["isolation"];
    assert_eq!(told["method"], ready["isolation"]);
    assert_eq!(told["reason"], ready["reason"]);
    let text = |field: &str| told[field].as_str().unwrap().to_owned();
    (text("method"), text("reason"))
}

#[test]
fn the_default_is_to_rewind() {
    let server = start(&[]);
    let (method, reason) = method(&server);
    assert_eq!(server.status()["pools"][0]["isolation"], "request");
    assert_eq!(method, "rewind", "{reason}");
    assert!(reason.contains("MiB"), "{reason}");
}

#[test]
fn the_way_can_be_chosen() {
    let server = start(&["pool.web.isolation_method=fork", "pool.web.paranoid=true"]);
    assert_eq!(method(&server), ("fork".to_owned(), "as configured".to_owned()));
    server.log.wait_for_line_with("paranoid compares nothing here");
    let server = start(&["pool.web.isolation=none"]);
    let ready = server.log.wait("zygote ready", |_| true);
    assert_eq!(ready["isolation"], Value::Null);
    assert_eq!(
        server.status()["pools"][0]["generations"][0]["isolation"],
        json!(null)
    );
}

#[test]
fn the_status_tells_what_rewinding_takes() {
    let server = start(&["pool.web.workers=1"]);
    let told = |server: &Server| server.status()["pools"][0]["workers"][0]["rewind"].take();
    assert_eq!(told(&server), Value::Null, "before the first request");
    for _ in 0..20 {
        assert_eq!(server.get("/count").status, 200);
    }
    let after = told(&server);
    for figure in ["copied_pages", "dropped_pages", "hot_pages", "looks", "seconds"] {
        assert!(after[figure].as_f64().unwrap() > 0.0, "{figure}: {after}");
    }
    // The first requests teach the worker what the others write to.
    assert!(after["looks"].as_u64().unwrap() < 20, "{after}");
    let server = start(&["pool.web.workers=1", "pool.web.isolation_method=fork"]);
    assert_eq!(server.get("/count").status, 200);
    assert_eq!(told(&server), Value::Null);
}

/// Once for each way of undoing a request.
fn in_each_way(settings: &[&str], test: impl Fn(&Server)) {
    for way in ["pool.web.isolation_method=auto", "pool.web.isolation_method=fork"] {
        let all: Vec<&str> = settings.iter().copied().chain([way]).collect();
        test(&start(&all));
    }
}

#[test]
fn statics_globals_and_objects_of_the_boot_are_as_booted() {
    in_each_way(&["pool.web.workers=1"], |server| {
        for _ in 0..50 {
            assert_eq!(server.get("/count").text(), "1 1 1 1");
        }
    });
    let server = start(&["pool.web.workers=1", "pool.web.isolation=none"]);
    for round in 1..=3 {
        assert_eq!(
            server.get("/count").text(),
            format!("{round} {round} {round} {round}")
        );
    }
}

#[test]
fn what_a_request_leaves_in_its_process_is_unseen_by_the_next() {
    in_each_way(&["pool.web.workers=1", "pool.web.warmup=none"], |server| {
        let lock = server.file("lock").display().to_string();
        let first = server.get(&format!("/look?lock={lock}"));
        assert_eq!(first.status, 200);
        for _ in 0..20 {
            assert_eq!(server.get(&format!("/leave?lock={lock}")).text(), "left");
            let next = server.get(&format!("/look?lock={lock}"));
            assert_eq!(next.status, first.status);
            assert_eq!(next.text(), first.text());
        }
        server.assert_same_workers(1);
    });
    // What is compared does change where nothing is undone.
    let server = start(&["pool.web.workers=1", "pool.web.isolation=none"]);
    let lock = server.file("lock").display().to_string();
    let first = server.get(&format!("/look?lock={lock}")).text();
    server.get(&format!("/leave?lock={lock}"));
    assert_ne!(server.get(&format!("/look?lock={lock}")).text(), first);
}

/// Whether any process has a lock on the file: `/proc/locks` names it as `major:minor:inode`.
fn is_locked(path: &Path) -> bool {
    let inode = std::fs::metadata(path).unwrap().ino();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks.contains(&format!(":{inode} "))
}

#[test]
fn locks_that_a_request_takes_on_files_of_the_boot_end_with_it() {
    let folder = std::env::temp_dir().join(format!("hearth-locks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let app = App::at(&dir()).with_env("TEST_FOLDER", &folder.display().to_string());
    let files = ["file", "database"].map(|name| folder.join(name));
    for way in ["auto", "fork"] {
        let way = format!("pool.web.isolation_method={way}");
        let server = start_app(&app, &["pool.web.script=locks.php", "pool.web.workers=1", &way]);
        for _ in 0..3 {
            for target in ["/file", "/database", "/both"] {
                assert_eq!(server.get(target).text(), "served", "{way} {target}");
                // The only worker takes the next one when it has undone the last.
                assert_eq!(server.get("/").text(), "served");
                let locked = files.each_ref().map(|file| is_locked(file));
                assert_eq!(locked, [false, false], "{way} {target}");
            }
        }
        server.assert_same_workers(1);
    }
    // What is asserted can be seen.
    let server = start_app(
        &app,
        &[
            "pool.web.script=locks.php",
            "pool.web.workers=1",
            "pool.web.isolation=none",
        ],
    );
    assert_eq!(server.get("/both").text(), "served");
    assert_eq!(files.each_ref().map(|file| is_locked(file)), [true, true]);
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_semaphore_of_the_boot_that_a_request_has_acquired_is_free_for_the_next() {
    for way in ["auto", "fork"] {
        let way = format!("pool.web.isolation_method={way}");
        let settings = [
            "pool.web.script=semaphore.php",
            "pool.web.warmup=none",
            "pool.web.workers=1",
            &way,
        ];
        let server = start_app(&App::at(&dir()), &settings);
        for _ in 0..3 {
            assert_eq!(server.get("/").text(), "true", "{way}");
        }
        assert_eq!(server.get("/own").text(), "true", "{way}");
        let forked = || server.status()["pools"][0]["totals"]["forked"].clone();
        let before = forked();
        // What is gone has nothing that must be undone.
        for target in ["/own", "/own", "/removed"] {
            assert_eq!(server.get(target).text(), "true", "{way} {target}");
        }
        assert_eq!(server.get("/own").text(), "true", "{way}");
        assert_eq!(forked(), before, "{way}");
    }
}

#[test]
fn no_ending_of_a_request_costs_a_worker() {
    in_each_way(&[&format!("pool.web.workers={WORKERS}")], |server| {
        for (how, status, text) in [
            ("exit", 200, "said before"),
            ("throw", 500, "said before"),
            ("fatal", 500, "said before"),
            ("memory", 500, ""),
        ] {
            for _ in 0..200 {
                let answer = server.get(&format!("/end?how={how}"));
                assert_eq!((answer.status, answer.text().as_str()), (status, text), "{how}");
            }
        }
        assert_eq!(server.get("/").text(), "hello ");
        assert_eq!(server.log.count("worker died"), 0);
        server.assert_same_workers(WORKERS);
    });
}

#[test]
fn what_a_script_does_behind_its_handler_belongs_to_the_request() {
    in_each_way(&["pool.web.workers=1"], |server| {
        for how in ["next", "break", "exit", "throw", "fatal", "memory"] {
            let mark = server.file(how);
            let answer = server.get(&format!("/behind?how={how}&mark={}", mark.display()));
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (200, "hello and behind"),
                "{how}"
            );
            // The only worker is free again once the request has ended.
            assert_eq!(server.get("/count").text(), "1 1 1 1");
            assert_eq!(std::fs::read_to_string(mark).unwrap(), "behind shutdown", "{how}");
        }
        assert_eq!(server.get("/nested").status, 500);
        server.assert_same_workers(1);
    });
}

#[test]
fn a_request_that_does_what_cannot_be_undone_is_answered_and_its_worker_replaced() {
    in_each_way(&["pool.web.workers=1", "pool.web.ini.ffi.enable=1"], |server| {
        let priority = server.get("/priority").text();
        assert_eq!(server.get("/nice").status, 200);
        assert_eq!(server.get("/priority").text(), priority);
        assert_eq!(server.get("/thread").text(), "0");
        assert_eq!(server.get("/count").text(), "1 1 1 1");
        if method(server).0 == "rewind" {
            for why in ["called nice()", "left threads behind ("] {
                let line = server.log.wait_for_line_with(why);
                let end = "which cannot be undone; a fresh worker takes over";
                assert!(line.contains(end), "{line}");
            }
        } else {
            server.assert_same_workers(1);
        }
    });
}

#[test]
fn a_crash_is_that_of_the_worker_whoever_ran_the_request() {
    in_each_way(&["pool.web.workers=1", "pool.web.ini.ffi.enable=1"], |server| {
        for (target, why, incarnation) in [
            ("/crash", "signal 11 (SIGSEGV)", 2),
            ("/signal?number=6", "signal 6 (SIGABRT)", 3),
            ("/signal?number=9", "signal 9 (SIGKILL)", 4),
        ] {
            assert_eq!(server.post(target, b"").status, 502, "{target}");
            let died = server.log.wait("worker died", |event| event["why"] == why);
            assert_eq!(died["worker"], 0);
            server
                .log
                .wait("worker ready", |event| event["incarnation"] == incarnation);
            assert_eq!(server.get("/count").text(), "1 1 1 1");
        }
    });
}

#[test]
fn all_memory_is_as_it_was_after_requests_of_every_kind() {
    let workers = format!("pool.web.workers={WORKERS}");
    let server = start_app(&App::of_tests(), &[&workers, "pool.web.paranoid=true"]);
    let body = vec![b'x'; 300_000];
    for _ in 0..40 {
        for target in [
            "/", "/pid", "/exit", "/fatal", "/throw", "/memory", "/log", "/orphan",
        ] {
            server.get(target);
        }
        server.get("/head?status=404&header=X-A:b");
        assert_eq!(server.post("/length", &body).text(), "300000");
    }
    assert_paranoid_found_nothing(&server);
}

#[test]
fn all_memory_is_as_it_was_after_requests_to_symfony() {
    let server = Server::start(
        &App::bundled("symfony"),
        &[&format!("pool.web.workers={WORKERS}"), "pool.web.paranoid=true"],
    );
    for _ in 0..30 {
        for target in [
            "/",
            "/api/hello",
            "/api/request?a=b",
            "/login",
            "/account",
            "/upload",
            "/download",
            "/cached",
            "/exit",
            "/throw",
            "/fatal",
            "/nothing",
        ] {
            server.get(target);
        }
    }
    assert_paranoid_found_nothing(&server);
}

/// Every request has been compared: each is undone before its worker takes the next, and the last before its worker stops.
fn assert_paranoid_found_nothing(server: &Server) {
    assert_eq!(server.get("/").status, 200);
    server.assert_same_workers(WORKERS);
    let log = server.log.text();
    assert!(
        !log.contains("not rewound") && !log.contains("fresh worker"),
        "{log}"
    );
}

#[test]
fn a_byte_that_was_not_put_back_is_reported_with_its_address() {
    let start = |paranoid| {
        start(&[
            "pool.web.script=unseen.php",
            "pool.web.warmup=none",
            "pool.web.workers=1",
            "pool.web.isolation_method=rewind",
            "pool.web.ini.ffi.enable=1",
            paranoid,
        ])
    };
    // The address that is written to, and what was there.
    let ask = |server: &Server, target| {
        let answer = server.get(target);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = answer.text();
        let (address, byte) = text.split_once(' ').unwrap();
        (address.to_owned(), byte.to_owned())
    };
    let server = start("pool.web.paranoid=true");
    for _ in 0..3 {
        assert_eq!(ask(&server, "/").1, "a");
    }
    server.assert_same_workers(1);
    let (address, _) = ask(&server, "/?hidden");
    let line = server
        .log
        .wait_for_line_with("not rewound: 1 pages differ from the image");
    assert!(line.contains(&format!("{address} in ")), "no {address} in {line}");
    // Another worker answers.
    assert_eq!(ask(&server, "/?hidden").1, "a");

    let server = start("pool.web.paranoid=false");
    let bytes = [ask(&server, "/?hidden").1, ask(&server, "/?hidden").1];
    assert_eq!(bytes, ["a", "b"], "nothing was hidden");
    server.assert_same_workers(1);
}

#[test]
fn memory_that_a_fork_wipes_is_wiped_for_each_request() {
    for way in [
        "pool.web.isolation_method=rewind",
        "pool.web.isolation_method=fork",
    ] {
        let settings = [
            "pool.web.script=wiped.php",
            "pool.web.warmup=none",
            "pool.web.workers=1",
            "pool.web.paranoid=true",
            "pool.web.ini.ffi.enable=1",
            way,
        ];
        let server = start(&settings);
        for _ in 0..5 {
            assert_eq!(server.get("/").text(), "0", "{way}");
        }
        server.assert_same_workers(1);
    }
}

/// The application, its server run under a filter that refuses `what`; see `isolation/deny.php`.
fn denied(app: App, what: &str) -> App {
    let script = dir().join("deny.php");
    app.run_by(&["php".as_ref(), script.as_os_str(), what.as_ref()])
}

#[test]
fn under_the_usual_profile_of_containers_and_on_older_kernels_requests_are_rewound() {
    for what in ["docker", "docker,scan,new"] {
        let app = denied(App::at(&dir()), what);
        let server = start_app(&app, &["pool.web.workers=2", "pool.web.paranoid=true"]);
        let (method, reason) = method(&server);
        assert_eq!(method, "rewind", "{what}: {reason}");
        for _ in 0..70 {
            assert_eq!(server.get("/count").text(), "1 1 1 1");
        }
        assert_paranoid_found_nothing(&server);
    }
}

#[test]
fn a_container_without_any_setting_serves_symfony_isolated_by_rewind() {
    let server = Server::start(&denied(App::bundled("symfony"), "docker"), &[]);
    assert_eq!(method(&server).0, "rewind");
    for path in ["/api/hello", "/", "/exit", "/api/hello"] {
        assert!(server.get(path).status < 500, "{path}");
    }
    assert_eq!(server.status()["pools"][0]["totals"]["died"], 0);
}

#[test]
fn memory_for_code_that_cannot_come_from_the_image_is_put_back_as_well() {
    let settings = ["pool.web.workers=2", "pool.web.paranoid=true"];
    let server = Server::start(&denied(App::bundled("symfony"), "code"), &settings);
    assert_eq!(method(&server).0, "rewind");
    for path in ["/api/hello", "/", "/login", "/api/hello", "/"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert_paranoid_found_nothing(&server);
}

#[test]
fn where_memory_cannot_come_from_the_image_requests_are_forked_and_the_log_says_why() {
    let app = denied(App::at(&dir()), "mapping");
    let server = start_app(&app, &["pool.web.workers=1"]);
    let (method, reason) = method(&server);
    assert_eq!(method, "fork");
    assert!(
        reason.starts_with("no rewind: taking the image: ") && reason.contains("mode = \"classic\""),
        "{reason}"
    );
    assert_eq!(server.get("/count").text(), "1 1 1 1");
    assert_eq!(server.get("/count").text(), "1 1 1 1");
    drop(server);
    let settings = [
        "pool.web.mode=resident",
        "pool.web.script=worker.php",
        "pool.web.isolation_method=rewind",
    ];
    let failed = Server::fail(&app, &settings);
    assert_eq!(failed.status.code(), Some(1));
    failed
        .log
        .wait_for_line_with("isolation_method = \"rewind\" does not work here");
}

#[test]
fn a_worker_script_may_open_output_buffers_between_two_requests() {
    let loop_with_buffers = "<?php\n\
        while (hearth_handle_request(function () { echo 'level ', ob_get_level(); })) {\n\
            fastcgi_finish_request();\n\
            ob_start(fn (string $text): string => strtoupper($text));\n\
            echo 'after';\n\
            ob_start();\n\
            echo ' it';\n\
        }";
    let folder = Folder::with(
        "between",
        &[("worker.php", loop_with_buffers), ("public/a.css", "")],
    );
    let ways: [&[&str]; 3] = [
        &["pool.web.isolation=none"],
        &["pool.web.isolation=request"],
        &["pool.web.isolation=request", "pool.web.isolation_method=fork"],
    ];
    for way in ways {
        let mut settings = vec![
            "pool.web.mode=resident",
            "pool.web.script=worker.php",
            "pool.web.workers=1",
            "pool.web.ini.output_buffering=4096",
        ];
        settings.extend(way);
        let server = Server::start(&folder.app(), &settings);
        for _ in 0..5 {
            assert_eq!(server.get("/x").text(), "level 1", "{way:?}");
        }
        assert_eq!(server.log.count("worker died"), 0, "{way:?}");
    }
}
