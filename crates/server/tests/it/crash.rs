//! Processes die: only what ran in them may fail, everything is replaced, the log says why.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::harness::{App, Server, in_each_mode, kill};

/// Waits until a request waits at the gate, and kills the worker that runs it.
fn kill_the_worker_at_the_gate(server: &Server) -> serde_json::Value {
    let waiting = server.log.wait("php", |event| event["text"] == "at the gate");
    kill(server.worker_pid(&waiting["worker"]), Signal::KILL);
    waiting
}

#[test]
fn a_worker_killed_in_a_post_gives_502_and_is_replaced() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        let mut client = server.connect();
        let target = format!("/gate?open={}", server.file("never").display());
        client.send("POST", &target, b"x=1").unwrap();
        let waiting = kill_the_worker_at_the_gate(server);
        assert_eq!(client.read().unwrap().status, 502);
        let died = server.log.wait("worker died", |_| true);
        assert_eq!(died["why"], "signal 9 (SIGKILL)");
        assert_eq!(
            (&died["worker"], &died["request"]),
            (&waiting["worker"], &waiting["request"])
        );
        server.log.wait("worker ready", |event| event["incarnation"] == 2);
        assert_eq!(server.get("/after").text(), "hello from /after");
    });
}

#[test]
fn a_worker_that_ends_inside_an_extension_is_replaced_and_the_log_says_how() {
    let settings = ["pool.web.workers=2", "pool.web.ini.ffi.enable=1"];
    in_each_mode(&settings, |server| {
        for (target, why) in [("/segfault", "signal 11 (SIGSEGV)"), ("/quit", "exit status 3")] {
            let before = server.log.count("worker died");
            assert_eq!(server.post(target, b"").status, 502, "{target}");
            server.log.wait_for_count("worker died", before + 1);
            let died = server.log.last("worker died", |_| true).unwrap();
            assert_eq!(died["why"], why);
            assert_eq!(server.get("/after").text(), "hello from /after");
            // Others have it try again, to no avail.
            assert_eq!(server.get(target).status, 502, "{target}");
            server.log.wait_for_count("worker died", before + 4);
            assert_eq!(server.get("/after").text(), "hello from /after");
        }
    });
}

fn post_with_a_key(target: &str) -> Vec<u8> {
    format!("POST {target} HTTP/1.1\r\nHost: x\r\nIdempotency-Key: \"a\"\r\nContent-Length: 3\r\n\r\nx=1")
        .into_bytes()
}

#[test]
fn a_post_with_an_idempotency_key_that_kills_its_worker_runs_once_unless_the_pool_believes_the_key() {
    for (setting, runs) in [
        ("pool.web.idempotency_key=false", 1),
        ("pool.web.idempotency_key=true", 3),
    ] {
        let set = [setting, "pool.web.workers=1"];
        // The first of them is the default.
        let settings = if runs == 1 { &set[1..] } else { &set };
        in_each_mode(settings, |server| {
            let mut client = server.connect();
            client.raw(&post_with_a_key("/kill?who=payer")).unwrap();
            assert_eq!(client.read().unwrap().status, 502, "{setting}");
            let lost = server.log.wait("request lost with its worker", |_| true);
            assert_eq!(lost["runs"], runs, "{setting}");
            server.log.wait_for_count("worker died", runs);
            assert_eq!(server.get("/after").text(), "hello from /after");
            assert_eq!(server.log.count("worker died"), runs, "{setting}");
        });
    }
}

#[test]
fn a_request_with_an_idempotency_key_runs_again() {
    let settings = ["pool.web.workers=1", "pool.web.idempotency_key=true"];
    in_each_mode(&settings, |server| {
        let mut client = server.connect();
        let gate = server.file("keyed");
        let target = format!("/gate?open={}", gate.display());
        client.raw(&post_with_a_key(&target)).unwrap();
        kill_the_worker_at_the_gate(server);
        fs::write(gate, "").unwrap();
        assert_eq!(client.read().unwrap().text(), "through the gate");
    });
}

