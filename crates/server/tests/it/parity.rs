//! What PHP sees of a request and what the client gets for it equal what nginx and php-fpm make of the same bytes.
//!
//! The scripts are in `scripts/`, the requests in `parity/requests.rs` and the files beside it. What nginx and
//! php-fpm answered is in `parity/recorded/`; `make parity-record` asks them anew. The differences that are permitted are in
//! `parity/permitted.rs`, with their reasons in `docs/parity.md`.

mod answer;
mod case;
mod permitted;
mod recorded;
mod requests;
mod responses;
mod sequences;
mod timing;
mod uploads;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use case::Case;

use crate::harness::{App, Fpm, Front, Server, WebServer};

/// Limits low enough that small requests pass them, and the settings that show most.
const INI: &str = "display_errors = 0\nhtml_errors = 0\nlog_errors = 1\nerror_reporting = -1\nexpose_php = 1\n\
    output_buffering = 4096\nvariables_order = GPCS\nrequest_order = GP\nmemory_limit = 16M\n\
    post_max_size = 256K\nupload_max_filesize = 64K\nmax_file_uploads = 4\nmax_input_vars = 40\n\
    max_input_nesting_level = 8\nsession.use_strict_mode = 0\nsession.gc_probability = 0\n\
    zend.exception_string_param_max_len = 1000\n";

/// The ways in which Hearth runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Classic,
    /// Resident, with isolation "request".
    Isolated,
    /// The same, by a fork for each request.
    Forked,
    /// The same, by `hearth_request()`.
    Once,
    /// Resident, with isolation "none".
    NoIsolation,
    /// Classic, by FastCGI behind nginx.
    FastCgi,
    /// Resident, with isolation "request", by FastCGI behind nginx.
    FastCgiResident,
}

impl Mode {
    const ALL: &'static [Self] = &[
        Self::Classic,
        Self::Isolated,
        Self::Forked,
        Self::Once,
        Self::NoIsolation,
        Self::FastCgi,
        Self::FastCgiResident,
    ];

    fn is_classic(self) -> bool {
        matches!(self, Self::Classic | Self::FastCgi)
    }

    fn is_fastcgi(self) -> bool {
        matches!(self, Self::FastCgi | Self::FastCgiResident)
    }

    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Classic | Self::FastCgi => &[
                "pool.web.mode=\"classic\"",
                "pool.web.script=\"public/index.php\"",
            ],
            Self::Isolated | Self::FastCgiResident => &[
                "pool.web.mode=\"resident\"",
                "pool.web.script=\"worker.php\"",
                "pool.web.isolation=\"request\"",
            ],
            Self::Forked => &[
                "pool.web.mode=\"resident\"",
                "pool.web.script=\"worker.php\"",
                "pool.web.isolation=\"request\"",
                "pool.web.isolation_method=\"fork\"",
            ],
            Self::Once => &[
                "pool.web.mode=\"resident\"",
                "pool.web.script=\"request.php\"",
                "pool.web.isolation=\"request\"",
            ],
            Self::NoIsolation => &[
                "pool.web.mode=\"resident\"",
                "pool.web.script=\"worker.php\"",
                "pool.web.isolation=\"none\"",
            ],
        }
    }
}

/// Cases that one server after the other answers, in this order.
struct Group {
    name: &'static str,
    cases: Vec<Case>,
    /// Lines for php.ini, which hold against those of `INI`. `{temporary}` is the server's folder.
    ini: &'static str,
    /// The folder `small` in it has room for 4 KiB. Left out where nothing can be mounted.
    small_disk: bool,
    /// Without isolation each case gets a worker that has answered nothing yet.
    fresh: bool,
}

impl Group {
    fn new(name: &'static str, cases: Vec<Case>) -> Self {
        Self {
            name,
            cases,
            ini: "",
            small_disk: false,
            fresh: false,
        }
    }
}

