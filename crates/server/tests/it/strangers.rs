//! A script of the pool's user against the processes that serve it: their memory, their sockets, their lives. Each test acts as a
//! hostile script would; afterwards the server serves, nothing outside has changed, and the log names what happened.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Folder, MODES, Server, is_root, kill};

/// Number of a user without an entry, to whom nothing belongs.
const STRANGER: u32 = 54_331;

const ATTACK: &str = r#"<?php
function attack(): void
{
    $pid = (int) ($_GET['pid'] ?? 0);
    file_get_contents('/proc/self/stat');
    echo json_encode(match ($_GET['do'] ?? '') {
        'look' => look(explode(',', $_GET['pids'])),
        'self' => [getmypid(), (int) explode(' ', file_get_contents('/proc/self/stat'))[0]],
        'steal' => shell_exec('/usr/bin/python3 -B ' . __DIR__ . "/steal.py $pid"),
        'signal' => posix_kill($pid, (int) $_GET['signal']),
        'limit' => shell_exec("/usr/bin/prlimit --pid=$pid --{$_GET['limit']}=0:0 2>&1"),
        'fall' => fall($pid, (int) $_GET['signal']),
        default => 'nothing',
    });
}

/// What can be opened of processes.
function look(array $pids): array
{
    $opened = [];
    foreach ($pids as $pid) {
        foreach (['mem' => 'r', 'mem ' => 'r+', 'pagemap' => 'r', 'environ' => 'r', 'maps' => 'r', 'smaps' => 'r'] as $file => $how) {
            $path = "/proc/$pid/" . trim($file);
            // What a process may always see of itself, and what shows nobody anything.
            if (in_array($pid, ['self', getmypid()]) && in_array($file, ['maps', 'smaps'])) {
                continue;
            }
            $handle = @fopen($path, $how);
            if ($handle && (trim($file) === 'mem' || @fread($handle, 1) !== false)) {
                $opened[] = "$path $how";
            }
        }
        if ($pid !== 'self' && $pid != getmypid() && @scandir("/proc/$pid/fd")) {
            $opened[] = "/proc/$pid/fd";
        }
    }
    return $opened;
}

/// Takes the zygote along.
function fall(int $zygote, int $signal): void
{
    file_put_contents($_GET['mark'], 'x', FILE_APPEND);
    posix_kill($zygote, $signal);
    posix_kill(getmypid(), SIGKILL);
    sleep(60);
}
"#;

/// Takes a descriptor of each number from another process; prints how many it got.
const STEAL: &str = r"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
process = os.pidfd_open(int(sys.argv[1]))
print(sum(libc.syscall(438, process, number, 0) >= 0 for number in range(64)))
";

fn project() -> Folder {
    let project = Folder::with_function("attack", ATTACK);
    project.write("steal.py", STEAL);
    fs::create_dir(project.file("var")).unwrap();
    fs::set_permissions(project.file("var"), fs::Permissions::from_mode(0o1777)).unwrap();
    project
}

/// A server of root with a pool of another user, and one that is that user itself; in each mode.
fn under_each_server(settings: &[&str], test: impl Fn(&Server)) {
    if !is_root() {
        eprintln!("not run: only root can become another user");
        return;
    }
    let project = project();
    let own = project.app().run_as(STRANGER, "");
    for (app, more) in [
        (project.app(), &["pool.web.user=www-data"][..]),
        (own, &["admin_socket=off"]),
    ] {
        for mode in MODES {
            let all = [mode, &["pool.web.workers=2", "log.level=debug"], more, settings].concat();
            test(&Server::start(&app, &all));
        }
    }
}

