//! Folders that an application closes by `.htaccess`, as Apache reads it: nothing below them is sent or run.

use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{Folder, Server};

const DENIED: &str = "Require all denied\n";
/// As many applications ship it.
const EITHER: &str = "# no access
<IfModule mod_authz_core.c>
    require ALL denied
</IfModule>
<ifmodule !mod_authz_core.c>
    Order deny,allow
    Deny from all
</ifmodule>
";
/// As the plugin Akismet ships it.
const BUT_SOME: &str = r#"<IfModule mod_authz_core.c>
    Require all denied
</IfModule>
<FilesMatch "^(form\.js|akismet\.css)$">
    <IfModule !mod_authz_core.c>
        Allow from all
    </IfModule>
    <IfModule mod_authz_core.c>
        Require all granted
    </IfModule>
</FilesMatch>
"#;

fn site(name: &str) -> Folder {
    let files = [
        ("index.php", "<?php echo 'front';"),
        ("style.css", "a{}"),
        ("data/.htaccess", EITHER),
        ("data/pages/start.txt", "secret"),
        ("data/tool.php", "<?php echo 'secret';"),
        ("data/index.php", "<?php echo 'secret';"),
        ("data/media/.htaccess", "Require all granted"),
        ("data/media/logo.txt", "open"),
        ("old/.htaccess", "order Allow,Deny\ndeny from ALL"),
        ("old/a.txt", "secret"),
        ("plugin/.htaccess", BUT_SOME),
        ("plugin/akismet.css", "open"),
        ("plugin/akismet.txt", "secret"),
        (
            "uploads/.htaccess",
            "<IfModule mod_php.c>\nphp_flag engine off\n</IfModule>",
        ),
        ("uploads/photo.txt", "open"),
        ("uploads/evil.php", "<?php echo 'secret';"),
        (
            "login/.htaccess",
            "AuthType Basic\nAuthName x\nRequire valid-user",
        ),
        ("login/a.txt", "secret"),
    ];
    Folder::with(name, &files)
}

const CLOSED: [&str; 13] = [
    "/data/pages/start.txt",
    "/data/pages/",
    "/data/tool.php",
    "/data/tool.php/info",
    "/data/index.php",
    "/data/",
    "/data",
    "/data/none",
    "/data/.htaccess",
    "/old/a.txt",
    "/plugin/akismet.txt",
    "/uploads/evil.php",
    "/login/a.txt",
];
const OPEN: [&str; 3] = [
    "/data/media/logo.txt",
    "/plugin/akismet.css",
    "/uploads/photo.txt",
];

fn assert_answer(server: &Server, target: &str, status: u16, text: &str) {
    let answer = server.get(target);
    assert_eq!(answer.status, status, "{target}: {}", answer.text());
    assert!(answer.text().contains(text), "{target}: {}", answer.text());
    assert!(!answer.text().contains("secret"), "{target}");
}

#[test]
fn nothing_is_sent_or_run_below_a_folder_that_htaccess_closes() {
    let folder = site("htaccess");
    let server = folder.serve();
    let event = server.log.wait(
        "folders closed by .htaccess: nothing in them is sent or run",
        |_| true,
    );
    assert_eq!(event["folders"], "/data /login /old /plugin");
    for target in CLOSED {
        assert_answer(&server, target, 403, "");
    }
    for target in OPEN {
        assert_answer(&server, target, 200, "open");
    }
    assert_answer(&server, "/style.css", 200, "a{}");
    assert_answer(&server, "/datas", 200, "front");
}

#[test]
fn a_resident_application_answers_for_what_htaccess_closes() {
    let folder = site("htaccess-resident");
    folder.write(
        "worker.php",
        "<?php while (hearth_handle_request(function () { echo 'application'; })) {}",
    );
    let server = folder.serve();
    for target in CLOSED {
        assert_answer(&server, target, 200, "application");
    }
    for target in OPEN {
        assert_answer(&server, target, 200, "open");
    }
}

#[test]
fn htaccess_is_not_looked_at_where_a_setting_says_so() {
    let folder = Folder::with(
        "htaccess-off",
        &[("data/.htaccess", DENIED), ("data/a.txt", "open")],
    );
    let server = Server::start(&folder.app(), &["pool.web.htaccess=false"]);
    assert_answer(&server, "/data/a.txt", 200, "open");
    assert_eq!(
        server
            .log
            .count("folders closed by .htaccess: nothing in them is sent or run"),
        0
    );
}