/// The requests that mean the same to any application, for the demo's route that shows Symfony's request.
pub(crate) fn symfony_cases() -> Vec<Case> {
    let usable = |case: &Case| {
        let name = case.name();
        name.starts_with("dump/all") && !case.only_classic && permitted::nothing(&name)
    };
    let mut cases: Vec<Case> = requests::cases().into_iter().filter(usable).collect();
    for case in &mut cases {
        if case.target.starts_with('/') {
            let query = case.target.split_once('?').map(|(_, query)| format!("?{query}"));
            case.target = format!("/api/request{}", query.unwrap_or_default());
        }
    }
    cases
}

fn scripts() -> PathBuf {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scripts");
    scripts.canonicalize().unwrap()
}

/// The servers of a test, each with a folder for its sessions and temporary files.
struct Peers {
    dir: PathBuf,
    workers: usize,
    ini: &'static str,
    small_disk: bool,
}

impl Peers {
    fn new(name: &str, workers: usize, ini: &'static str) -> Self {
        let dir = std::env::temp_dir().join(format!("hearth-parity-{}-{name}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        Self {
            dir,
            workers,
            ini,
            small_disk: false,
        }
    }

    /// What runs a server whose folder this is.
    fn runner(&self, folder: &Path) -> Vec<OsString> {
        if !self.small_disk {
            return Vec::new();
        }
        let small = folder.join("small");
        fs::create_dir(&small).unwrap();
        let mount = "mount -t tmpfs -o size=4k small \"$0\" && exec \"$@\"";
        let mut words: Vec<OsString> = unshare().iter().map(OsString::from).collect();
        words.extend(["sh", "-c", mount].map(OsString::from));
        words.push(small.into_os_string());
        words
    }

    /// Folder and php.ini of a server.
    fn ini(&self, server: &str) -> (PathBuf, String) {
        let folder = self.dir.join(server);
        fs::create_dir(&folder).unwrap();
        let place = folder.display();
        let text = format!(
            "{INI}session.save_path = {place}\nsys_temp_dir = {place}\n{}",
            self.ini.replace("{temporary}", &place.to_string())
        );
        fs::write(folder.join("php.ini"), &text).unwrap();
        (folder, text)
    }

    fn fpm(&self) -> (Fpm, PathBuf) {
        let (folder, ini) = self.ini("fpm");
        let runner = self.runner(&folder);
        let fpm = Fpm::start_by(&runner, &scripts().join("public"), &ini, &[], self.workers);
        (fpm, folder)
    }

    fn hearth(&self, mode: Mode) -> (Server, Option<Front>, PathBuf) {
        let (folder, _) = self.ini(&format!("{mode:?}"));
        // Not among the scripts' files.
        let socket = self.dir.join(format!("{mode:?}.sock"));
        let own = [
            format!("pool.web.php_ini=\"{}\"", folder.join("php.ini").display()),
            format!("pool.web.workers={}", self.workers),
            // As nginx has it unless told otherwise.
            "compression.algorithms=[]".to_owned(),
            "root=\"public\"".to_owned(),
            format!("fastcgi.listen=\"unix:{}\"", socket.display()),
        ];
        let settings: Vec<&str> = mode
            .settings()
            .iter()
            .copied()
            .chain(own.iter().map(String::as_str))
            .collect();
        let runner = self.runner(&folder);
        let runner: Vec<&OsStr> = runner.iter().map(OsString::as_os_str).collect();
        let app = App::at(&scripts()).run_by(&runner);
        let server = Server::start(&app, &settings);
        let front = mode.is_fastcgi().then(|| {
            let root = scripts().join("public");
            Front::start(WebServer::Nginx, &root, &socket)
        });
        (server, front, folder)
    }
}

/// Runs a program where it may mount what nobody else sees.
fn unshare() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() {
        &["unshare", "--mount"]
    } else {
        &["unshare", "--map-root-user", "--mount"]
    }
}

