//! The server's part in these tests: one pool, driven through the shared memory and the sockets as the server does it.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ipc::control::{
    self, Boot, Bytes, Fork, FromWorker, FromZygote, Isolation, Mode, Process, Purpose, ToWorker, ToZygote,
    Warmup,
};
use ipc::head::{BodyKind, Known, RequestWriter, ResponseReader};
use ipc::layout::Layout;
use ipc::logline::{Kind, Lines};
use ipc::scoreboard;
use ipc::server_side::{Cursor, PoolMemory, ReactorId, Seen, WorkerMemory};
use ipc::slot::{Gen, Incarnation, SlotId, WorkerId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

/// What a test waits for comes within this, or the test fails.
const PATIENCE: Timespec = Timespec {
    tv_sec: 20,
    tv_nsec: 0,
};
const REACTOR: ReactorId = ReactorId(0);
const LAYOUT: Layout = Layout {
    reactors: 1,
    slots_per_reactor: 64,
    request_area: 64 * 1024,
};

const INI: &str = "\
log_errors=1
error_log=
display_errors=0
output_buffering=0
memory_limit=64M
ffi.enable=1
opcache.enable=1
opcache.file_update_protection=0
opcache.jit_buffer_size=16M
opcache.jit=tracing
";

/// A pool with its zygote and workers. All of them end with it.
pub(crate) struct Pool {
    memory: PoolMemory,
    wake_up: OwnedFd,
    socket: OwnedFd,
    zygote: Child,
    said: File,
    pub(crate) workers: Vec<Worker>,
    generations: Vec<Gen>,
    script: PathBuf,
    spooled: Option<File>,
    asked: Vec<FromWorker>,
}

/// A forked worker.
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) pid: i32,
    incarnation: Incarnation,
    memory: WorkerMemory,
    control: OwnedFd,
    pidfd: OwnedFd,
    output: OwnedFd,
    ended: bool,
    _lifeline: OwnedFd,
}

/// A response, read to its end or as far as it goes.
#[derive(Debug, Default)]
pub(crate) struct Response {
    bytes: Vec<u8>,
}

/// An exchange under way.
pub(crate) struct Pending {
    slot: SlotId,
    generation: Gen,
    cursor: Option<(Cursor, usize)>,
    pub(crate) response: Response,
}

/// One request. `body` is put into the slot or, when `spool` is set, into a file.
#[derive(Default)]
pub(crate) struct Get<'a> {
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) spool: bool,
}

impl Pool {
    /// Boots a zygote with `script` of `tests/apps`; the answer to the boot message.
    pub(crate) fn boot(mode: Mode, script: &str) -> (Self, FromZygote) {
        Self::boot_warmed(mode, script, (Warmup::None, &[]), "")
    }

