//! Wild writes: a worker scribbles on what it shares with all others. Workers are lost, requests that wait are not.

use std::fs::{self, File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use ipc::layout::{Ctl, MAX_SLOTS, RING_CELLS, SlotBlock};
use ipc::scoreboard::WorkerBlock;
use ipc::slot::State;

use crate::harness::{Server, in_each_mode};

/// CTL, to which any worker can write.
fn ctl(server: &Server) -> File {
    let fds = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let is_ctl = |link: &std::path::PathBuf| {
        fs::read_link(link).is_ok_and(|name| name.to_string_lossy().contains("hearth-ctl"))
    };
    let ctl = fds.map(|fd| fd.unwrap().path()).find(is_ctl).unwrap();
    OpenOptions::new().read(true).write(true).open(ctl).unwrap()
}

fn scribble(server: &Server, at: usize, bytes: &[u8]) {
    ctl(server)
        .write_all_at(bytes, u64::try_from(at).unwrap())
        .unwrap();
}

/// Waits until so many slots are queued.
fn wait_for_queued(server: &Server, count: usize) {
    let ctl = ctl(server);
    let mut slots = vec![0; size_of::<SlotBlock>() * MAX_SLOTS];
    let until = Instant::now() + Duration::from_secs(20);
    let queued = |slots: &[u8]| {
        let words = slots.chunks(size_of::<SlotBlock>());
        words
            .filter(|block| block[offset_of!(SlotBlock, word)] == State::Queued as u8)
            .count()
    };
    while queued(&slots) < count {
        assert!(Instant::now() < until, "the requests were never queued");
        std::thread::yield_now();
        let at = u64::try_from(offset_of!(Ctl, slots)).unwrap();
        ctl.read_exact_at(&mut slots, at).unwrap();
    }
}

/// While a request runs and others wait, `damage` is done.
fn with_requests_waiting(damage: impl Fn(&Server)) {
    in_each_mode(&["pool.web.workers=2", "reactors=2"], |server| {
        let target = format!("/gate?open={}", server.file("never").display());
        let mut running: Vec<_> = (0..2).map(|_| server.connect()).collect();
        for client in &mut running {
            client.send("POST", &target, b"").unwrap();
        }
        server
            .log
            .wait_for_count_of("php", 2, |event| event["text"] == "at the gate");
        let mut waiting: Vec<_> = (0..20).map(|_| server.connect()).collect();
        for (n, client) in waiting.iter_mut().enumerate() {
            let (method, body): (_, &[u8]) = if n % 2 == 0 { ("GET", b"") } else { ("POST", b"x") };
            client.send(method, &format!("/{n}"), body).unwrap();
        }
        wait_for_queued(server, waiting.len());
        damage(server);
        for (n, client) in waiting.iter_mut().enumerate() {
            assert_eq!(client.read().unwrap().text(), format!("hello from /{n}"));
        }
        for client in &mut running {
            assert_eq!(client.read().unwrap().status, 502);
        }
        server.log.wait("queue reset", |_| true);
        assert_eq!(server.log.count("all workers killed"), 1);
        for _ in 0..200 {
            assert_eq!(server.get("/after").status, 200);
        }
    });
}

#[test]
fn a_wild_head_of_the_queue_loses_no_request_that_waits() {
    with_requests_waiting(|server| {
        scribble(server, offset_of!(Ctl, head), &u64::MAX.to_ne_bytes());
    });
}

#[test]
fn wild_tickets_lose_no_request_that_waits() {
    with_requests_waiting(|server| {
        scribble(server, offset_of!(Ctl, cells), &vec![0xff; RING_CELLS * 8]);
    });
}

#[test]
fn wild_slots_that_are_free_do_no_harm() {
    in_each_mode(&["pool.web.workers=2", "reactors=2"], |server| {
        let wild = vec![0xff; size_of::<SlotBlock>() * MAX_SLOTS];
        scribble(server, offset_of!(Ctl, slots), &wild);
        for _ in 0..200 {
            assert_eq!(server.get("/after").status, 200);
        }
        assert_eq!(server.log.count("worker died"), 0);
    });
}

#[test]
fn wild_figures_of_a_worker_save_it_from_nothing_and_change_no_total() {
    let settings = [
        "pool.web.workers=2",
        "pool.web.request_timeout=\"1 s\"",
        "pool.web.request_grace=\"0 s\"",
    ];
    in_each_mode(&settings, |server| {
        server.log.wait_for_count("worker ready", 2);
        let (mut client, waiting) = server.at_the_gate(&server.file("never"));
        for worker in 0..2 {
            let block = offset_of!(Ctl, workers) + worker * size_of::<WorkerBlock>();
            for figure in [
                offset_of!(WorkerBlock, request),
                offset_of!(WorkerBlock, requests),
            ] {
                scribble(server, block + figure, &u64::MAX.to_ne_bytes());
            }
        }
        assert_eq!(client.read().unwrap().status, 504);
        server
            .log
            .wait("worker died", |event| event["worker"] == waiting["worker"]);
        // A worker that was killed has not served its request.
        assert_eq!(server.status()["pools"][0]["totals"]["requests"], 0);
        assert_eq!(server.get("/after").status, 200);
        assert_eq!(server.status()["pools"][0]["totals"]["requests"], 1);
    });
}

/// As after a worker that was stopped when it had pulled a ticket and not yet claimed its slot.
#[test]
fn a_request_whose_ticket_was_pulled_in_vain_gets_another() {
    let settings = [
        "pool.web.workers=1",
        "reactors=1",
        "pool.web.queue_timeout=\"5 s\"",
    ];
    in_each_mode(&settings, |server| {
        let open = server.file("open");
        let (mut running, _) = server.at_the_gate(&open);
        let mut waiting = server.connect();
        waiting.send("POST", "/waits", b"x").unwrap();
        wait_for_queued(server, 1);
        let mut head = [0; 8];
        let at = offset_of!(Ctl, head);
        ctl(server)
            .read_exact_at(&mut head, u64::try_from(at).unwrap())
            .unwrap();
        scribble(server, at, &(u64::from_ne_bytes(head) + 1).to_ne_bytes());
        fs::write(open, "").unwrap();
        assert_eq!(running.read().unwrap().text(), "through the gate");
        assert_eq!(waiting.read().unwrap().text(), "hello from /waits");
    });
}