fn asked(server: &Server, target: &str) -> Value {
    let answer = server.get(target);
    serde_json::from_str(&answer.text()).unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

/// Process id of the latest zygote.
fn zygote(server: &Server) -> i32 {
    let started = server.log.last("zygote started", |_| true).unwrap();
    i32::try_from(started["pid"].as_i64().unwrap()).unwrap()
}

fn all_processes(server: &Server) -> Vec<i32> {
    server.log.wait_for_count("worker ready", 2);
    let workers = [0, 1].map(|number| server.worker_pid(&number.into()));
    [server.pid(), zygote(server)]
        .into_iter()
        .chain(workers)
        .collect()
}

#[test]
fn no_script_opens_the_memory_of_a_process_of_the_server() {
    under_each_server(&[], |server| {
        let pids: Vec<String> = all_processes(server).iter().map(i32::to_string).collect();
        for _ in 0..4 {
            let opened = asked(server, &format!("/?do=look&pids=self,{}", pids.join(",")));
            assert_eq!(opened, json!([]));
        }
    });
}

#[test]
fn what_a_process_sees_of_itself_is_its_own() {
    under_each_server(&[], |server| {
        for _ in 0..3 {
            let both = asked(server, "/?do=self");
            assert_eq!(both[0], both[1]);
        }
    });
}

#[test]
fn a_debugger_may_look_where_the_settings_say_so() {
    under_each_server(&["pool.web.dumpable=true"], |server| {
        let pids: Vec<String> = all_processes(server).iter().map(i32::to_string).collect();
        let opened = asked(server, &format!("/?do=look&pids={}", pids[1..].join(",")));
        assert!(opened.as_array().unwrap().len() >= 3 * 4, "{opened}");
        // The server never.
        assert_eq!(asked(server, &format!("/?do=look&pids={}", pids[0])), json!([]));
    });
}

#[test]
fn no_process_that_a_script_starts_takes_a_descriptor_of_another() {
    under_each_server(&[], |server| {
        for pid in all_processes(server) {
            assert_eq!(asked(server, &format!("/?do=steal&pid={pid}")), "0\n");
        }
    });
}

#[test]
fn a_fresh_worker_is_shielded_while_it_opens_what_it_needs() {
    if !is_root() {
        return;
    }
    let project = project();
    for mode in MODES {
        let all = [mode, &["pool.web.workers=2", "pool.web.user=www-data"]].concat();
        let server = Server::start(&project.app(), &all);
        let permitted = |pid: i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        let [_, zygote, one, other] = all_processes(&server)[..] else {
            panic!("four processes")
        };
        // net_bind_service, wake_alarm and block_suspend.
        assert_eq!(permitted(zygote), 1 << 10 | 1 << 35 | 1 << 36);
        // Each serves, then has none.
        server.get("/");
        let until = Instant::now() + Duration::from_secs(20);
        while permitted(one) | permitted(other) != 0 {
            assert!(Instant::now() < until, "workers keep capabilities");
        }
    }
}

/// Boots a pool whose zygote is a script that answers orders with lies.
fn with_liar(lie: &str, victim: u32, test: impl Fn(&Server)) {
    let project = project();
    let liar = project.write(
        "liar",
        &LIAR.replace("LIE", lie).replace("VICTIM", &victim.to_string()),
    );
    fs::set_permissions(&liar, fs::Permissions::from_mode(0o755)).unwrap();
    let binary = format!("pool.web.worker_binary={}", liar.display());
    let settings = [MODES[0], &["pool.web.workers=1", &binary]].concat();
    let mut server = Server::launch(&project.app(), &settings);
    test(&server);
    server.signal(Signal::TERM);
    server.wait_for_end();
}

/// A zygote in Python: boots nothing, says so, and answers the first order to fork with a lie.
const LIAR: &str = r#"#!/usr/bin/python3 -B
import array, json, os, socket, subprocess, time
zygote = socket.socket(fileno=0)
INI = {"scanned": [], "display_errors": False, "log_errors": True, "post_max_size": 0}

def say(to, message, fds=()):
    socket.send_fds(to, [json.dumps(message).encode()], list(fds))

def order():
    message, fds, _, _ = socket.recv_fds(zygote, 1 << 17, 80)
    return json.loads(message), fds

order()
say(zygote, {"ready": {"php_version": "8.2.0", "boot_ms": 1, "undoing": None, "ini": INI}})
message, fds = order()
worker = socket.socket(fileno=fds[2])
fork = message["fork"]
exited = {"exited": {**fork, "code": 0, "signal": None}}
LIE
time.sleep(60)
"#;

/// A lie, what the log says then, and why. `VICTIM` is a process of the test.
const LIES: [(&str, &str, &str); 12] = [
    (
        "say(worker, 'ready', [os.pidfd_open(VICTIM)])",
        "worker given up: it is not what it was said to be",
        "said that process VICTIM is the worker",
    ),
    (
        "say(worker, 'ready', [os.pidfd_open(os.getpid())])",
        "worker given up: it is not what it was said to be",
        "the zygote said that it is the worker",
    ),
    (
        "p = subprocess.Popen(['/usr/bin/python3', '-c', 'import os, socket; os.setgid(33); os.setuid(33); \
             socket.send_fds(socket.socket(fileno=0), [bytes([34]) + b\"ready\" + bytes([34])], [os.pidfd_open(os.getpid())])'], stdin=worker)",
        "worker given up: it is not what it was said to be",
        "of user 33 and group 33, said that it is the worker",
    ),
    (
        "say(worker, 'ready', [0])",
        "worker given up: it is not what it was said to be",
        "something else than its pidfd",
    ),
    (
        "say(worker, 'ready')",
        "worker given up: it is not what it was said to be",
        "no pidfd",
    ),
    (
        "say(worker, 'reload_wanted', [os.pidfd_open(VICTIM)])",
        "worker given up: it is not what it was said to be",
        "began with another message",
    ),
    (
        "for _ in range(100000): say(zygote, exited)",
        "zygote killed",
        "the end of a worker that it has not forked",
    ),
    (
        "for _ in range(100000): say(zygote, {'forked': fork})",
        "zygote killed",
        "a fork that nobody asked for",
    ),
    (
        "say(zygote, {'ready': {'php_version': '8.2.0', 'boot_ms': 1, 'undoing': None, 'ini': INI}})",
        "zygote killed",
        "it has booted before",
    ),
    (
        "say(zygote, exited, [os.pidfd_open(VICTIM)] * 200)",
        "zygote killed",
        "200 descriptors with a message that has none",
    ),
    (
        "say(zygote, {'born': {**fork, 'pid': VICTIM}}, [os.pidfd_open(VICTIM)])",
        "zygote killed",
        "unknown variant",
    ),
    ("os.fork() or say(zygote, exited)", "zygote killed", "has sent it"),
];

#[test]
fn a_zygote_that_lies_is_replaced_and_the_process_that_it_names_lives() {
    for (lie, message, why) in LIES {
        let mut victim = Command::new("sleep").arg("60").spawn().unwrap();
        let why = why.replace("VICTIM", &victim.id().to_string());
        with_liar(lie, victim.id(), |server| {
            server.log.wait(message, |event| {
                let said = event["reason"].as_str().or(event["error"].as_str());
                said.unwrap().contains(&why)
            });
            server.log.wait_for_count("zygote started", 2);
        });
        assert_eq!(victim.try_wait().unwrap(), None, "{lie}");
        victim.kill().unwrap();
        victim.wait().unwrap();
    }
}

#[test]
fn a_descriptor_that_takes_its_time_to_be_closed_holds_up_nobody() {
    // Twenty seconds for bytes that nobody will read.
    let lie = "l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen()
c = socket.create_connection(l.getsockname()); peer = l.accept()
c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 20, 0, 0, 0]))
c.setblocking(False)
try:
    while True: c.send(b'x' * 65536)