#[test]
fn a_request_that_kills_each_worker_is_stopped_and_named() {
    in_each_mode(&["pool.web.workers=2"], |server| {
        assert_eq!(server.get("/kill?who=everybody").status, 502);
        let lost = server.log.wait("request lost with its worker", |_| true);
        assert_eq!(
            (&lost["method"], &lost["uri"]),
            (&"GET".into(), &"/kill?who=everybody".into())
        );
        assert_eq!(lost["runs"], 3);
        server.log.wait_for_count("worker died", 3);
        assert_eq!(server.get("/after").text(), "hello from /after");
    });
}

#[test]
fn a_worker_that_is_stopped_at_work_holds_up_no_request_but_its_own() {
    let settings = [
        "pool.web.workers=2",
        "pool.web.request_timeout=\"300 ms\"",
        "pool.web.request_grace=\"100 ms\"",
    ];
    in_each_mode(&settings, |server| {
        server.log.wait_for_count("worker ready", 2);
        let (mut client, waiting) = server.at_the_gate(&server.file("never"));
        let at_work = server.worker_pid(&waiting["worker"]);
        kill(at_work, Signal::STOP);
        for _ in 0..10 {
            assert_eq!(server.get("/beside").status, 200);
        }
        assert_eq!(client.read().unwrap().status, 504);
        server.log.wait("worker ready", |event| event["incarnation"] == 2);
    });
}

#[test]
fn workers_that_are_stopped_while_they_wait_hold_up_nobody() {
    let settings = ["pool.web.workers=3", "pool.web.queue_timeout=\"5 s\""];
    in_each_mode(&settings, |server| {
        server.log.wait_for_count("worker ready", 3);
        // One after the other: the first is asleep by then, as a rule, and the next to be woken.
        let stopped = [0, 1].map(|number: u16| server.worker_pid(&number.into()));
        for pid in stopped {
            assert_eq!(server.get("/before").status, 200);
            kill(pid, Signal::STOP);
            for _ in 0..10 {
                assert_eq!(server.post("/beside", b"").status, 200);
            }
        }
        for pid in stopped {
            kill(pid, Signal::CONT);
        }
        // One that has only just been forked.
        for incarnation in 2..5 {
            kill(server.worker_pid(&0.into()), Signal::KILL);
            let ready = server.log.wait("worker ready", |event| {
                event["worker"] == 0 && event["incarnation"] == incarnation
            });
            let pid = i32::try_from(ready["pid"].as_i64().unwrap()).unwrap();
            kill(pid, Signal::STOP);
            for _ in 0..10 {
                assert_eq!(server.post("/beside", b"").status, 200);
            }
            kill(pid, Signal::CONT);
        }
        assert_eq!(server.log.count("worker killed"), 0);
    });
}

/// A control group of limited memory below that of the tests. Dropping it removes it.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// `None`: none can be made here.
    fn of(bytes: u64) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        groups.lines().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let (top, limit) = if number == "0" {
                ("/sys/fs/cgroup", "memory.max")
            } else if controllers.split(',').any(|name| name == "memory") {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            } else {
                return None;
            };
            let name = format!("hearth-it-{}", std::process::id());
            let folder = Path::new(top).join(path.trim_start_matches('/')).join(name);
            fs::create_dir(&folder).ok()?;
            let group = Self(folder);
            fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let removed = fs::remove_dir(&self.0);
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

#[test]
fn a_worker_that_the_kernel_kills_for_lack_of_memory_is_replaced_and_named_so() {
    let Some(group) = MemoryGroup::of(512 << 20) else {
        eprintln!("not run: no control group with a limit of memory can be made here");
        return;
    };
    let cgroup = format!("pool.web.cgroup={}", group.0.display());
    let settings = ["pool.web.workers=2", "pool.web.ini.memory_limit=-1", &cgroup];
    in_each_mode(&settings, |server| {
        server.log.wait_for_count("worker ready", 2);
        let (mut beside, waiting) = server.at_the_gate(&server.file("open"));
        assert_eq!(server.post("/keep?mib=4096", b"").status, 502);
        let died = server.log.wait("worker died", |_| true);
        assert_eq!(
            died["why"],
            "signal 9 (SIGKILL); out of memory: the kernel has killed a process of its cgroup"
        );
        assert_ne!(died["worker"], waiting["worker"]);
        // Whoever is killed otherwise is not taken for such a one.
        server.log.wait("worker ready", |event| event["incarnation"] == 2);
        kill(server.worker_pid(&died["worker"]), Signal::KILL);
        server
            .log
            .wait("worker died", |event| event["why"] == "signal 9 (SIGKILL)");
        fs::write(server.file("open"), "").unwrap();
        assert_eq!(beside.read().unwrap().text(), "through the gate");
        assert_eq!(server.get("/after").text(), "hello from /after");
    });
}

