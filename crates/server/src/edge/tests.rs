//! The whole of `edge` over a real connection, with a backend that answers itself: bytes in, status out.

mod bodies;
mod clients;
mod connections;
mod echo;
mod fastcgi;
mod files;
mod malformed;
mod responses;
mod settings;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::echo::Echo;
pub(super) use self::settings::config;
use super::access_log::AccessLog;
use super::{Listener, Site, Sites, split};
use crate::config::{Config, Limits, LogFormat, Mode, Place, Protocol};

const FILES: [(&str, &str); 8] = [
    ("index.php", "<?php // front"),
    ("a.txt", "0123456789"),
    ("a.php", "<?php // a"),
    ("a.php~", "<?php // old"),
    (".env", "SECRET=1"),
    (".well-known/x", "known"),
    ("sub/index.html", "<p>sub"),
    ("bare/b.css", "b{}"),
];

/// A server on a thread of its own; stopped and joined when dropped.
struct Server {
    address: SocketAddr,
    dir: PathBuf,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
    log: Arc<Mutex<Vec<u8>>>,
    arrivals: mpsc::Receiver<()>,
    gate: CancellationToken,
}

struct LogTo(Arc<Mutex<Vec<u8>>>);

impl Write for LogTo {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Server {
    fn start(mode: Mode, change: impl FnOnce(&mut Limits)) -> Self {
        Self::speaking(Protocol::Http, mode, change)
    }

    fn speaking(protocol: Protocol, mode: Mode, change: impl FnOnce(&mut Limits)) -> Self {
        Self::start_with(mode, |config| {
            config.listen[0].protocol = protocol;
            change(&mut config.limits);
        })
    }

    fn start_with(mode: Mode, change: impl FnOnce(&mut Config)) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("hearth-edge-{}-{number}", std::process::id()));
        for (name, text) in FILES {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut config = config(&dir, mode);
        change(&mut config);
        let listener = Listener::bind(&config.listen[0], None).unwrap();
        let Place::Tcp(address) = listener.listen.place else {
            panic!("no TCP")
        };
        let stop = CancellationToken::new();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (access, token) = (LogTo(Arc::clone(&log)), stop.clone());
        let (arrived, arrivals) = mpsc::channel();
        let gate = CancellationToken::new();
        let echo = Echo {
            arrived,
            gate: gate.clone(),
        };
        let thread = std::thread::spawn(move || {
            let access = AccessLog::start(LogFormat::Text, access).unwrap();
            let (acceptor, intakes) = split(1, config.limits.connections);
            let sites = Arc::new(Sites::new(Site::new(Arc::new(config), ()), Some(access)));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let accepting = tokio::spawn(acceptor.run(vec![listener], (token.clone(), token.clone())));
                for intake in intakes {
                    intake
                        .serve(Arc::clone(&sites), echo.clone(), (token.clone(), token.clone()))
                        .await;
                }
                accepting.await.unwrap().unwrap();
            });
        });
        Self {
            address,
            dir,
            stop,
            thread: Some(thread),
            log,
            arrivals,
            gate,
        }
    }

    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }

    /// Sends `bytes`, ends the sending side and returns everything that comes back.
    fn exchange(&self, bytes: &[u8]) -> String {
        let mut socket = self.connect();
        // The server may have answered and closed before it took everything.
        let _ = socket.write_all(bytes);
        let _ = socket.shutdown(Shutdown::Write);
        read_all(&mut socket)
    }

    fn get(&self, path: &str) -> String {
        self.exchange(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes())
    }

    /// Stops the server and returns its access log.
    fn stop(mut self) -> String {
        self.stop.cancel();
        self.thread.take().unwrap().join().unwrap();
        let log = self.log.lock().unwrap();
        String::from_utf8(log.clone()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        self.gate.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn read_all(socket: &mut TcpStream) -> String {
    let mut out = Vec::new();
    // A reset ends it as well; what came before counts.
    let _ = socket.read_to_end(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn statuses(answer: &str) -> Vec<u16> {
    let lines = answer.lines().filter(|l| l.starts_with("HTTP/1."));
    lines.filter_map(|l| l.get(9..12)?.parse().ok()).collect()
}

fn wait_for_log(server: &Server, word: &str) -> String {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let log = String::from_utf8(server.log.lock().unwrap().clone()).unwrap();
        if log.contains(word) {
            return log;
        }
        assert!(std::time::Instant::now() < deadline, "no {word} in {log}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