except BlockingIOError: pass
say(worker, 'ready', [c.fileno()]); c.close()";
    let begun = Instant::now();
    with_liar(lie, 1, |server| server.log.wait_for_count("zygote started", 2));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[test]
fn a_zygote_that_a_script_stops_is_replaced_within_two_seconds() {
    under_each_server(&[], |server| {
        server.log.wait_for_count("worker ready", 2);
        let begun = Instant::now();
        let stop = Signal::STOP.as_raw();
        asked(
            server,
            &format!("/?do=signal&signal={stop}&pid={}", zygote(server)),
        );
        server.log.wait("zygote killed", |event| {
            event["reason"] == "it was stopped by a signal"
        });
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        server.log.wait("zygote ready", |event| event["generation"] == 2);
        assert_eq!(server.get("/").status, 200);
    });
}

#[test]
fn a_zygote_whose_limits_a_script_lowers_is_replaced() {
    for (limit, named) in [
        ("nproc", "Max processes (hard)"),
        ("fsize", "Max file size (hard)"),
    ] {
        under_each_server(&[], |server| {
            let pids = all_processes(server);
            assert_eq!(
                asked(server, &format!("/?do=limit&limit={limit}&pid={}", pids[1])),
                Value::Null
            );
            for pid in &pids[2..] {
                kill(*pid, Signal::KILL);
            }
            server.log.wait("zygote killed", |event| {
                let reason = event["reason"].as_str().unwrap();
                reason.starts_with("its limits were lowered") && reason.contains(named)
            });
            server.log.wait("zygote ready", |event| event["generation"] == 2);
            server.log.wait("worker ready", |event| event["generation"] == 2);
            assert_eq!(server.get("/").status, 200);
        });
    }
}

#[test]
fn a_request_that_takes_the_zygote_along_is_not_run_again() {
    for signal in [Signal::STOP, Signal::KILL] {
        under_each_server(&[], |server| {
            server.log.wait_for_count("worker ready", 2);
            let mark = server.file("mark");
            let folder = mark.parent().unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
            let (mark, signal, pid) = (mark.display(), signal.as_raw(), zygote(server));
            let answer = server.get(&format!("/?do=fall&signal={signal}&pid={pid}&mark={mark}"));
            assert_eq!(answer.status, 502);
            assert_eq!(fs::read_to_string(mark.to_string()).unwrap(), "x");
            server.log.wait("request lost with its worker", |event| {
                event["why"]
                    .as_str()
                    .unwrap()
                    .contains("its zygote ended or was stopped with it")
            });
            server.log.wait("zygote ready", |event| event["generation"] == 2);
            assert_eq!(server.get("/").status, 200);
        });
    }
}