    /// As `boot`, warmed by requests with these queries. `ini` is stronger than the usual settings.
    pub(crate) fn boot_warmed(
        mode: Mode,
        script: &str,
        (warmup, queries): (Warmup, &[&str]),
        ini: &str,
    ) -> (Self, FromZygote) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps");
        let script = dir.join(script);
        let memory = PoolMemory::create(LAYOUT).unwrap();
        let wake_up = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let (socket, theirs) = control::pair().unwrap();
        let said = memfd();
        let zygote = Command::new(env!("CARGO_BIN_EXE_hearth-worker"))
            .arg("zygote")
            .stdin(Stdio::from(theirs))
            .stderr(Stdio::from(said.try_clone().unwrap()))
            .spawn()
            .unwrap();
        let boot = ToZygote::Boot(Boot {
            purpose: Purpose::Serve,
            ini_keys: Vec::new(),
            pool: "web".into(),
            generation: 1,
            layout: LAYOUT,
            mode,
            isolation: Isolation::None,
            script: Some(script.to_str().unwrap().into()),
            dir: dir.to_str().unwrap().into(),
            stay_in_dir: false,
            process: Process::default(),
            root: dir.to_str().unwrap().into(),
            php_ini: None,
            dev: false,
            ini: format!("{INI}{ini}"),
            locked_ini: Vec::new(),
            warmup,
            warmup_requests: queries
                .iter()
                .map(|query| Bytes(head_of(&script, &get(query), 1)))
                .collect(),
            leak_check: 0,
        });
        let fds = memory.fds();
        let fds = [fds.ctl.as_fd(), fds.est.as_fd(), fds.req.as_fd(), wake_up.as_fd()];
        control::send(socket.as_fd(), &boot, &fds).unwrap();
        let pool = Self {
            memory,
            wake_up,
            socket,
            zygote,
            said,
            workers: Vec::new(),
            generations: vec![Gen::ZERO; LAYOUT.slots_per_reactor],
            script,
            spooled: None,
            asked: Vec::new(),
        };
        let answer = pool.hear().0;
        (pool, answer)
    }

    /// A booted pool with workers 0 .. `count`.
    pub(crate) fn start(mode: Mode, script: &str, count: u16) -> Self {
        let (mut pool, answer) = Self::boot(mode, script);
        assert!(matches!(answer, FromZygote::Ready { .. }), "{answer:?}");
        for worker in 0..count {
            pool.fork(worker, 0);
        }
        pool
    }

    /// What the zygote has written to its log so far.
    pub(crate) fn said(&self) -> String {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; usize::try_from(self.said.metadata().unwrap().len()).unwrap()];
        self.said.read_exact_at(&mut bytes, 0).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Process id of the zygote.
    pub(crate) fn zygote(&self) -> i32 {
        i32::try_from(self.zygote.id()).unwrap()
    }

    /// Next message of the zygote.
    pub(crate) fn hear(&self) -> (FromZygote, Vec<OwnedFd>) {
        wait_for(&[self.socket.as_fd()]);
        control::receive(self.socket.as_fd())
            .unwrap()
            .expect("the zygote talks")
    }

    /// Asks for a fork; what the zygote says if nothing comes of it.
    pub(crate) fn try_fork(&mut self, worker: u16, incarnation: u16) -> Result<(), Box<FromZygote>> {
        let memory = WorkerMemory::create().unwrap();
        let (ours, control) = control::pair().unwrap();
        control::ask_for_sender(ours.as_fd()).unwrap();
        let (lifeline, lifeline_writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (output, output_writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let id = WorkerId(worker);
        self.memory.worker(id).unwrap().reset();
        control::send(
            self.socket.as_fd(),
            &ToZygote::Fork(Fork { worker, incarnation }),
            &[
                memory.resp_fd(),
                memory.ack_fd(),
                control.as_fd(),
                lifeline.as_fd(),
                output_writer.as_fd(),
            ],
        )
        .unwrap();
        match self.hear().0 {
            FromZygote::Forked(forked) => assert_eq!(forked, Fork { worker, incarnation }),
            other => return Err(Box::new(other)),
        }
        wait_for(&[ours.as_fd()]);
        let mut packet = control::receive_packet(ours.as_fd())
            .unwrap()
            .expect("the worker talks");
        assert_eq!(packet.message::<FromWorker>().unwrap(), FromWorker::Ready);
        self.workers.retain(|old| old.id != id);
        self.workers.push(Worker {
            id,
            pid: packet.sender.unwrap().pid,
            incarnation: Incarnation(incarnation),
            memory,
            control: ours,
            pidfd: packet.fds.remove(0),
            output,
            ended: false,
            _lifeline: lifeline_writer,
        });
        Ok(())
    }

    /// Forks a worker.
    pub(crate) fn fork(&mut self, worker: u16, incarnation: u16) {
        self.try_fork(worker, incarnation).unwrap();
    }

    /// Waits for the end of a worker: its number, exit code and signal.
    pub(crate) fn exited(&self) -> (u16, Option<i32>, Option<i32>) {
        match self.hear().0 {
            FromZygote::Exited {
                worker, code, signal, ..
            } => (worker, code, signal),
            other => panic!("{other:?} instead of the end of a worker"),
        }
    }

    /// Tells a worker to drain.
    pub(crate) fn drain(&self, worker: u16) {
        self.memory.command(WorkerId(worker), scoreboard::Command::Drain);
    }

    /// Requests that a worker has finished.
    pub(crate) fn requests(&self, worker: u16) -> u64 {
        let board = self.memory.worker(WorkerId(worker)).unwrap();
        board.requests.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Queues a request.
    pub(crate) fn submit(&mut self, get: &Get<'_>) -> Pending {
        let index = self
            .memory
            .slots_of(REACTOR)
            .position(|slot| self.memory.word(slot).state() == Some(ipc::slot::State::Free))
            .unwrap();
        let slot = SlotId(u16::try_from(index).unwrap());
        let generation = self.generations[index].next();
        self.generations[index] = generation;
        let mut head = head_of(&self.script, get, 0x1000 + u64::from(generation.get()));
        if get.spool {
            let mut file = memfd();
            file.write_all(get.body).unwrap();
            self.spooled = Some(file);
            let len = get.body.len() as u64;
            self.memory
                .fill(slot, &mut head, BodyKind::Spooled, len, std::iter::empty());
        } else {
            let kind = if get.body.is_empty() {
                BodyKind::Empty
            } else {
                BodyKind::InSlot
            };
            let len = get.body.len() as u64;
            self.memory
                .fill(slot, &mut head, kind, len, std::iter::once(get.body));
        }
        self.memory.enqueue(slot, generation).unwrap();
        self.memory.wake_for_backlog(u32::MAX, u32::MAX);
        Pending {
            slot,
            generation,
            cursor: None,
            response: Response::default(),
        }
    }

    /// The whole response to one request.
    pub(crate) fn get(&mut self, query: &str) -> Response {
        let mut pending = self.submit(&get(query));
        self.finish(&mut pending);
        pending.response
    }

    /// The whole response to a request with a body.
    pub(crate) fn post(&mut self, query: &str, body: &[u8], spool: bool) -> Response {
        let mut pending = self.submit(&Get { query, body, spool });
        self.finish(&mut pending);
        pending.response
    }

    /// Waits until the response is complete.
    pub(crate) fn finish(&mut self, pending: &mut Pending) {
        while !self.advance(pending) {
            self.sleep();
        }
    }

    /// Waits until `enough` of the response is there; it must not be complete then.
    pub(crate) fn read_until(&mut self, pending: &mut Pending, enough: impl Fn(&Response) -> bool) {
        while !enough(&pending.response) {
            assert!(!self.advance(pending), "complete too early");
            if !enough(&pending.response) {
                self.sleep();
            }
        }
    }

    /// Reads what is there; true when the response is complete (then the slot is free again).
    fn advance(&mut self, pending: &mut Pending) -> bool {
        let seen = self.memory.look(pending.slot, pending.generation);
        let (worker, incarnation, lane, done) = match seen {
            Seen::Queued | Seen::Running(..) => return false,
            Seen::Streaming(worker, incarnation, lane) => (worker, incarnation, lane, false),
            Seen::Done(worker, incarnation, lane) => (worker, incarnation, lane, true),
            Seen::Garbage => panic!("garbage in the slot: {:?}", self.memory.word(pending.slot)),
        };
        let worker = self
            .workers
            .iter()
            .find(|w| w.id == worker && w.incarnation == incarnation)
            .expect("a worker that was forked");
        let (cursor, _) = pending
            .cursor
            .get_or_insert_with(|| (worker.memory.open(lane), 0));
        loop {
            let count = worker
                .memory
                .read(cursor, usize::MAX, &mut pending.response.bytes)
                .unwrap();
            self.memory.wake_worker_for_space(worker.id);
            if count == 0 {
                break;
            }
        }
        if done {
            self.memory.free(pending.slot, pending.generation);
        }
        done
    }

    /// Waits until a worker has published something, and answers what workers ask meanwhile.
    pub(crate) fn sleep(&mut self) {
        if !self.memory.park(REACTOR) {
            let mut fds = vec![self.wake_up.as_fd()];
            let live = |worker: &usize| !self.workers[*worker].ended;
            let live: Vec<_> = (0..self.workers.len()).filter(live).collect();
            fds.extend(live.iter().map(|&worker| self.workers[worker].control.as_fd()));
            for index in wait_for(&fds) {
                match index.checked_sub(1) {
                    None => {
                        let _ = rustix::io::read(&self.wake_up, &mut [0_u8; 8]);
                    }
                    Some(worker) => self.answer(live[worker]),
                }
            }
        }
        self.memory.unpark(REACTOR);
        self.memory.take_done(REACTOR, |_| {});
    }

    fn answer(&mut self, index: usize) {
        let socket = self.workers[index].control.as_fd();
        let Some((message, _)) = control::receive::<FromWorker>(socket).unwrap() else {
            // It has ended; its responses can still be read.
            self.workers[index].ended = true;
            return;
        };
        let FromWorker::BodyFd { slot, generation } = message else {
            panic!("nothing was to be looked for: {message:?}")
        };
        self.asked.push(message);
        let fds: Vec<_> = self.spooled.iter().map(AsFd::as_fd).collect();
        // An answer to nobody's question must not confuse the worker.
        let stray = ToWorker::Body {
            slot,
            generation: generation + 1,
        };
        control::send(socket, &stray, &[]).unwrap();
        control::send(socket, &ToWorker::Body { slot, generation }, &fds).unwrap();
    }

    /// How often workers asked for a spooled body.
    pub(crate) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Marks the exchange's client as gone.
    pub(crate) fn client_gone(&self, pending: &Pending) {
        self.memory.client_gone(pending.slot, pending.generation);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // The lifelines close with the workers, and end them; the zygote ends by its parent's hand.
        let _ = self.zygote.kill();
        let _ = self.zygote.wait();
    }
}

impl Worker {
    /// What it has written so far, as `(request, level, message)`; waits for at least one line.
    pub(crate) fn said(&self) -> Vec<(Option<u64>, Kind, String)> {
        let mut lines = Lines::default();
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        while said.is_empty() {
            wait_for(&[self.output.as_fd()]);
            let count = rustix::io::read(&self.output, &mut buffer).unwrap();
            assert!(count > 0, "the worker ended without a word");
            lines.feed(&buffer[..count], |line| {
                let message = String::from_utf8_lossy(line.message).into_owned();
                said.push((line.request, line.kind, message));
            });
        }
        said
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::pidfd_send_signal(&self.pidfd, signal).unwrap();
    }

    /// Waits for its end, as its pidfd tells it.
    pub(crate) fn wait(&self) {
        wait_for(&[self.pidfd.as_fd()]);
    }
}

impl Response {
    fn head(&self) -> Option<(ResponseReader<'_>, usize)> {
        let len = ResponseReader::expected_len(&self.bytes)?.unwrap();
        let head = ResponseReader::new(self.bytes.get(..len)?).unwrap();
        Some((head, len))
    }

    /// The status of the (first) head.
    pub(crate) fn status(&self) -> u16 {
        self.head().expect("a head").0.status()
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let (head, _) = self.head()?;
        head.headers().map(Result::unwrap).find_map(|(n, value)| {
            n.eq_ignore_ascii_case(name.as_bytes())
                .then(|| String::from_utf8_lossy(value).into_owned())
        })
    }

    /// What came after the (first) head.
    pub(crate) fn rest(&self) -> Self {
        Self {
            bytes: self.body().to_vec(),
        }
    }

    /// The bytes after the head so far.
    pub(crate) fn body(&self) -> &[u8] {
        self.head().map_or(&[], |(_, len)| &self.bytes[len..])
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.body()).into_owned()
    }
}

/// Waits for any of them to become readable (or to end): their indices.
pub(crate) fn wait_for(fds: &[BorrowedFd<'_>]) -> Vec<usize> {
    let mut polled: Vec<_> = fds
        .iter()
        .map(|&fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    let count = poll(&mut polled, Some(&PATIENCE)).unwrap();
    assert!(count > 0, "nothing happened in time");
    let ready = polled
        .iter()
        .enumerate()
        .filter(|(_, fd)| !fd.revents().is_empty());
    ready.map(|(index, _)| index).collect()
}

fn head_of(script: &Path, get: &Get<'_>, id: u64) -> Vec<u8> {
    let script = script.to_str().unwrap().as_bytes();
    let uri = format!("/index.php?{}", get.query);
    let method: &[u8] = if get.body.is_empty() { b"GET" } else { b"POST" };
    let mut head = RequestWriter::new(id, 1024);
    head.known(Known::Script, b"SCRIPT_FILENAME", script);
    head.known(Known::Query, b"QUERY_STRING", get.query.as_bytes());
    head.known(Known::Method, b"REQUEST_METHOD", method);
    head.known(Known::Uri, b"REQUEST_URI", uri.as_bytes());
    head.known(Known::Protocol, b"SERVER_PROTOCOL", b"HTTP/1.1");
    if !get.body.is_empty() {
        let content_type = b"application/octet-stream";
        head.known(Known::ContentType, b"CONTENT_TYPE", content_type);
        let length = get.body.len().to_string();
        head.known(Known::ContentLength, b"CONTENT_LENGTH", length.as_bytes());
    }
    head.param(b"SCRIPT_NAME", b"/index.php");
    head.header(b"host", b"localhost");
    head.finish()
}

fn get(query: &str) -> Get<'_> {
    Get {
        query,
        ..Get::default()
    }
}

fn memfd() -> File {
    use rustix::fs::{MemfdFlags, memfd_create};
    File::from(memfd_create("spool", MemfdFlags::CLOEXEC).unwrap())
}
