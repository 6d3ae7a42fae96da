//! The whole of `edge` over a real connection, with a backend that answers itself: bytes in, status out.

mod clients;
mod fastcgi;
mod malformed;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use ipc::head::RequestReader;
use tokio_util::sync::CancellationToken;

use super::access_log::AccessLog;
use super::{Backend, Listener, Site, Sites, split};
use crate::config::{
    AdminSocket, ByteSize, Compression, Config, FastCgi, Health, Isolation, IsolationMethod, Limits, Listen,
    Log, LogFormat, Mode, Place, Pool, Process, Protocol, Proxy, Recycling, Reload, Requests, Tls, Warmup,
};
use crate::dispatch::{DispatchError, Request, RequestBody, Response, ResponseBody};

/// Answers with the variables it got, or as the target says.
#[derive(Clone)]
struct Echo {
    /// Told of each request for `/wait`.
    arrived: mpsc::Sender<()>,
    /// Cancelled when these are to be answered.
    gate: CancellationToken,
}

impl Backend for Echo {
    type Pools = ();

    async fn send(&self, ((), _): (&(), usize), request: Request) -> Result<Response, DispatchError> {
        let reader = RequestReader::new(&request.head).unwrap();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let vars: Vec<(String, String)> = reader.params().map(|p| (text(p.name), text(p.value))).collect();
        let uri = vars.iter().find(|(n, _)| n == "REQUEST_URI").unwrap().1.clone();
        let mut headers = HeaderMap::new();
        let mut status = StatusCode::OK;
        let whole = |s: &'static str| ResponseBody::Whole(Some(Bytes::from_static(s.as_bytes())));
        let mut body = match uri.as_str() {
            "/died" => return Err(DispatchError::WorkerDied { worker: 1 }),
            "/full" => return Err(DispatchError::QueueFull { pool: "web".into() }),
            "/late" => {
                return Err(DispatchError::RequestTimeout {
                    limit: Duration::from_secs(1),
                });
            }
            "/short" | "/long" => whole("hello"),
            "/nobody" => whole("not to be seen"),
            "/hops" => whole("hops"),
            "/stream" | "/stream-died" => stream(uri == "/stream-died"),
            _ => ResponseBody::Whole(Some(Bytes::from(describe(&vars, &request.body)))),
        };
        let put: &[(&'static str, &'static str)] = match uri.as_str() {
            "/short" => &[("content-length", "3")],
            "/long" => &[("content-length", "9")],
            "/hops" => &[
                ("connection", "x-y"),
                ("transfer-encoding", "gzip"),
                ("keep-alive", "1"),
                ("x-kept", "1"),
            ],
            _ => &[],
        };
        for (name, value) in put {
            headers.insert(*name, value.parse().unwrap());
        }
        if uri == "/nobody" {
            status = StatusCode::NO_CONTENT;
        }
        if uri == "/wait" {
            self.arrived.send(()).unwrap();
            self.gate.cancelled().await;
            body = whole("waited");
        }
        let reason = if uri == "/reason" {
            Bytes::from_static(b"Fine by me")
        } else {
            Bytes::new()
        };
        Ok(Response {
            status,
            reason,
            headers,
            body,
            worker: 7,
        })
    }
}

fn stream(dies: bool) -> ResponseBody {
    let mut frames = vec![Ok("one"), Ok("two")];
    if dies {
        frames.push(Err(DispatchError::WorkerDied { worker: 1 }));
    }
    ResponseBody::Stream(Box::pin(Frames(frames.into_iter())))
}

struct Frames(std::vec::IntoIter<Result<&'static str, DispatchError>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = DispatchError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DispatchError>>> {
        let next = self.get_mut().0.next();
        Poll::Ready(next.map(|r| r.map(|s| Frame::data(Bytes::from_static(s.as_bytes())))))
    }
}

fn describe(vars: &[(String, String)], body: &RequestBody) -> String {
    use std::fmt::Write;

    let mut out = String::new();
    for (name, value) in vars {
        out += &[name, "=", value, "\n"].concat();
    }
    match body {
        RequestBody::Empty => out.push_str("body: none\n"),
        RequestBody::Memory(parts) => {
            out += &["body: memory ", &String::from_utf8_lossy(&parts.concat()), "\n"].concat();
        }
        RequestBody::Spooled { file, len } => {
            let size = file.metadata().unwrap().len();
            writeln!(out, "body: spooled {size} of {len}").unwrap();
        }
    }
    out
}

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

