//! How large bodies may be, and how many bytes all spool files may have together.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::{App, Folder, RawClient, Server, in_each_mode};

const MIB: u64 = 1 << 20;
const NO_ROOM: &str =
    "no room for spool files: large requests are refused, and workers wait for slow clients";

/// The answer to an announcement of a body: 100 where the server wants to have it.
fn asked(server: &Server, target: &str, length: u64) -> u16 {
    let mut client = RawClient::connect(server.address());
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
    );
    client.send(head.as_bytes()).unwrap();
    client.interim().unwrap().status
}

#[test]
fn a_body_may_have_64_mib_or_what_php_s_settings_say_where_that_is_more() {
    for (setting, most) in [
        ("pool.web.ini.post_max_size=8M", 64),
        ("pool.web.ini.post_max_size=100M", 100),
        ("pool.web.admin_ini.post_max_size=101M", 101),
        ("pool.web.ini.post_max_size=0", 1024),
    ] {
        // With a bound for all of them that is no bound here.
        in_each_mode(
            &["pool.web.workers=1", "limits.spool_bytes='1 GiB'", setting],
            |server| {
                assert_eq!(asked(server, "/", most * MIB), 100, "{setting}");
                assert_eq!(asked(server, "/", most * MIB + 1), 413, "{setting}");
            },
        );
    }
}

#[test]
fn a_limit_that_is_set_holds_whatever_php_s_settings_say() {
    for most in [1, 80] {
        let settings = [
            &format!("limits.body_bytes='{most} MiB'"),
            "limits.spool_bytes='1 GiB'",
            "pool.web.ini.post_max_size=70M",
        ];
        let server = Server::start(&App::of_tests(), &settings);
        assert_eq!(asked(&server, "/", most * MIB), 100);
        assert_eq!(asked(&server, "/", most * MIB + 1), 413);
    }
}

#[test]
fn each_pool_has_the_limit_of_its_own_php() {
    let folder = Folder::with("body-pools", &[("index.php", "<?php echo 'well';")]);
    let settings = "limits.spool_bytes = '1 GiB'\n[pool.api]\npaths = ['/api/*']\n[pool.api.ini]\npost_max_size = '90M'\n";
    folder.write("hearth.toml", settings);
    let server = folder.serve();
    for (target, most) in [("/index.php", 64), ("/api/x", 90)] {
        assert_eq!(asked(&server, target, most * MIB), 100, "{target}");
        assert_eq!(asked(&server, target, most * MIB + 1), 413, "{target}");
    }
}

/// A client that has sent so many bytes of a body.
fn begin(server: &Server, target: &str, (length, sent): (usize, usize)) -> RawClient {
    let mut client = RawClient::connect(server.address());
    let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    client.send(head.as_bytes()).unwrap();
    // A server that refuses it reads no further.
    let _ = client.send(&vec![b'x'; sent]);
    client
}

/// Status and headers of the answer to a whole body.
fn upload(server: &Server, length: usize) -> (u16, Option<String>) {
    let answer = begin(server, "/", (length, length)).read("POST").unwrap();
    (answer.status, answer.header("retry-after").map(str::to_owned))
}

/// Returns when the largest spool file of the server has as many bytes as expected; 0: there is none.
fn await_spooled(server: &Server, expected: impl Fn(u64) -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    let largest = || {
        let files = fs::read_dir(format!("/proc/{}/fd", server.pid()))
            .unwrap()
            .flatten();
        let folder = std::env::temp_dir();
        let spools =
            files.filter(|file| fs::read_link(file.path()).is_ok_and(|path| path.starts_with(&folder)));
        let spools = spools.filter_map(|file| fs::metadata(file.path()).ok());
        let spools = spools.filter(|about| about.is_file() && about.nlink() == 0);
        spools.map(|about| about.len()).max().unwrap_or(0)
    };
    while !expected(largest()) {
        assert!(
            Instant::now() < until,
            "the spool files never became what they should be"
        );
    }
}