#[test]
fn workers_that_scripts_kill_are_replaced() {
    under_each_server(&[], |server| {
        server.log.wait_for_count("worker ready", 2);
        for round in 0..4 {
            let victim = server.worker_pid(&(round % 2).into());
            // Perhaps itself, over and over: a crash, that is run again twice.
            server.get(&format!("/?do=signal&signal=9&pid={victim}"));
            server.log.wait("worker died", |event| event["pid"] == victim);
            assert_eq!(server.get("/").status, 200);
        }
        assert_eq!(server.log.count("zygote started"), 1);
    });
}

/// The mapping of the image's copy in a process: its first address, its rights, and the file behind it.
fn copy_of_image(pid: i32) -> (u64, String, String) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    // The chunks are mapped from the same file, to be written.
    let line = maps
        .lines()
        .find(|line| line.contains("hearth-image") && line.contains(" r--"))
        .unwrap_or_else(|| panic!("no copy that is read-only:\n{maps}"));
    let mut words = line.split_whitespace();
    let (range, rights) = (words.next().unwrap(), words.next().unwrap());
    let start = u64::from_str_radix(range.split('-').next().unwrap(), 16).unwrap();
    (start, rights.to_owned(), range.to_owned())
}

#[test]
fn the_image_is_sealed_and_not_written_while_requests_run() {
    if !is_root() {
        return;
    }
    let project = project();
    let settings = [MODES[1], &["pool.web.workers=1", "pool.web.user=www-data"]].concat();
    let server = Server::start(&project.app(), &settings);
    server.get("/");
    server.log.wait_for_count("worker ready", 1);
    for pid in [zygote(&server), server.worker_pid(&0.into())] {
        let (_, rights, range) = copy_of_image(pid);
        assert_eq!(rights, "r--p");
        let file = fs::File::open(format!("/proc/{pid}/map_files/{range}")).unwrap();
        let seals = rustix::fs::fcntl_get_seals(&file).unwrap();
        assert!(
            seals.contains(rustix::fs::SealFlags::WRITE | rustix::fs::SealFlags::SEAL),
            "{seals:?}"
        );
    }
}

#[test]
fn an_image_that_was_changed_in_a_worker_is_seen_by_paranoid() {
    if !is_root() {
        return;
    }
    let project = project();
    let settings = [MODES[1], &["pool.web.workers=1", "pool.web.paranoid=true"]].concat();
    let server = Server::start(&project.app(), &settings);
    server.get("/");
    server.log.wait_for_count("worker ready", 1);
    let pid = server.worker_pid(&0.into());
    let (start, _, _) = copy_of_image(pid);
    // As root: nobody else can.
    let memory = fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/mem"))
        .unwrap();
    memory.write_all_at(b"poison", start + 64).unwrap();
    server.get("/");
    server
        .log
        .wait_for_line_with("of the image itself were changed in this worker");
    server.log.wait_for_count("worker ready", 2);
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn a_server_without_privileges_measures_its_workers() {
    if !is_root() {
        return;
    }
    let project = project();
    let app = project.app().run_as(STRANGER, "");
    let run = Folder::new("strangers-run");
    fs::set_permissions(run.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let socket = format!("admin_socket={}", run.file("admin.sock").display());
    for mode in MODES {
        let settings = [
            mode,
            &["pool.web.workers=2", "pool.web.max_memory=1 GiB", &socket],
        ]
        .concat();
        let server = Server::start(&app, &settings);
        server.log.wait("memory measured", |event| event["workers"] == 2);
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
        command
            .args(["status", "--json", "--socket"])
            .arg(run.file("admin.sock"));
        let output = command.arg(run.path()).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        for worker in status["pools"][0]["workers"].as_array().unwrap() {
            assert!(worker["memory"]["private_bytes"].as_u64() > Some(0), "{worker}");
        }
    }
}

/// The signal of a person, not of a script.
#[test]
fn a_zygote_stopped_by_root_is_replaced_too() {
    let project = project();
    let settings = [MODES[0], &["pool.web.workers=1"]].concat();
    let server = Server::start(&project.app(), &settings);
    kill(zygote(&server), Signal::STOP);
    server.log.wait("zygote ready", |event| event["generation"] == 2);
    assert_eq!(server.get("/").status, 200);
}
