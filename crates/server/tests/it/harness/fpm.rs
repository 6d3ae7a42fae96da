//! nginx and php-fpm as Debian installs them, on a port and in a folder of their own: what Hearth is compared with.

use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::server::kill;

/// Longest time until both answer, and until both are gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// A site: every path that names no file goes to `index.php`, as in front of Hearth.
#[derive(Debug)]
pub(crate) struct Fpm {
    children: Vec<Child>,
    address: SocketAddr,
    dir: PathBuf,
}

impl Fpm {
    /// Serves the folder `root`. `ini` is the text of php.ini; `environment` is added to what PHP has.
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
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("hearth-fpm-{}-{number}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        // Free a moment ago; nginx cannot choose one itself.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut fpm = Self {
            children: Vec::new(),
            address,
            dir,
        };
        fpm.run_php(runner, ini, environment, workers);
        fpm.run_nginx(root);
        fpm
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn run_php(&mut self, runner: &[OsString], ini: &str, environment: &[(&str, &str)], workers: usize) {
        let socket = self.dir.join("fpm.sock");
        let variables: Vec<String> = environment
            .iter()
            .map(|(name, value)| format!("env[{name}] = {value}"))
            .collect();
        let variables = variables.join("\n");
        let root = rustix::process::geteuid().is_root();
        let user = if root { "user = root\ngroup = root\n" } else { "" };
        let config = format!(
            "[global]\nerror_log = {log}\ndaemonize = no\n\n[www]\nlisten = {socket}\n{user}pm = static\n\
             pm.max_children = {workers}\ncatch_workers_output = yes\n{variables}\n",
            log = self.dir.join("fpm.log").display(),
            socket = socket.display(),
        );
        fs::write(self.dir.join("fpm.conf"), config).unwrap();
        fs::write(self.dir.join("php.ini"), ini).unwrap();
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
        self.spawn(command);
        self.wait(|| socket.exists(), "php-fpm");
    }

    fn run_nginx(&mut self, root: &Path) {
        let user = if rustix::process::geteuid().is_root() {
            "user root;"
        } else {
            ""
        };
        let config = NGINX
            .replace("{user}", user)
            .replace("{folder}", &self.dir.display().to_string())
            .replace("{address}", &self.address.to_string())
            .replace("{root}", &root.canonicalize().unwrap().display().to_string());
        fs::write(self.dir.join("nginx.conf"), config).unwrap();
        let mut command = Command::new("nginx");
        command
            .arg("-p")
            .arg(&self.dir)
            .args(["-c", "nginx.conf", "-e", "nginx.log"]);
        self.spawn(command);
        let address = self.address;
        self.wait(|| TcpStream::connect(address).is_ok(), "nginx");
    }

    fn spawn(&mut self, mut command: Command) {
        let output = fs::File::create(self.dir.join(format!("output-{}.log", self.children.len()))).unwrap();
        // Debian keeps both where the PATH of a user may not lead.
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        command
            .env("PATH", path)
            .current_dir(&self.dir)
            .stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}; dev/test.packages names what is needed"));
        self.children.push(child);
    }

    /// Neither tells when it is ready: asks until it is.
    fn wait(&mut self, ready: impl Fn() -> bool, what: &str) {
        let until = Instant::now() + PATIENCE;
        while !ready() {
            let gone = self
                .children
                .iter_mut()
                .any(|child| child.try_wait().unwrap().is_some());
            assert!(
                !gone && Instant::now() < until,
                "{what} did not start:\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn logs(&self) -> String {
        let files = fs::read_dir(&self.dir)
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        files
            .filter(|path| path.extension().is_some_and(|e| e == "log"))
            .map(|path| {
                let text = fs::read_to_string(&path).unwrap_or_default();
                format!("--- {}\n{text}", path.display())
            })
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            if child.try_wait().is_ok_and(|status| status.is_none()) {
                kill(i32::try_from(child.id()).unwrap(), Signal::TERM);
            }
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        } else {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Debian's `fastcgi.conf` and `snippets/fastcgi-php.conf`, and room for large headers and bodies.
const NGINX: &str = r"
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
worker_processes 1;

events {}

http {
    access_log off;
    default_type application/octet-stream;
    client_body_temp_path {folder}/body;
    fastcgi_temp_path {folder}/fastcgi;
    proxy_temp_path {folder}/proxy;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 0;
    large_client_header_buffers 8 32k;
    fastcgi_buffer_size 64k;
    fastcgi_buffers 8 64k;

    server {
        listen {address};
        server_name parity.test;
        root {root};
        index index.php;

        location / {
            try_files $uri $uri/ /index.php$is_args$args;
        }

        location ~ \.php(/|$) {
            fastcgi_split_path_info ^(.+?\.php)(/.*)$;
            try_files $fastcgi_script_name =404;
            set $path_info $fastcgi_path_info;
            fastcgi_param PATH_INFO $path_info;
            include /etc/nginx/fastcgi.conf;
            # As the client wrote it; newer versions of nginx pass their own idea of it.
            fastcgi_param HTTP_HOST $http_host if_not_empty;
            fastcgi_pass unix:{folder}/fpm.sock;
        }
    }
}
";