#[test]
fn bodies_have_room_for_so_many_bytes_together_and_give_them_back() {
    let settings = [
        "limits.body_memory='1 KiB'",
        "limits.spool_bytes='300 KiB'",
        "pool.web.workers=1",
    ];
    in_each_mode(&settings, |server| {
        // To the byte: nothing of what came before may be left.
        const ALL: usize = 300 << 10;
        assert_eq!(upload(server, ALL).0, 200);
        assert_eq!(upload(server, ALL + 1).0, 413);
        let too_large = "a body is larger than limits.spool_bytes";
        server.log.wait(NO_ROOM, |event| event["reason"] == too_large);
        // A body goes with its slot, a moment after the response.
        await_spooled(server, |bytes| bytes == 0);
        let mut first = begin(server, "/", (ALL, ALL - 10_000));
        // Of what it has sent, up to `body_memory` are kept in memory.
        await_spooled(server, |bytes| bytes > 296_000);
        assert_eq!(upload(server, 20_000), (503, Some("1".to_owned())));
        server.out.wait_for_line_with("\"spool-full\"");
        // What is in memory needs no room.
        assert_eq!(upload(server, 1000).0, 200);
        first.send(&[b'x'; 10_000]).unwrap();
        assert_eq!(first.read("POST").unwrap().status, 200);
        for _ in 0..20 {
            drop(begin(server, "/", (ALL, 50_000)));
        }
        // That they are gone is seen a moment later; nothing of them may be left.
        let until = Instant::now() + Duration::from_secs(20);
        while upload(server, ALL).0 != 200 {
            assert!(
                Instant::now() < until,
                "uploads that were broken off have kept their room"
            );
        }
        await_spooled(server, |bytes| bytes == 0);
        // Its body is there until the script has ended.
        let open = server.file("open");
        let mut waiting = begin(server, &format!("/gate?open={}", open.display()), (ALL, ALL));
        server.log.wait("php", |event| event["text"] == "at the gate");
        assert_eq!(upload(server, 20_000).0, 503);
        fs::write(open, "").unwrap();
        assert_eq!(waiting.read("POST").unwrap().status, 200);
        await_spooled(server, |bytes| bytes == 0);
        assert_eq!(upload(server, ALL).0, 200);
    });
}

/// The scripts of the parity suite: `?bytes=` long responses.
fn long_responses(app: &App, settings: &[&str]) -> Server {
    let settings = [
        &[
            "pool.web.mode=classic",
            "pool.web.script=public/index.php",
            "root=public",
            "pool.web.workers=1",
            "limits.response_memory='64 KiB'",
            "limits.body_memory='1 KiB'",
        ],
        settings,
    ]
    .concat();
    Server::start(app, &settings)
}

fn scripts() -> App {
    App::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scripts"))
}

fn download(server: &Server, bytes: usize) -> RawClient {
    let mut client = RawClient::connect(server.address());
    let head = format!("GET /?bytes={bytes} HTTP/1.1\r\nHost: a\r\nX-Run: bulk/download\r\n\r\n");
    client.send(head.as_bytes()).unwrap();
    client
}

fn assert_whole(mut client: RawClient, bytes: usize) {
    let head = client.head().unwrap();
    assert_eq!(client.count(&head, usize::MAX).unwrap(), bytes);
}

#[test]
fn a_response_that_has_no_room_waits_for_its_client_and_is_whole() {
    const BYTES: usize = 64 << 20;
    for room in ["0", "1 MiB"] {
        let server = long_responses(&scripts(), &[&format!("limits.spool_bytes='{room}'")]);
        for _ in 0..2 {
            let slow = download(&server, BYTES);
            server.log.wait(NO_ROOM, |_| true);
            assert_whole(slow, BYTES);
        }
        assert_whole(download(&server, 100), 100);
    }
}

#[test]
fn spool_files_do_not_fill_their_file_system() {
    const BYTES: usize = 64 << 20;
    let folder = Folder::new("small");
    let mount = format!(
        "mount -t tmpfs -o size=4m none {} && exec \"$@\"",
        folder.path().display()
    );
    let runner = ["unshare", "--mount", "sh", "-c", &mount, "sh"].map(OsStr::new);
    let may = std::process::Command::new(runner[0])
        .args(&runner[1..])
        .arg("true")
        .status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("not run: nothing can be mounted here (as root it can)");
        return;
    }
    let spool_dir = format!("spool_dir={:?}", folder.path());
    let server = long_responses(
        &scripts().run_by(&runner),
        &["limits.spool_bytes='1 GiB'", &spool_dir],
    );
    assert_eq!(upload(&server, 3 << 20).0, 200);
    assert_eq!(upload(&server, 5 << 20), (503, Some("1".to_owned())));
    let reason = server.log.wait(NO_ROOM, |_| true)["reason"].clone();
    assert_eq!(reason, "the file system of spool_dir is nearly full");
    let slow = download(&server, BYTES);
    assert_whole(slow, BYTES);
    assert_eq!(upload(&server, 3 << 20).0, 200);
}