/// Containers mostly forbid it.
fn can_mount() -> bool {
    let words = unshare();
    Command::new(words[0])
        .args(&words[1..])
        .args(["mount", "-t", "tmpfs", "small", "/mnt"])
        .status()
        .is_ok_and(|status| status.success())
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Compares Hearth's answers with those of nginx + php-fpm, which are asked anew if that is wished.
fn compare(group: &Group) {
    let names: BTreeSet<String> = group.cases.iter().map(Case::name).collect();
    for name in &names {
        let same = group.cases.iter().filter(|case| case.name() == *name).count();
        assert!(same == 1, "{same} cases are named {name}");
    }
    if group.small_disk && !can_mount() {
        return;
    }
    let mut peers = Peers::new(group.name, 1, group.ini);
    peers.small_disk = group.small_disk;
    if recorded::is_recording() {
        record(group, &peers);
    }
    let differences: String = std::thread::scope(|scope| {
        let each: Vec<_> = Mode::ALL
            .iter()
            .map(|mode| scope.spawn(|| differences(group, &peers, *mode)))
            .collect();
        each.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(
        differences.is_empty(),
        "- nginx + php-fpm, + Hearth\n{differences}"
    );
}

fn ask(case: &Case, address: SocketAddr, folder: &Path) -> String {
    answer::ask(
        case,
        address,
        &[(&scripts(), "{scripts}"), (folder, "{temporary}")],
    )
}

fn record(group: &Group, peers: &Peers) {
    let (fpm, folder) = peers.fpm();
    let answers = group
        .cases
        .iter()
        .map(|case| (case.name(), ask(case, fpm.address(), &folder)));
    recorded::write(group.name, &answers.collect::<Vec<_>>());
}

/// What differs between php-fpm and Hearth, as text for a person.
fn differences(group: &Group, peers: &Peers, mode: Mode) -> String {
    let recorded = recorded::read(group.name);
    let (server, front, folder) = peers.hearth(mode);
    let address = front.as_ref().map_or(server.address(), Front::address);
    let mut out = String::new();
    for case in group
        .cases
        .iter()
        .filter(|case| mode.is_classic() || !case.only_classic)
    {
        let name = case.name();
        let Some(expected) = recorded.get(&name) else {
            let _ = writeln!(out, "=== {name}\nwas never recorded: make parity-record");
            continue;
        };
        let expected = permitted::strip(expected, &name, mode);
        let found = permitted::strip(&ask(case, address, &folder), &name, mode);
        if found != expected {
            let _ = writeln!(out, "=== {name} — {mode:?}\n{}", diff(&expected, &found));
        }
        if group.fresh && mode == Mode::NoIsolation {
            Case::get("leak/over", "/").send(server.address());
        }
    }
    out
}

/// The lines that only one of both has.
fn diff(expected: &str, found: &str) -> String {
    let (before, after): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let mut out = String::new();
    for line in before.iter().filter(|line| !after.contains(line)) {
        let _ = writeln!(out, "- {line}");
    }
    for line in after.iter().filter(|line| !before.contains(line)) {
        let _ = writeln!(out, "+ {line}");
    }
    if out.is_empty() {
        let _ = writeln!(out, "the same lines in another order:\n{expected}\n--\n{found}");
    }
    out
}

/// The other way round than `INI`, and than most.
const OTHER_INI: &str = "output_buffering = 0\nimplicit_flush = 1\nfile_uploads = 0\nregister_argc_argv = 0\n\
    default_charset =\ndisplay_errors = 1\nhtml_errors = 1\nvariables_order = EGPCS\nrequest_order =\n\
    arg_separator.input = \";\"\nauto_globals_jit = 0\nsession.auto_start = 1\nsession.use_cookies = 0\n\
    enable_post_data_reading = 1\nzend.assertions = 1\nmax_execution_time = 0\n";

#[test]
fn php_sees_the_same_request_as_under_php_fpm() {
    compare(&Group::new("requests", requests::cases()));
}

#[test]
fn the_client_gets_the_same_response_as_from_php_fpm() {
    compare(&Group::new("responses", responses::cases()));
}

#[test]
fn settings_of_php_mean_the_same_as_under_php_fpm() {
    compare(&Group {
        ini: OTHER_INI,
        ..Group::new("settings", requests::of_settings())
    });
}

#[test]
fn raw_bodies_are_the_same_as_under_php_fpm() {
    compare(&Group {
        ini: "enable_post_data_reading = 0\nzlib.output_compression = 1\nmax_input_nesting_level = 1\n",
        ..Group::new("raw", requests::of_raw_bodies())
    });
}
