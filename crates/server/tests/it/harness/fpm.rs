//! A web server and php-fpm as Debian installs them, on a port and in a folder of their own: what Hearth is compared with.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::front::{Front, WebServer};

/// A site: every path that names no file goes to `index.php`, as in front of Hearth.
#[derive(Debug)]
pub(crate) struct Fpm(Front);

impl Fpm {
    /// Serves the folder `root` by nginx. `ini` is the text of php.ini; `environment` is added to what PHP has.
    pub(crate) fn start(root: &Path, ini: &str, environment: &[(&str, &str)], workers: usize) -> Self {
        Self::start_by(&[], root, ini, environment, workers)
    }

    /// The same, php-fpm run by a program that gets its command line.
    pub(crate) fn start_by(
        runner: &[OsString],
        root: &Path,
        ini: &str,
        environment: &[(&str, &str)],
        workers: usize,
    ) -> Self {
        Self::behind(WebServer::Nginx, (runner, root), ini, environment, workers)
    }

    /// The same by any web server.
    pub(crate) fn behind(
        server: WebServer,
        (runner, root): (&[OsString], &Path),
        ini: &str,
        environment: &[(&str, &str)],
        workers: usize,
    ) -> Self {
        let mut fpm = Self(Front::new());
        fpm.run_php(runner, ini, environment, workers);
        let socket = fpm.0.dir().join("fpm.sock");
        fpm.0.run(server, root, &socket);
        fpm
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address()
    }

    fn run_php(&mut self, runner: &[OsString], ini: &str, environment: &[(&str, &str)], workers: usize) {
        let socket = self.0.dir().join("fpm.sock");
        let variables: Vec<String> = environment
            .iter()
            .map(|(name, value)| format!("env[{name}] = {value}"))
            .collect();
        let variables = variables.join("\n");
        let root = rustix::process::geteuid().is_root();
        let user = if root { "user = root\ngroup = root\n" } else { "" };
        let config = format!(
            "[global]\nerror_log = {log}\ndaemonize = no\n\n[www]\nlisten = {socket}\nlisten.mode = 0666\n{user}pm = static\n\
             pm.max_children = {workers}\ncatch_workers_output = yes\n{variables}\n",
            log = self.0.dir().join("fpm.log").display(),
            socket = socket.display(),
        );
        fs::write(self.0.dir().join("fpm.conf"), config).unwrap();
        fs::write(self.0.dir().join("php.ini"), ini).unwrap();
        // The version that hearth-worker was built with.
        let version = std::env::var("PHP_VERSION").unwrap_or_else(|_| "8.2".to_owned());
        let php = OsString::from(format!("php-fpm{version}"));
        let mut words = runner.iter().chain([&php]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(["-F", "-y", "fpm.conf", "-c", "php.ini"]);
        if root {
            command.arg("-R");
        }
        self.0.spawn(command);
        self.0.wait(|| socket.exists(), "php-fpm");
    }
}
