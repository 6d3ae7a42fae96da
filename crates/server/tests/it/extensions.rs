//! Extensions and the connections they open: what a request leaves open ends with it, as under php-fpm, and the next request
//! sees nothing of it. The scripts are in `extensions/app`, what to expect of connections is in `docs/connections.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use crate::harness::{App, Database, Server};

/// Requests of one test that looks for growth.
const MANY: usize = 2400;

/// The ways to serve that undo all a request did.
const MODES: [&[&str]; 2] = [
    &[
        "pool.web.mode=\"classic\"",
        "pool.web.script=\"public/index.php\"",
    ],
    &[
        "pool.web.mode=\"resident\"",
        "pool.web.script=\"worker.php\"",
        "pool.web.isolation=\"request\"",
    ],
];

/// A folder for files of the scripts, and what else they find in the environment.
struct Site {
    folder: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
    settings: Vec<String>,
}

impl Site {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("hearth-extensions-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Self {
            environment: vec![("EXTENSIONS_FOLDER", folder.clone())],
            folder,
            settings: vec!["pool.web.workers=1".to_owned()],
        }
    }

    fn with_database(mut self, name: &'static str, database: &Database) -> Self {
        self.environment.push((name, database.address()));
        self
    }

    fn with_ini(mut self, name: &str, value: &str) -> Self {
        self.settings.push(format!("pool.web.ini.{name}={value:?}"));
        self
    }

    fn in_each_mode(&self, test: impl Fn(&Server)) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/extensions/app");
        let app = self.environment.iter().fold(App::at(&dir), |app, (name, value)| {
            app.with_env(name, value.to_str().unwrap())
        });
        for mode in MODES {
            let settings: Vec<&str> = mode
                .iter()
                .copied()
                .chain(self.settings.iter().map(String::as_str))
                .collect();
            test(&Server::start(&app, &settings));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn is_classic(server: &Server) -> bool {
    server.get("/script").text() == "index.php"
}

fn assert_ok(server: &Server, target: &str) {
    assert_eq!(server.get(target).text(), "ok", "{target}");
}

/// Memory of its own in KiB, and descriptors.
fn used_by_worker(server: &Server) -> (u64, usize) {
    let process = format!("/proc/{}", server.worker_pid(&json!(0)));
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .unwrap();
    let memory = line.trim().trim_end_matches(" kB").parse().unwrap();
    (memory, fs::read_dir(format!("{process}/fd")).unwrap().count())
}

/// What a request finds. The second one, as the first puts the scripts into OPcache.
fn look(server: &Server) -> String {
    server.get("/look");
    let seen = server.get("/look").text();
    assert!(seen.starts_with('{'), "{seen}");
    seen
}

/// Asserts that a request finds what it found before there was one for `target`.
fn assert_found(server: &Server, before: &str, target: &str) {
    let after = server.get("/look").text();
    let mut lines = before.lines().zip(after.lines());
    let differing = lines.find(|(one, other)| one != other);
    assert!(before == after, "after {target}: {differing:?}\n{after}");
}

/// Asserts that requests for `target` succeed again and again, and leave nothing to those that follow.
fn assert_nothing_left(server: &Server, target: &str) {
    let before = look(server);
    for _ in 0..3 {
        assert_ok(server, target);
        assert_found(server, &before, target);
    }
    assert_eq!(server.log.count("worker died"), 0, "{target}");
}

#[test]
fn settings_and_objects_of_extensions_end_with_the_request() {
    Site::new().in_each_mode(|server| {
        for case in ["mbstring", "intl", "curl", "openssl", "gd", "xml"] {
            assert_nothing_left(server, &format!("/{case}/use"));
        }
        assert_nothing_left(server, "/openssl/tls");
        if !is_classic(server) {
            // PHP's own request end leaves these to the next request.
            assert_nothing_left(server, "/mbstring/options");
            assert_nothing_left(server, "/openssl/errors");
        }
    });
}

#[test]
fn a_sqlite_transaction_left_open_is_rolled_back() {
    let site = Site::new();
    site.in_each_mode(|server| {
        assert_ok(server, "/sqlite/create");
        assert_nothing_left(server, "/sqlite/use");
        assert_nothing_left(server, "/sqlite/sqlite3");
        assert_ok(server, "/sqlite/use");
        assert_ok(server, "/sqlite/persistent");
        assert_ok(server, "/sqlite/use");
        fs::remove_file(site.folder.join("sqlite.db")).unwrap();
    });
}

#[test]
fn an_archive_left_open_is_written_at_the_end_of_the_request() {
    Site::new().in_each_mode(|server| {
        for number in 1..4 {
            assert_ok(server, &format!("/zip/use?number={number}"));
            assert_ok(server, &format!("/zip/check?number={number}"));
        }
        assert_nothing_left(server, "/zip/check?number=3");
    });
}

#[test]
fn the_cache_of_apcu_is_shared_and_stays() {
    Site::new().with_ini("apc.enabled", "1").in_each_mode(|server| {
        for count in 1..100 {
            assert_ok(server, &format!("/apcu/use?count={count}"));
        }
    });
}

#[test]
fn code_is_compiled_by_the_jit_and_stays_right() {
    let site = Site::new().with_ini("opcache.jit", "tracing");
    site.with_ini("opcache.jit_buffer_size", "16M")
        .in_each_mode(|server| {
            // The first request puts the script into the cache.
            server.get("/jit/use");
            for _ in 0..300 {
                assert_ok(server, "/jit/use");
            }
            assert_eq!(server.log.count("worker died"), 0);
        });
}

#[test]
fn a_session_left_open_is_written_and_unlocked_at_the_end_of_the_request() {
    let redis = Database::redis();
    Site::new()
        .with_database("EXTENSIONS_REDIS", &redis)
        .in_each_mode(|server| {
            for handler in ["files", "redis", "user"] {
                let before = look(server);
                let mut client = server.connect();
                let first = client
                    .request("GET", &format!("/session/{handler}?count=1"), b"")
                    .unwrap();
                assert_eq!(first.text(), "ok", "{handler}");
                for count in 2..6 {
                    let target = format!("/session/{handler}?count={count}");
                    assert_eq!(
                        client.get_again(&target, &first).unwrap().text(),
                        "ok",
                        "{target}"
                    );
                    // Somebody else's session.
                    assert_ok(server, &format!("/session/{handler}?count=1"));
                    assert_found(server, &before, handler);
                }
            }
            redis.wait_for_connections(0);
        });
}

/// Runs requests that leave a connection open in a transaction and asserts that none lives on.
fn assert_connections_end(database: &Database, name: &'static str, cases: &[&str]) {
    Site::new().with_database(name, database).in_each_mode(|server| {
        for case in cases {
            assert_nothing_left(server, &format!("/{case}/use"));
            database.wait_for_connections(0);
            // None may be left over at the end of the requests that follow at once either.
            for _ in 0..100 {
                assert_ok(server, &format!("/{case}/use"));
            }
            database.wait_for_connections(0);
        }
    });
}

/// Runs requests that use persistent connections: classic workers keep theirs, as those of php-fpm; where each request is undone
/// they end with it, and the log says so once.
fn assert_persistent_connections_work(database: &Database, name: &'static str, cases: &[&str]) {
    Site::new().with_database(name, database).in_each_mode(|server| {
        for (number, case) in cases.iter().enumerate() {
            for _ in 0..20 {
                assert_ok(server, &format!("/{case}/persistent"));
            }
            database.wait_for_connections(if is_classic(server) { number + 1 } else { 0 });
        }
        if !is_classic(server) {
            let said = "a persistent connection was opened";
            server.log.wait_for_line_with(said);
            assert_eq!(server.log.text().matches(said).count(), 1);
        }
    });
    database.wait_for_connections(0);
}

#[test]
fn connections_to_mariadb_end_with_the_request() {
    let database = Database::mariadb();
    let cases = ["mysqli", "pdo_mysql"];
    assert_connections_end(&database, "EXTENSIONS_MYSQL", &cases);
    assert_eq!(database.ask("SELECT COUNT(*) FROM test.entries"), "0");
    assert_persistent_connections_work(&database, "EXTENSIONS_MYSQL", &cases);
}

#[test]
fn connections_to_postgresql_end_with_the_request() {
    let database = Database::postgres();
    let cases = ["pgsql", "pdo_pgsql"];
    assert_connections_end(&database, "EXTENSIONS_PGSQL", &cases);
    assert_eq!(database.ask("SELECT COUNT(*) FROM entries"), "0");
    assert_persistent_connections_work(&database, "EXTENSIONS_PGSQL", &cases);
}

#[test]
fn connections_to_redis_end_with_the_request() {
    let database = Database::redis();
    assert_connections_end(&database, "EXTENSIONS_REDIS", &["redis"]);
    assert_eq!(database.ask("GET own:key"), "");
    assert_persistent_connections_work(&database, "EXTENSIONS_REDIS", &["redis"]);
}

#[test]
fn xdebug_writes_the_files_of_each_request() {
    // As `make it` sets it; see dev/xdebug.
    let Ok(xdebug) = std::env::var("HEARTH_TEST_XDEBUG") else {
        assert!(
            std::env::var_os("HEARTH_TEST_MODERN").is_none(),
            "HEARTH_TEST_XDEBUG is not set"
        );
        eprintln!("skipped: HEARTH_TEST_XDEBUG is not set");
        return;
    };
    let site = Site::new();
    let folder = site.folder.clone();
    let count = |start: &str| {
        let names = fs::read_dir(&folder)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name());
        names
            .filter(|name| name.to_str().unwrap().starts_with(start))
            .count()
    };
    let site = [
        ("zend_extension", xdebug.as_str()),
        ("xdebug.mode", "develop,profile,trace"),
        ("xdebug.start_with_request", "yes"),
        ("xdebug.output_dir", folder.to_str().unwrap()),
        ("xdebug.profiler_output_name", "profile.%u"),
        ("xdebug.trace_output_name", "trace.%u"),
        ("xdebug.use_compression", "0"),
    ]
    .into_iter()
    .fold(site, |site, (name, value)| site.with_ini(name, value));
    site.in_each_mode(|server| {
        let is_classic = is_classic(server);
        let (profiles, traces) = (count("profile."), count("trace."));
        for _ in 0..20 {
            assert_ok(server, "/xdebug/use");
        }
        // Where requests start from the image, Xdebug has begun its files at the boot, before the image.
        if is_classic {
            assert_eq!((count("profile."), count("trace.")), (profiles + 20, traces + 20));
        }
        assert_nothing_left(server, "/xdebug/use");
    });
}