fn pool(dir: &std::path::Path, mode: Mode) -> Pool {
    Pool {
        name: "web".into(),
        requests: Requests::default(),
        dir: dir.to_path_buf(),
        root: dir.to_path_buf(),
        rules: Vec::new(),
        error_pages: Vec::new(),
        intercept_errors: false,
        internal: Vec::new(),
        mode,
        script: (mode == Mode::Resident).then(|| dir.join("worker.php")),
        isolation: Isolation::None,
        warmup: Warmup::None,
        warmup_paths: Vec::new(),
        leak_check: 0,
        isolation_method: IsolationMethod::Auto,
        paranoid: false,
        workers: 1,
        min_workers: 1,
        worker_idle_timeout: Duration::from_mins(1),
        recycling: Recycling::default(),
        process: Process::default(),
        php_ini: None,
        ini: Vec::new(),
        admin_ini: Vec::new(),
        queue_length: 1,
        queue_timeout: Duration::from_secs(1),
        request_timeout: Duration::from_secs(1),
        request_grace: Duration::from_secs(1),
        slow_log: Duration::ZERO,
        health: Health {
            path: String::new(),
            status: None,
        },
        max_unavailable: 0,
        boot_timeout: Duration::from_secs(1),
        worker_binary: PathBuf::new(),
    }
}