#[test]
fn neither_a_rule_nor_an_error_page_leads_into_a_folder_that_htaccess_closes() {
    let toml = "[pool.web.error_pages]\n404 = '/data/404.txt'\n[[pool.web.rules]]\npath = '/page'\nrewrite = '/data/a.txt'\n";
    let files = [
        ("hearth.toml", toml),
        ("data/.htaccess", DENIED),
        ("data/a.txt", "secret"),
        ("data/404.txt", "secret"),
    ];
    let folder = Folder::with("htaccess-rules", &files);
    let server = folder.serve();
    assert_answer(&server, "/page", 403, "");
    assert_answer(&server, "/none.php", 404, "");
}

#[test]
fn a_changed_htaccess_holds_soon() {
    let folder = Folder::with("htaccess-changed", &[("data/a.txt", "open"), ("index.html", "")]);
    let server = folder.serve();
    let wait_for = |status| {
        let until = Instant::now() + Duration::from_secs(20);
        while server.get("/data/a.txt").status != status {
            assert!(Instant::now() < until, "never {status}");
        }
    };
    wait_for(200);
    folder.write("data/.htaccess", DENIED);
    wait_for(403);
    folder.write("data/.htaccess", "Require all granted");
    wait_for(200);
}

#[test]
fn what_a_htaccess_says_of_access_and_is_not_done_is_said_at_the_start() {
    let text = "RewriteEngine On\nRewriteRule ^private/ - [F,L]\nRewriteRule ^ index.php [L]\n";
    let files = [
        ("index.php", ""),
        (".htaccess", text),
        ("a/.htaccess", "Options -Indexes"),
        (
            "b/.htaccess",
            "<FilesMatch \"^(?!a)\">\nRequire all denied\n</FilesMatch>",
        ),
    ];
    let folder = Folder::with("htaccess-ignored", &files);
    let server = folder.serve();
    let event = server.log.wait(
        "access rules of .htaccess not understood: write rules of your own",
        |_| true,
    );
    assert_eq!(event["level"], "WARN");
    assert_eq!(
        event["files"],
        "/.htaccess (RewriteRule with [F]); /b/.htaccess (a pattern of FilesMatch)"
    );
}

#[test]
fn a_htaccess_that_is_no_plain_file_harms_nothing() {
    let folder = Folder::with(
        "htaccess-strange",
        &[
            ("index.html", "home"),
            ("pipe/a.txt", "open"),
            ("zero/a.txt", "open"),
        ],
    );
    let made = std::process::Command::new("mkfifo")
        .arg(folder.file("pipe/.htaccess"))
        .status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", folder.file("zero/.htaccess")).unwrap();
    // As Debian's DokuWiki has, until somebody makes the file.
    std::os::unix::fs::symlink("/nonexistent/htaccess", folder.file(".htaccess")).unwrap();
    let server = folder.serve();
    let event = server.log.wait(
        "folders closed by .htaccess: nothing in them is sent or run",
        |_| true,
    );
    assert_eq!(event["folders"], "/pipe /zero");
    for target in ["/pipe/a.txt", "/zero/a.txt"] {
        assert_eq!(server.get(target).status, 403, "{target}");
    }
    assert_answer(&server, "/", 200, "home");
}

#[test]
fn check_prints_the_folders_that_htaccess_closes() {
    let folder = site("htaccess-check");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hearth"));
    let output = command.arg("check").arg(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("closed: /data /login /old /plugin (by .htaccess)\n"),
        "{text}"
    );
}

/// Mounts a file system that never answers at the first argument, and becomes what the others say.
const WITH_STUCK_MOUNT: &str = "\
import ctypes, os, sys
fd = os.open('/dev/fuse', os.O_RDWR)
os.set_inheritable(fd, True)
data = f'fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other'.encode()
if ctypes.CDLL(None).mount(b'stuck', sys.argv[1].encode(), b'fuse', 0, data): sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_file_system_that_does_not_answer_keeps_no_server_from_starting() {
    let folder = site("stuck");
    std::fs::create_dir(folder.file("mount")).unwrap();
    let mount = folder.file("mount");
    let runner = ["unshare", "-m", "python3", "-c", WITH_STUCK_MOUNT].map(OsStr::new);
    let runner = [&runner[..], &[mount.as_os_str()]].concat();
    let mut tried = Command::new(runner[0]);
    if !tried
        .args(&runner[1..])
        .arg("/bin/true")
        .status()
        .unwrap()
        .success()
    {
        // Not root, or there is no FUSE.
        return;
    }
    let server = Server::start(&folder.app().run_by(&runner), &[]);
    let warned = server.log.wait("folders not looked at for .htaccess", |_| true);
    let error = warned["error"].as_str().unwrap();
    assert!(
        error.contains("does not answer; find it with `findmnt`"),
        "{error}"
    );
    assert_eq!(server.get("/").text(), "front");
}