#[test]
fn thousands_of_requests_that_leave_all_open_cost_no_memory_and_no_descriptors() {
    let (mariadb, postgres, redis) = (Database::mariadb(), Database::postgres(), Database::redis());
    let site = Site::new()
        .with_database("EXTENSIONS_MYSQL", &mariadb)
        .with_database("EXTENSIONS_PGSQL", &postgres)
        .with_database("EXTENSIONS_REDIS", &redis);
    let cases = [
        "mbstring",
        "intl",
        "curl",
        "openssl",
        "gd",
        "xml",
        "mysqli",
        "pdo_mysql",
        "pgsql",
        "pdo_pgsql",
        "redis",
        "sqlite",
    ];
    site.in_each_mode(|server| {
        assert_ok(server, "/sqlite/create");
        let rounds = |count: usize| {
            for case in (0..count).flat_map(|_| cases) {
                assert_ok(server, &format!("/{case}/use"));
            }
        };
        // What is loaded, cached and fragmented once.
        rounds(20);
        let (before, (memory, descriptors)) = (look(server), used_by_worker(server));
        rounds(MANY / cases.len());
        assert_found(server, &before, "all");
        let after = used_by_worker(server);
        assert!(after.0 < memory + 1024, "from {memory} to {} KiB", after.0);
        assert_eq!(after.1, descriptors);
        fs::remove_file(site.folder.join("sqlite.db")).unwrap();
    });
    for database in [mariadb, postgres, redis] {
        database.wait_for_connections(0);
    }
}
