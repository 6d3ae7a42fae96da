//! What a pool's settings make of its processes, as PHP sees it: user, limits, environment, settings that stay.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::{Value, json};

use crate::harness::{Folder, Server, is_root, kill};

/// Number of a user without an entry, to whom nothing belongs.
const STRANGER: u32 = 54_321;

/// A folder that every user may read, with a script that tells what it is.
struct Project(Folder);

impl Project {
    fn new() -> Self {
        let project = Self(Folder::new("own"));
        project.0.write("tell.php", TELL);
        project
            .0
            .write("index.php", "<?php require_once __DIR__ . '/tell.php'; tell();");
        let worker = "<?php require_once __DIR__ . '/tell.php'; while (hearth_handle_request(tell(...))) {}";
        project.0.write("worker.php", worker);
        fs::create_dir(project.0.file("sub")).unwrap();
        project
    }

    fn in_each_mode(&self, settings: &[&str], test: impl Fn(&Server)) {
        let modes: [&[&str]; 3] = [
            &["pool.web.mode=classic", "pool.web.script=index.php"],
            &["pool.web.mode=resident", "pool.web.script=worker.php"],
            &[
                "pool.web.mode=resident",
                "pool.web.script=worker.php",
                "pool.web.isolation=none",
            ],
        ];
        for mode in modes {
            let all: Vec<&str> = mode.iter().chain(settings).copied().collect();
            test(&Server::start(
                &self.0.app().with_env("FROM_OUTSIDE", "yes"),
                &all,
            ));
        }
    }

    /// Starts a server that must not get ready; what it says.
    fn refused(&self, settings: &[&str]) -> String {
        let all = [&["pool.web.script=index.php", "pool.web.mode=classic"], settings].concat();
        let failed = Server::fail(&self.0.app(), &all);
        assert_eq!(failed.status.code(), Some(1));
        failed.log.wait_for_line("error: --set ")
    }
}

const TELL: &str = r"<?php
function tell(): void
{
    $set = [];
    foreach ((array) ($_GET['ini'] ?? []) as $name) {
        $set[$name] = [ini_get($name), @ini_set($name, '1'), ini_get($name)];
    }
    $upload = $_FILES['file']['tmp_name'] ?? null;
    echo json_encode([
        'uid' => posix_geteuid(),
        'gid' => posix_getegid(),
        'groups' => posix_getgroups(),
        'umask' => decoct(umask()),
        'cwd' => getcwd(),
        'limits' => posix_getrlimit(),
        'nice' => (int) explode(' ', file_get_contents('/proc/self/stat'))[18],
        'env' => getenv(),
        'server' => $_SERVER['FROM_POOL'] ?? null,
        'ini' => $set,
        'time' => set_time_limit(7),
        'body' => strlen(file_get_contents('php://input')),
        'upload' => $upload ? [filesize($upload), fileowner($upload)] : null,
    ]);
}
";