pub(super) fn config(dir: &std::path::Path, mode: Mode) -> Config {
    Config {
        dir: dir.to_path_buf(),
        name: dir.to_path_buf(),
        listen: vec![Listen {
            place: Place::Tcp("127.0.0.1:0".parse().unwrap()),
            protocol: Protocol::Http,
        }],
        reactors: 1,
        limits: Limits::default(),
        fastcgi: FastCgi::default(),
        proxy: Proxy::default(),
        rate: None,
        tls: Tls::default(),
        compression: Compression::default(),
        log: Log {
            format: LogFormat::Text,
            level: tracing::Level::INFO,
            access: true,
            file: None,
            access_file: None,
        },
        pools: vec![pool(dir, mode)],
        stop_timeout: Duration::from_secs(1),
        reload: Reload::default(),
        watch: false,
        admin_listen: None,
        admin_socket: AdminSocket::Off,
        spool_dir: std::env::temp_dir(),
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

#[test]
fn a_request_with_length_and_coding_ends_its_connection() {
    let server = Server::start(Mode::Resident, |_| {});
    let answer = server.exchange(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(statuses(&answer).len(), 1, "{answer}");
}

#[test]
fn errors_of_dispatch_have_one_status_each() {
    let server = Server::start(Mode::Resident, |_| {});
    for (path, status) in [("/died", 502), ("/full", 503), ("/late", 504)] {
        let answer = server.get(path);
        assert_eq!(statuses(&answer), [status], "{answer}");
        assert_eq!(answer.contains("retry-after"), status == 503);
    }
    let log = server.stop();
    for ending in ["worker-died", "queue-full", "request-timeout"] {
        assert!(log.contains(&format!(" - {ending}\n")), "{log}");
    }
}

#[test]
fn lengths_and_connection_headers_of_scripts_are_not_trusted() {
    let server = Server::start(Mode::Resident, |_| {});
    assert!(server.get("/short").ends_with("\r\n\r\nhel"));
    let long = server.get("/long");
    assert!(
        long.contains("content-length: 9") && long.ends_with("\r\n\r\nhello"),
        "{long}"
    );
    let twice = "GET /long HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
    assert_eq!(
        statuses(&server.exchange(twice.as_bytes())),
        [200],
        "the connection is not used again"
    );
    let nobody = server.get("/nobody");
    assert!(nobody.ends_with("\r\n\r\n"), "{nobody}");
    let hops = server.get("/hops");
    assert!(
        hops.contains("x-kept: 1") && hops.contains("content-length: 4"),
        "{hops}"
    );
    assert!(
        !hops.contains("gzip") && !hops.contains("x-y") && !hops.contains("keep-alive"),
        "{hops}"
    );
    assert!(server.get("/reason").starts_with("HTTP/1.1 200 Fine by me\r\n"));
}

#[test]
fn a_stream_is_chunked_and_a_broken_one_has_no_end() {
    let server = Server::start(Mode::Resident, |_| {});
    assert!(
        server
            .get("/stream")
            .ends_with("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    );
    let broken = server.get("/stream-died");
    assert_eq!(statuses(&broken), [200]);
    assert!(!broken.ends_with("0\r\n\r\n"), "{broken}");
    let log = server.stop();
    assert!(
        log.contains(" w7 ok\n") && log.contains(" w7 worker-died\n"),
        "{log}"
    );
}

#[test]
fn bodies_are_received_whole_and_spooled_when_big() {
    let server = Server::start(Mode::Resident, |l| {
        l.body_memory = ByteSize(8);
        l.body_bytes = ByteSize::kib(64);
    });
    let post = |head: &str, body: &str| {
        server.exchange(
            format!("POST /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{head}\r\n\r\n{body}").as_bytes(),
        )
    };
    let small = post("Content-Length: 3", "abc");
    assert!(
        small.contains("\nCONTENT_LENGTH=3\n") && small.ends_with("body: memory abc\n"),
        "{small}"
    );
    let chunked = post("Transfer-Encoding: chunked", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert!(
        chunked.contains("\nCONTENT_LENGTH=5\n") && chunked.ends_with("body: memory abcde\n"),
        "{chunked}"
    );
    let big = post("Content-Length: 40000", &"x".repeat(40_000));
    assert!(big.ends_with("body: spooled 40000 of 40000\n"), "{big}");
    assert_eq!(statuses(&post("Content-Length: 70000", "")), [413]);
    let endless = format!("10000\r\n{}\r\n10\r\n0123456789abcdef\r\n", "x".repeat(65536));
    assert_eq!(statuses(&post("Transfer-Encoding: chunked", &endless)), [413]);
    assert_eq!(
        statuses(&post("Expect: 100-continue\r\nContent-Length: 70000", "")),
        [413]
    );
    let mut socket = server.connect();
    socket
        .write_all(b"POST /b HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .unwrap();
    let mut interim = [0; 25];
    socket.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"ab").unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    assert!(read_all(&mut socket).ends_with("body: memory ab\n"));
}

#[test]
fn slow_clients_are_cut() {
    let server = Server::start(Mode::Resident, |l| {
        l.header_timeout = Duration::from_millis(200);
        l.idle_timeout = Duration::from_millis(300);
        l.body_timeout = Duration::from_millis(200);
        l.write_timeout = Duration::from_millis(300);
    });
    // Nothing sent: closed without a word.
    assert_eq!(read_all(&mut server.connect()), "");
    let mut head = server.connect();
    head.write_all(b"GET / HT").unwrap();
    assert_eq!(statuses(&read_all(&mut head)), [408]);
    let mut body = server.connect();
    body.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na")
        .unwrap();
    assert_eq!(statuses(&read_all(&mut body)), [408]);
    let mut idle = server.connect();
    idle.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(statuses(&read_all(&mut idle)), [200], "answered, then closed");
    let big = fs::File::create(server.dir.join("big.bin")).unwrap();
    big.set_len(256 << 20).unwrap();
    let mut deaf = server.connect();
    deaf.write_all(b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let log = wait_for_log(&server, "write-timeout");
    assert!(
        log.contains("head-timeout") && log.contains("body-timeout"),
        "{log}"
    );
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

#[test]
fn a_stop_answers_what_was_asked_and_closes_the_rest() {
    let server = Server::start(Mode::Resident, |_| {});
    let mut idle = server.connect();
    idle.write_all(b"GET /short HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut first = [0; 16];
    idle.read_exact(&mut first).unwrap();
    let mut busy = server.connect();
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    server.arrivals.recv_timeout(Duration::from_secs(20)).unwrap();
    let mut fresh = server.connect();
    fresh.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    server.stop.cancel();
    // It is closed by the stop, which has begun then.
    assert!(read_all(&mut idle).ends_with("hel"));
    server.gate.cancel();
    for socket in [&mut busy, &mut fresh] {
        let answer = read_all(socket);
        assert!(
            answer.contains("connection: close") && answer.ends_with("waited"),
            "{answer}"
        );
    }
    let address = server.address;
    let log = server.stop();
    assert_eq!(log.lines().count(), 3, "{log}");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(Mode::Resident, |_| {});
    let asked: Vec<String> = (0..40)
        .map(|n| format!("GET /p{n} HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect();
    let answer = server.exchange(asked.concat().as_bytes());
    let order: Vec<&str> = answer
        .lines()
        .filter_map(|l| l.strip_prefix("REQUEST_URI=/p"))
        .collect();
    assert_eq!(order, (0..40).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn files_are_served_with_validators_and_ranges() {
    let server = Server::start(Mode::Resident, |_| {});
    let ask = |path: &str, more: &str| {
        server
            .exchange(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n").as_bytes())
    };
    let whole = ask("/a.txt", "");
    assert!(
        whole.contains("content-type: text/plain; charset=utf-8") && whole.ends_with("\r\n\r\n0123456789"),
        "{whole}"
    );
    let etag = whole.lines().find_map(|l| l.strip_prefix("etag: ")).unwrap();
    let same = ask("/a.txt", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!(statuses(&same), [304], "{same}");
    let part = ask("/a.txt", "Range: bytes=2-4\r\n");
    assert!(
        part.contains("content-range: bytes 2-4/10") && part.ends_with("\r\n\r\n234"),
        "{part}"
    );
    let parts = ask("/a.txt", "Range: bytes=0-0,-1\r\n");
    assert!(
        parts.contains("multipart/byteranges") && parts.contains("bytes 9-9/10\r\n\r\n9\r\n--"),
        "{parts}"
    );
    let length: usize = parts
        .lines()
        .find_map(|l| l.strip_prefix("content-length: "))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(parts.split_once("\r\n\r\n").unwrap().1.len(), length);
    let none = ask("/a.txt", "Range: bytes=10-\r\n");
    assert!(
        statuses(&none) == [416] && none.contains("content-range: bytes */10"),
        "{none}"
    );
    let head = server.exchange(b"HEAD /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(
        head.contains("content-length: 10") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let post = server.exchange(b"POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert!(
        statuses(&post) == [405] && post.contains("allow: GET, HEAD"),
        "{post}"
    );
    assert!(ask("/.well-known/x", "").ends_with("known"));
    for secret in ["/.env", "/a.php", "/a.php~", "/%2eenv", "/bare/../.env"] {
        let answer = ask(secret, "");
        assert!(
            answer.contains("SCRIPT_NAME=/worker.php") && !answer.contains("SECRET=1"),
            "{secret}: {answer}"
        );
    }
}

#[test]
fn a_big_file_comes_whole() {
    let server = Server::start(Mode::Resident, |_| {});
    let bytes: Vec<u8> = (0..3_000_001_u32)
        .map(|n| u8::try_from(n % 26).unwrap() + b'a')
        .collect();
    fs::write(server.dir.join("big.txt"), &bytes).unwrap();
    let answer = server.get("/big.txt");
    assert!(answer.split_once("\r\n\r\n").unwrap().1.as_bytes() == bytes);
}

#[test]
fn a_classic_site_finds_scripts_indexes_and_nothing() {
    let server = Server::start(Mode::Classic, |_| {});
    let info = server.get("/a.php/x%20y?q=1");
    for line in [
        "SCRIPT_NAME=/a.php",
        "PATH_INFO=/x y",
        "QUERY_STRING=q=1",
        "REQUEST_URI=/a.php/x%20y?q=1",
    ] {
        assert!(info.contains(&format!("\n{line}\n")), "{line} in {info}");
    }
    assert!(server.get("/").contains("\nSCRIPT_NAME=/index.php\n"));
    assert!(server.get("/sub/").ends_with("<p>sub"));
    assert!(server.get("/sub?x").contains("location: /sub/?x\r\n"));
    assert!(server.get("//sub").contains("location: /sub/\r\n"));
    for gone in ["/none.php", "/none", "/bare/", "/.env", "/a.php~", "/.x/a.php"] {
        assert_eq!(statuses(&server.get(gone)), [404], "{gone}");
    }
}