#[test]
fn more_clients_than_descriptors_wait_and_workers_are_replaced_meanwhile() {
    let app = App::of_tests().run_by(&["prlimit", "--nofile=160:160"].map(OsStr::new));
    let server = Server::start(
        &app,
        &[
            "pool.web.mode=resident",
            "pool.web.script=worker.php",
            "pool.web.workers=2",
        ],
    );
    server.log.wait(
        "fewer connections than limits.connections: raise the limit of open files (ulimit -n)",
        |_| true,
    );
    server.log.wait_for_count("worker ready", 2);
    let mut clients: Vec<_> = (0..200).map(|_| server.connect()).collect();
    assert_eq!(clients[0].request("GET", "/first", b"").unwrap().status, 200);
    kill(server.worker_pid(&0.into()), Signal::KILL);
    server.log.wait("worker ready", |event| event["incarnation"] == 2);
    assert_eq!(clients[0].request("GET", "/again", b"").unwrap().status, 200);
    // Whoever leaves makes room for the next, to the last one.
    for mut client in clients {
        assert_eq!(client.request("GET", "/turn", b"").unwrap().status, 200);
    }
}

#[test]
fn a_worker_killed_in_a_get_is_unnoticed_by_the_client() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        let mut client = server.connect();
        client
            .send(
                "GET",
                &format!("/once?mark={}", server.file("mark").display()),
                b"",
            )
            .unwrap();
        kill_the_worker_at_the_gate(server);
        let answer = client.read().unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "second try"));
    });
}

#[test]
fn workers_go_on_without_their_zygote_and_another_is_started() {
    in_each_mode(&["pool.web.workers=2"], |server| {
        let zygote = server
            .log
            .wait("zygote started", |event| event["generation"] == 1);
        let (mut client, waiting) = server.at_the_gate(&server.file("open"));
        kill(
            i32::try_from(zygote["pid"].as_i64().unwrap()).unwrap(),
            Signal::KILL,
        );
        server.log.wait("zygote ready", |event| event["generation"] == 2);
        std::fs::write(server.file("open"), "").unwrap();
        assert_eq!(client.read().unwrap().text(), "through the gate");
        // A worker of the dead zygote is our own child now; how it ends is still known.
        kill(server.worker_pid(&waiting["worker"]), Signal::ABORT);
        let died = server
            .log
            .wait("worker died", |event| event["worker"] == waiting["worker"]);
        assert!(
            died["why"].as_str().unwrap().starts_with("signal 6 (SIGABRT)"),
            "{died}"
        );
        server.log.wait("worker ready", |event| event["incarnation"] == 2);
        assert_eq!(server.get("/after").status, 200);
    });
}

#[test]
fn a_process_that_php_left_behind_is_reaped() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        let pid: i64 = server.get("/orphan").text().trim().parse().unwrap();
        server
            .log
            .wait("orphaned process reaped", |event| event["pid"] == pid);
    });
}

#[test]
fn more_workers_may_die_than_there_are_slots() {
    // 64 slots, the fewest possible.
    in_each_mode(&["pool.web.workers=1", "reactors=1"], |server| {
        for _ in 0..70 {
            assert_eq!(server.post("/kill", b"").status, 502);
            // A worker that has finished a request is replaced without delay.
            assert_eq!(server.get("/after").status, 200);
        }
    });
}