fn told(server: &Server, target: &str) -> Value {
    let answer = server.get(target);
    serde_json::from_str(&answer.text()).unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

#[test]
fn umask_limits_priority_and_folder_are_those_of_the_settings() {
    let settings = [
        "pool.web.umask=027",
        "pool.web.nice=7",
        "pool.web.chdir=sub",
        "pool.web.rlimits.nofile=333",
        "pool.web.rlimits.core=0",
        "pool.web.rlimits.cpu=10 min",
    ];
    let project = Project::new();
    project.in_each_mode(&settings, |server| {
        for _ in 0..3 {
            let told = told(server, "/?a=1");
            assert_eq!((&told["umask"], &told["nice"]), (&json!("27"), &json!(7)));
            let limits = &told["limits"];
            assert_eq!(
                (&limits["soft openfiles"], &limits["hard openfiles"]),
                (&json!(333), &json!(333))
            );
            assert_eq!(
                (&limits["soft core"], &limits["hard cpu"]),
                (&json!(0), &json!(600))
            );
            // A classic script is in its own folder, as under php-fpm.
            let is_resident = told["env"]["HEARTH_WORKER"] == "1";
            let folder = if is_resident { "sub" } else { "" };
            assert_eq!(
                told["cwd"],
                project.0.file(folder).to_str().unwrap().trim_end_matches('/')
            );
        }
    });
}

#[test]
fn the_environment_is_what_the_settings_make_of_it() {
    let project = Project::new();
    let set = [
        "pool.web.env.FROM_POOL=a b",
        "pool.web.env.COPY=$FROM_OUTSIDE",
        "pool.web.env.NONE=$NOT_THERE",
    ];
    project.in_each_mode(&set, |server| {
        let told = told(server, "/");
        let env = &told["env"];
        assert_eq!(
            (&env["FROM_POOL"], &told["server"]),
            (&json!("a b"), &json!("a b"))
        );
        assert_eq!(
            (&env["COPY"], &env["FROM_OUTSIDE"]),
            (&json!("yes"), &json!("yes"))
        );
        assert!(env["PATH"].is_string() && env["NONE"].is_null(), "{env}");
    });
    let cleared = [&set[..], &["pool.web.clear_env=true"]].concat();
    project.in_each_mode(&cleared, |server| {
        let told = told(server, "/");
        let env = &told["env"];
        for gone in ["FROM_OUTSIDE", "PATH", "RUST_LOG"] {
            assert!(env[gone].is_null(), "{gone} in {env}");
        }
        // As under php-fpm.
        assert!(env["USER"].is_string() && env["HOME"].is_string(), "{env}");
        assert_eq!(env["FROM_POOL"], "a b");
        assert_eq!(env["COPY"], "yes");
    });
}

#[test]
fn scripts_do_not_change_admin_settings() {
    let project = Project::new();
    project.0.write(".user.ini", "memory_limit = 99M\n");
    let settings = [
        "pool.web.admin_ini.memory_limit=77M",
        "pool.web.ini.memory_limit=66M",
        "pool.web.admin_ini.max_execution_time=55",
        "pool.web.ini.precision=9",
    ];
    project.in_each_mode(&settings, |server| {
        for _ in 0..2 {
            let told = told(server, "/?ini[]=memory_limit&ini[]=precision");
            let ini = &told["ini"];
            assert_eq!(ini["memory_limit"], json!(["77M", false, "77M"]));
            assert_eq!(ini["precision"][2], "1");
            assert_eq!(told["time"], false);
        }
    });
}

#[test]
fn php_runs_as_another_user_as_well_as_before() {
    if !is_root() {
        return;
    }
    let project = Project::new();
    let uploads = project.0.file("uploads");
    fs::create_dir(&uploads).unwrap();
    fs::set_permissions(&uploads, fs::Permissions::from_mode(0o1777)).unwrap();
    let folder = format!("pool.web.ini.upload_tmp_dir={}", uploads.display());
    let isolation = |server: &Server| server.log.wait("zygote ready", |_| true)["isolation"].clone();
    let (before, after) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    project.in_each_mode(&[], |server| before.borrow_mut().push(isolation(server)));
    let settings = [
        "pool.web.user=nobody",
        "limits.body_memory=1 KiB",
        "pool.web.workers=2",
        &folder,
    ];
    project.in_each_mode(&settings, |server| {
        after.borrow_mut().push(isolation(server));
        let told = told(server, "/");
        let uid = told["uid"].as_u64().unwrap();
        assert!(uid != 0 && told["gid"] != 0, "{told}");
        assert!(!told["groups"].as_array().unwrap().contains(&json!(0)), "{told}");
        assert_eq!(told["env"]["USER"], "nobody");
        // In a spool file that belongs to root.
        let answer = server.post("/", &vec![b'x'; 300_000]);
        let answer: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(answer["body"], 300_000);
        let mut client = server.connect();
        let body = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n12345\r\n--b--\r\n";
        let head = format!(
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        client.raw(format!("{head}{body}").as_bytes()).unwrap();
        let answer: Value = serde_json::from_str(&client.read().unwrap().text()).unwrap();
        assert_eq!(answer["upload"], json!([5, uid]));
        let status = server.status();
        let workers = status["pools"][0]["workers"].as_array().unwrap();
        assert!(workers.iter().all(|worker| worker["memory"]["private_bytes"].as_u64() > Some(0)), "{status}");
        assert_eq!(server.log.count("worker died"), 0);
    });
    // What is undone, and how, does not depend on the user.
    assert_eq!(after, before);
}

#[test]
fn a_zygote_of_another_user_ends_with_the_server() {
    if !is_root() {
        return;
    }
    let project = Project::new();
    let settings = ["pool.web.mode=classic", "pool.web.user=nobody"];
    let mut server = Server::start(&project.0.app(), &settings);
    let event = server.log.wait("zygote started", |_| true);
    let zygote = i32::try_from(event["pid"].as_i64().unwrap()).unwrap();
    // So it cannot see that nobody talks to it any more: only the kernel ends it.
    kill(zygote, Signal::STOP);
    let pidfd = pidfd_open(Pid::from_raw(zygote).unwrap(), PidfdFlags::empty()).unwrap();
    server.signal(Signal::KILL);
    server.wait_for_end();
    let patience = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
    assert_eq!(poll(&mut ended, Some(&patience)).unwrap(), 1);
}

#[test]
fn a_user_may_be_a_number_and_groups_are_left_behind() {
    if !is_root() {
        return;
    }
    let project = Project::new();
    let (user, group) = (
        format!("pool.web.user={STRANGER}"),
        format!("pool.web.group={}", STRANGER + 1),
    );
    project.in_each_mode(&[&user, &group], |server| {
        let told = told(server, "/");
        assert_eq!(
            (&told["uid"], &told["gid"]),
            (&json!(STRANGER), &json!(STRANGER + 1))
        );
        assert_eq!(told["groups"], json!([STRANGER + 1]));
    });
    let said = project.refused(&[&user]);
    let expected = format!("pool.web.user = \"{STRANGER}\": nobody has this number, so `group` must be set");
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_served() {
    let project = Project::new();
    for (set, expected) in [
        (
            "pool.web.user=nobody-at-all",
            "pool.web.user = \"nobody-at-all\": there is no such user",
        ),
        (
            "pool.web.group=nobody-at-all",
            "pool.web.group = \"nobody-at-all\": there is no such group",
        ),
        (
            "pool.web.cgroup=/sys/fs/cgroup/hearth-has-none",
            "writing cgroup.procs: No such file or directory",
        ),
    ] {
        let said = project.refused(&[set]);
        assert!(said.contains(expected), "{said}");
    }
    // A server that is not root cannot become anybody, nor go first.
    for (set, expected) in [
        (
            "pool.web.user=root",
            "pool.web.user = \"root\": running PHP as another user takes CAP_SETUID, CAP_SETGID and CAP_KILL",
        ),
        ("pool.web.nice=-5", "pool.web.nice = -5: Permission denied"),
    ] {
        let mut app = project.0.app();
        if is_root() {
            app = app.run_as(STRANGER, "");
        }
        let failed = Server::fail(&app, &["admin_socket=off", "pool.web.mode=classic", set]);
        let said = failed.log.wait_for_line("error: --set ");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn the_processes_of_a_pool_are_put_into_its_cgroup() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let top = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        words.next().filter(|_| words.next() == Some("cgroup2"))
    });
    let folder = Path::new(top.unwrap_or("/sys/fs/cgroup")).join(format!("hearth-it-{}", std::process::id()));
    if let Err(error) = fs::create_dir(&folder) {
        eprintln!("not run: no cgroup can be made here: {error}");
        return;
    }
    let project = Project::new();
    let setting = format!("pool.web.cgroup={}", folder.display());
    let server = Server::start(&project.0.app(), &["pool.web.mode=classic", &setting]);
    let zygote = server.log.wait("zygote started", |_| true)["pid"].to_string();
    let there = fs::read_to_string(folder.join("cgroup.procs")).unwrap();
    drop(server);
    fs::remove_dir(folder).unwrap();
    assert!(there.lines().any(|pid| pid == zygote), "{there}");
}
