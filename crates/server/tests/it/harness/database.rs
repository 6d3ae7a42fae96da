//! Database servers as Debian installs them: each in a folder of its own, on a Unix socket in it, as a user who is not root.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::log::Log;
use super::server::kill;

/// Longest time until a server has seen that a client is gone.
const PATIENCE: Duration = Duration::from_secs(20);
/// `nobody`, for servers that refuse to run as root.
const NOBODY: u32 = 65534;

/// A running database server. Dropping it ends it and removes its folder.
#[derive(Debug)]
pub(crate) struct Database {
    server: Child,
    /// How the server is told to end without waiting for its clients.
    stop: Signal,
    log: Log,
    dir: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    MariaDb,
    Postgres,
    Redis,
}

impl Database {
    /// With a user `app` and a database `test`, which has a table `entries`.
    pub(crate) fn mariadb() -> Self {
        let dir = folder("mariadb");
        let data = format!("--datadir={}", dir.join("data").display());
        let mut install = command("mariadb-install-db", &dir);
        install.args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]);
        succeed(install.arg(&data).args(SMALL));
        let mut server = command("mariadbd", &dir);
        let socket = format!("--socket={}", dir.join("socket").display());
        server.args(["--no-defaults", "--skip-networking"]);
        server.arg(&data).arg(&socket).args(SMALL);
        let database = Self::start(server, dir, Kind::MariaDb, "ready for connections");
        for statement in [
            "CREATE DATABASE test",
            "CREATE USER app@localhost",
            "GRANT ALL ON test.* TO app@localhost",
            "CREATE TABLE test.entries (id INT PRIMARY KEY) ENGINE=InnoDB",
        ] {
            database.ask(statement);
        }
        database
    }

    /// With a superuser `app`, and a table `entries` in the database `postgres`.
    pub(crate) fn postgres() -> Self {
        let dir = folder("postgres");
        let mut install = command(&postgres_program("initdb"), &dir);
        install.args([
            "--auth=trust",
            "--username=app",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
        ]);
        succeed(install.arg("-D").arg(dir.join("data")));
        let mut server = command(&postgres_program("postgres"), &dir);
        server.arg("-D").arg(dir.join("data")).arg("-k").arg(&dir);
        server.args([
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
            "-c",
            "autovacuum=off",
        ]);
        let database = Self::start(server, dir, Kind::Postgres, "ready to accept connections");
        database.ask("CREATE TABLE entries (id INT PRIMARY KEY)");
        database
    }

    /// Nothing of it is written to a file.
    pub(crate) fn redis() -> Self {
        let dir = folder("redis");
        let mut server = command("redis-server", &dir);
        server.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
        server.arg(dir.join("socket"));
        Self::start(server, dir, Kind::Redis, "eady to accept connections")
    }

    fn start(mut server: Command, dir: PathBuf, kind: Kind, ready: &str) -> Self {
        let log = Log::default();
        let (reader, writer) = std::io::pipe().unwrap();
        server.stdout(writer.try_clone().unwrap()).stderr(writer);
        let child = spawn(&mut server);
        drop(server);
        drop(log.follow(reader));
        let stop = match kind {
            Kind::Postgres => Signal::INT,
            Kind::MariaDb | Kind::Redis => Signal::TERM,
        };
        let database = Self {
            server: child,
            stop,
            log,
            dir,
            kind,
        };
        database.log.wait_for_line_with(ready);
        database
    }

    /// What clients connect to: the socket, or the folder with it for `PostgreSQL`.
    pub(crate) fn address(&self) -> PathBuf {
        match self.kind {
            Kind::Postgres => self.dir.clone(),
            Kind::MariaDb | Kind::Redis => self.dir.join("socket"),
        }
    }

    /// Connections that clients have, but for the one that asks.
    pub(crate) fn connections(&self) -> usize {
        match self.kind {
            Kind::MariaDb => self
                .ask("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'")
                .parse()
                .unwrap(),
            Kind::Postgres => self
                .ask(
                    "SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
                     AND pid <> pg_backend_pid()",
                )
                .parse()
                .unwrap(),
            Kind::Redis => {
                self.ask("CLIENT LIST")
                    .lines()
                    .filter(|line| !line.is_empty())
                    .count()
                    - 1
            }
        }
    }

    /// Waits until there are so many: a server sees the end of a connection in its own time.
    pub(crate) fn wait_for_connections(&self, count: usize) {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = self.connections();
            if now == count {
                return;
            }
            assert!(
                Instant::now() < until,
                "{:?}: {now} connections, not {count}",
                self.kind
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What the server's own client prints for a command.
    pub(crate) fn ask(&self, text: &str) -> String {
        let mut client = match self.kind {
            Kind::MariaDb => {
                let mut client = command("mariadb", &self.dir);
                client.args(["--no-defaults", "--user=root", "-N", "-B", "-S"]);
                client.arg(self.address()).args(["-e", text]);
                client
            }
            Kind::Postgres => {
                let mut client = command("psql", &self.dir);
                client.args(["-X", "-A", "-t", "-q", "-U", "app", "-d", "postgres", "-h"]);
                client.arg(&self.dir).args(["-c", text]);
                client
            }
            Kind::Redis => {
                let mut client = command("redis-cli", &self.dir);
                client.arg("-s").arg(self.address()).args(text.split(' '));
                client
            }
        };
        succeed(&mut client).trim().to_owned()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        kill(i32::try_from(self.server.id()).unwrap(), self.stop);
        let _ = self.server.wait();
        if std::thread::panicking() {
            eprintln!(
                "--- {:?} in {}\n{}",
                self.kind,
                self.dir.display(),
                self.log.text()
            );
        } else {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A `MariaDB` that is quick to make.
const SMALL: [&str; 4] = [
    "--innodb-log-file-size=4M",
    "--innodb-buffer-pool-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
    "--skip-log-bin",
];

fn folder(name: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only uniqueness matters.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("hearth-{name}-{}-{number}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    dir
}

fn command(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    command
        .env("PATH", path)
        .env("HOME", dir)
        .current_dir(dir)
        .stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn spawn(command: &mut Command) -> Child {
    command
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}; dev/test.packages names what is needed"))
}

fn succeed(command: &mut Command) -> String {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawn(command).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// Debian keeps each version's programs in a folder of its own.
fn postgres_program(name: &str) -> String {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin").join(name))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    let newest = found
        .pop()
        .expect("PostgreSQL: dev/test.packages names what is needed");
    newest.display().to_string()
}
