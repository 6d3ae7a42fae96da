//! Files of a pool that leads to what its user may not read: by links, in the document root, from scripts, as error pages.
//!
//! As root only: another server has no more rights than its pools.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use crate::harness::{Answer, Client, Folder, Server, is_root};

const USER: &str = "pool.web.user=www-data";
const SECRET: &str = "the password is swordfish";
const SENDER: &str =
    "<?php foreach ($_GET as $name => $value) { header(str_replace('_', '-', $name) . ': ' . $value); }";

/// Files of root's that nobody else may read: `closed/password` in a folder that nobody may enter, and `password` in one that everybody may.
struct Secrets(Folder);

impl Secrets {
    fn new() -> Self {
        let folder = Folder::new("secrets");
        for name in ["password", "closed/password", "password.gz"] {
            fs::set_permissions(folder.write(name, SECRET), fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::set_permissions(folder.file("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        Self(folder)
    }

    /// The same of another user's.
    fn of(owner: u32) -> Self {
        let secrets = Self::new();
        for name in ["password", "password.gz", "closed", "closed/password"] {
            chown(secrets.0.file(name), Some(owner), None).unwrap();
        }
        secrets
    }
}

/// An application, with links to the secrets wherever a script could have put them, and others that its user may follow.
fn application(secrets: &Secrets, mode: &str) -> Folder {
    let toml = format!(
        "[pool.web]\nmode = '{mode}'\nscript = '{}'\n[pool.web.internal]\n'/protected/' = 'files'\n[pool.web.error_pages]\n404 = \
         'errors/404.html'\n410 = 'errors/410.html'\n[[pool.web.rules]]\npath = '/gone'\ndeny = true\nstatus = 410\n",
        if mode == "classic" {
            "public/index.php"
        } else {
            "worker.php"
        }
    );
    let files = [
        ("hearth.toml", toml.as_str()),
        (
            "worker.php",
            "<?php while (hearth_handle_request(function () { http_response_code(404); })) {}",
        ),
        ("public/index.php", "<?php http_response_code(404);"),
        ("public/send.php", SENDER),
        ("public/style.css", "body {}"),
        ("files/own.txt", "own"),
        ("storage/picture.txt", "picture"),
        ("errors/410.html", "gone for good"),
    ];
    let folder = Folder::with("links", &files);
    let secret = |name: &str| secrets.0.file(name);
    for (target, link) in [
        (secret("password"), "public/password"),
        (secret("closed/password"), "public/closed-password"),
        (secret("closed"), "public/closed"),
        (secret("password.gz"), "public/style.css.gz"),
        (secret("password"), "files/password"),
        (secret("closed"), "files/closed"),
        (secret("password"), "errors/404.html"),
        (folder.file("storage"), "public/storage"),
        (folder.file("storage"), "files/storage"),
    ] {
        symlink(target, folder.file(link)).unwrap();
    }
    folder
}

fn get(client: &mut Client, target: &str, headers: &str) -> Answer {
    let request = format!("GET {target} HTTP/1.1\r\n{headers}\r\n");
    client.raw(request.as_bytes()).unwrap();
    client.read().unwrap()
}

fn assert_kept(answer: &Answer, target: &str) {
    // 403: nobody can tell whether a `.htaccess` closes the folder.
    assert!([403, 404].contains(&answer.status), "{target}: {}", answer.status);
    assert!(!answer.text().contains(SECRET), "{target}");
}

#[test]
fn a_root_server_sends_no_file_that_the_pools_user_may_not_read() {
    if !is_root() {
        return;
    }
    let secrets = Secrets::new();
    for mode in ["classic", "resident"] {
        let folder = application(&secrets, mode);
        let server = Server::start(&folder.app(), &[USER, "pool.web.workers=1"]);
        for target in [
            "/password",
            "/closed-password",
            "/closed/password",
            "/no-such-file",
        ] {
            assert_kept(&server.get(target), target);
        }
        let denied = server
            .log
            .wait("file not sent: the user of its pool may not read it", |_| true);
        assert_eq!(denied["path"], folder.file("public/password").to_str().unwrap());
        // The same by the header that has compressed files beside one sent.
        let mut client = server.connect();
        let style = get(
            &mut client,
            "/style.css",
            "Host: a.example\r\nAccept-Encoding: gzip\r\n",
        );
        assert_eq!((style.status, style.text().as_str()), (200, "body {}"));
        let linked = server.get("/storage/picture.txt");
        assert_eq!((linked.status, linked.text().as_str()), (200, "picture"));
        // What can be read is still a page; what cannot is none.
        assert_eq!(server.get("/gone").text(), "gone for good");
        let page = server.log.wait("error page not read", |_| true);
        assert_eq!(page["path"], folder.file("errors/404.html").to_str().unwrap());
    }
}

#[test]
fn a_script_of_a_root_server_has_no_file_sent_that_its_user_may_not_read() {
    if !is_root() {
        return;
    }
    let secrets = Secrets::new();
    let folder = application(&secrets, "classic");
    let server = Server::start(&folder.app(), &[USER, "pool.web.workers=1"]);
    let by_path = |name: &str| format!("/send.php?X_Sendfile={}", folder.file(name).display());
    for target in [
        "/send.php?X_Accel_Redirect=/protected/password".to_owned(),
        "/send.php?X_Accel_Redirect=/protected/closed/password".to_owned(),
        by_path("files/password"),
        by_path("files/closed/password"),
        format!("/send.php?X_Sendfile={}", secrets.0.file("password").display()),
    ] {
        assert_kept(&server.get(&target), &target);
    }
    server
        .log
        .wait("script named a file that cannot be read", |event| {
            event["path"] == folder.file("files/password").to_str().unwrap()
        });
    for (target, text) in [
        ("/send.php?X_Accel_Redirect=/protected/own.txt", "own"),
        // As nginx follows it: what the user of the pool may read is the border.
        (
            "/send.php?X_Accel_Redirect=/protected/storage/picture.txt",
            "picture",
        ),
    ] {
        let answer = server.get(target);
        assert_eq!((answer.status, answer.text().as_str()), (200, text), "{target}");
    }
    assert_eq!(server.get(&by_path("files/own.txt")).text(), "own");
}

#[test]
fn a_pool_is_not_sent_from_memory_what_only_another_pools_user_may_read() {
    // Old enough to be kept in memory, and for one group alone.
    let shadow = Path::new("/etc/shadow");
    if !is_root() || !shadow.exists() {
        return;
    }
    let folder = Folder::with("shelf", &[("public/index.php", "<?php http_response_code(404);")]);
    symlink(shadow, folder.file("public/file")).unwrap();
    let settings = [
        USER,
        "pool.web.group=shadow",
        "pool.web.workers=1",
        "pool.other.user=www-data",
        "pool.other.workers=1",
        "pool.other.hosts=[\"other.example\"]",
    ];
    let server = Server::start(&folder.app(), &settings);
    let mut client = server.connect();
    for _ in 0..3 {
        for (host, expected) in [("web.example", 200), ("other.example", 404)] {
            let answer = get(&mut client, "/file", &format!("Host: {host}\r\n"));
            // Its text is none of a log's affair.
            assert_eq!(answer.status, expected, "{host}");
        }
    }
}

#[test]
fn bodies_are_spooled_where_only_the_server_may_write() {
    if !is_root() {
        return;
    }
    let folder = Folder::with(
        "spool",
        &[
            (
                "public/index.php",
                "<?php echo strlen(file_get_contents('php://input'));",
            ),
            ("public/file.txt", "file"),
        ],
    );
    let spool = Folder::new("spooled");
    fs::set_permissions(spool.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let dir = format!("spool_dir={}", spool.path().display());
    let settings = [
        USER,
        "pool.web.workers=1",
        &dir,
        "limits.body_memory=\"1 KiB\"",
        "reactors=1",
    ];
    let server = Server::start(&folder.app(), &settings);
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.request("GET", "/file.txt", b"").unwrap().text(), "file");
        let answer = client.request("POST", "/", &vec![b'x'; 100_000]).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "100000"));
    }
}

#[test]
fn neither_does_a_server_with_the_capability_to_act_as_other_users() {
    const SERVER: u32 = 54_323;
    if !is_root() {
        return;
    }
    let secrets = Secrets::of(SERVER);
    let folder = application(&secrets, "classic");
    let app = folder
        .app()
        .run_as(SERVER, "+setuid,+setgid,+kill,+dac_read_search");
    let settings = [USER, "pool.web.workers=1", "admin_socket=off", "reactors=1"];
    let server = Server::start(&app, &settings);
    for _ in 0..2 {
        for target in [
            "/password",
            "/closed-password",
            "/closed/password",
            "/no-such-file",
        ] {
            assert_kept(&server.get(target), target);
        }
        let target = "/send.php?X_Accel_Redirect=/protected/password";
        assert_kept(&server.get(target), target);
        assert_eq!(server.get("/storage/picture.txt").text(), "picture");
        assert_eq!(server.get("/gone").text(), "gone for good");
    }
}

#[test]
fn files_of_the_pools_user_alone_are_sent() {
    if !is_root() {
        return;
    }
    let folder = Folder::with(
        "private",
        &[("public/index.php", "<?php"), ("public/own.txt", "own")],
    );
    let own = folder.file("public/own.txt");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o400)).unwrap();
    chown(&own, Some(33), None).unwrap();
    let server = Server::start(&folder.app(), &["pool.web.user=33", "pool.web.workers=1"]);
    assert_eq!(server.get("/own.txt").text(), "own");
}

#[test]
fn no_link_leads_to_what_the_server_has_open() {
    let secrets = Secrets::new();
    for user in [Some(USER), None] {
        if user.is_some() && !is_root() {
            continue;
        }
        let folder = application(&secrets, "classic");
        for number in 0..100 {
            let target = format!("/proc/self/fd/{number}");
            for name in ["public", "files"] {
                symlink(&target, folder.file(&format!("{name}/{number}.bin"))).unwrap();
            }
        }
        let settings: Vec<_> = user.into_iter().chain(["pool.web.workers=1"]).collect();
        let server = Server::start(&folder.app(), &settings);
        let shared = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
        let shared = shared.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
        assert!(
            shared
                .filter(|name| name.to_string_lossy().contains("hearth-"))
                .count()
                >= 3
        );
        for number in 0..100 {
            for target in [
                format!("/{number}.bin"),
                format!("/send.php?X_Accel_Redirect=/protected/{number}.bin"),
            ] {
                let answer = server.get(&target);
                assert_eq!(answer.status, 404, "{target}");
            }
        }
    }
}
