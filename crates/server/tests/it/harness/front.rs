//! A web server as Debian installs it, on a port and in a folder of its own, in front of something that speaks FastCGI.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::server::kill;

/// Longest time until it answers, and until it is gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebServer {
    Nginx,
    /// With `mod_proxy_fcgi` and the event MPM.
    Apache,
}

/// A site: every path that names no file goes to `index.php`, as in front of Hearth. Ended when dropped, with all that was started in its
/// folder.
#[derive(Debug)]
pub(crate) struct Front {
    children: Vec<Child>,
    address: SocketAddr,
    dir: PathBuf,
}

impl Front {
    /// Serves the folder `root`, PHP by what listens on the unix socket `socket`.
    pub(crate) fn start(server: WebServer, root: &Path, socket: &Path) -> Self {
        let mut front = Self::new();
        front.run(server, root, socket);
        front
    }

    /// Nothing runs yet.
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("hearth-front-{}-{number}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        // Free a moment ago; neither can choose one itself.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self {
            children: Vec::new(),
            address,
            dir,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// For files of its own.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("front.log")).unwrap_or_default()
    }

    /// Starts the web server and waits until it listens.
    pub(super) fn run(&mut self, server: WebServer, root: &Path, socket: &Path) {
        let root_user = rustix::process::geteuid().is_root();
        let (template, user) = match server {
            WebServer::Nginx => (NGINX, "user root;"),
            // It refuses to run as root.
            WebServer::Apache => (APACHE, "User www-data\nGroup www-data"),
        };
        let config = template
            .replace("{user}", if root_user { user } else { "" })
            .replace("{folder}", &self.dir.display().to_string())
            .replace("{address}", &self.address.to_string())
            .replace("{root}", &root.canonicalize().unwrap().display().to_string())
            .replace("{socket}", &socket.display().to_string());
        let file = self.dir.join("front.conf");
        fs::write(&file, config).unwrap();
        let command = match server {
            WebServer::Nginx => {
                let mut command = Command::new("nginx");
                command
                    .arg("-p")
                    .arg(&self.dir)
                    .args(["-c", "front.conf", "-e", "front.log"]);
                command
            }
            WebServer::Apache => {
                let mut command = Command::new("apache2");
                command.arg("-f").arg(&file).args(["-D", "FOREGROUND"]);
                command
            }
        };
        self.spawn(command);
        let address = self.address;
        self.wait(|| TcpStream::connect(address).is_ok(), &format!("{server:?}"));
    }

    pub(super) fn spawn(&mut self, mut command: Command) {
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

    /// It does not tell when it is ready: asks until it is.
    pub(super) fn wait(&mut self, ready: impl Fn() -> bool, what: &str) {
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

impl Drop for Front {
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
const NGINX: &str = r#"
daemon off;
{user}
pid {folder}/front.pid;
error_log {folder}/front.log warn;
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

    upstream kept {
        server unix:{socket};
        keepalive 8;
    }

    server {
        listen {address};
        server_name parity.test;
        root {root};
        index index.php;

        location / {
            try_files $uri $uri/ /index.php$is_args$args;
        }

        location /kept/ {
            include /etc/nginx/fastcgi.conf;
            fastcgi_param SCRIPT_FILENAME $document_root/index.php;
            fastcgi_param SCRIPT_NAME /index.php;
            fastcgi_keep_conn on;
            fastcgi_pass kept;
        }

        location = /ini {
            include /etc/nginx/fastcgi.conf;
            fastcgi_param SCRIPT_FILENAME $document_root/index.php;
            fastcgi_param PHP_VALUE "upload_max_filesize=7M
                precision = 9";
            fastcgi_param PHP_ADMIN_VALUE "memory_limit=77M";
            fastcgi_pass unix:{socket};
        }

        location ~ \.php(/|$) {
            fastcgi_split_path_info ^(.+?\.php)(/.*)$;
            try_files $fastcgi_script_name =404;
            set $path_info $fastcgi_path_info;
            fastcgi_param PATH_INFO $path_info;
            include /etc/nginx/fastcgi.conf;
            # As the client wrote it; newer versions of nginx pass their own idea of it.
            fastcgi_param HTTP_HOST $http_host if_not_empty;
            fastcgi_pass unix:{socket};
        }
    }
}
"#;

/// Debian's modules; what it has in `sites-available` and `conf-available/php8.2-fpm.conf`.
const APACHE: &str = r#"
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/front.pid
ErrorLog {folder}/front.log
LogLevel warn
Listen {address}
ServerName parity.test
{user}

LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
LoadModule env_module /usr/lib/apache2/modules/mod_env.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
LoadModule setenvif_module /usr/lib/apache2/modules/mod_setenvif.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_fcgi_module /usr/lib/apache2/modules/mod_proxy_fcgi.so

TypesConfig /etc/mime.types
StartServers 1
ServerLimit 2
ThreadsPerChild 25
MaxRequestWorkers 50
DocumentRoot {root}
DirectoryIndex index.php

<Directory {root}>
    Require all granted
    CGIPassAuth On
    FallbackResource /index.php
</Directory>

<FilesMatch "\.php$">
    SetHandler "proxy:unix:{socket}|fcgi://localhost"
</FilesMatch>
"#;
