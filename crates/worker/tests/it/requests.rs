//! Requests that end well, in both modes.

use std::path::PathBuf;

use ipc::control::Mode;
use ipc::logline::{Kind, Level};

use crate::harness::{Get, Pool};

const RESIDENT: (Mode, &str) = (Mode::Resident, "resident.php");
const CLASSIC: (Mode, &str) = (Mode::Classic, "classic.php");

fn in_both_modes(check: impl Fn(&mut Pool)) {
    for (mode, script) in [CLASSIC, RESIDENT] {
        check(&mut Pool::start(mode, script, 1));
    }
}

/// A named pipe: who reads it waits until `open` is called.
struct Gate(PathBuf);

impl Gate {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hearth-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        Self(path)
    }

    fn query(&self, action: &str) -> String {
        format!("do={action}&gate={}", self.0.display())
    }

    fn open(&self) {
        drop(std::fs::OpenOptions::new().write(true).open(&self.0).unwrap());
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_worker_answers_one_request_after_the_other() {
    in_both_modes(|pool| {
        for name in ["a", "b", "c"] {
            let response = pool.get(&format!("do=hello&name={name}"));
            assert_eq!(response.status(), 200);
            assert_eq!(response.header("x-greeting").as_deref(), Some("yes"));
            assert_eq!(response.text(), format!("Hello, {name}!"));
        }
        assert_eq!(pool.get("do=status").status(), 404);
        assert!(pool.requests(0) >= 3);
    });
}

#[test]
fn a_resident_application_keeps_its_state_and_a_classic_one_does_not() {
    let (mode, script) = RESIDENT;
    let mut pool = Pool::start(mode, script, 1);
    assert_eq!(pool.get("do=count").text(), "1");
    assert_eq!(pool.get("do=count").text(), "2");
    let zygote = pool.zygote();
    let worker = pool.workers[0].pid;
    assert_eq!(pool.get("do=pids").text(), format!("{zygote} {worker}"));
    assert!(pool.get("do=environment").text().starts_with("1 /"));

    let (mode, script) = CLASSIC;
    let mut pool = Pool::start(mode, script, 1);
    assert_eq!(pool.get("do=count").text(), "0");
    assert_eq!(pool.get("do=count").text(), "0");
    assert!(pool.get("do=environment").text().starts_with(" /"));
}

#[test]
fn a_body_comes_from_the_slot_or_from_a_spool_file() {
    in_both_modes(|pool| {
        let small = b"0123456789".repeat(1000);
        let big = b"0123456789".repeat(500_000);
        let expected = |body: &[u8]| format!("{} {}", body.len(), crc32(body));
        assert_eq!(pool.post("do=body", &small, false).text(), expected(&small));
        assert_eq!(pool.asked(), 0);
        assert_eq!(pool.post("do=body", &big, true).text(), expected(&big));
        assert_eq!(pool.asked(), 1);
        // Nobody reads it: nobody asks for it, if PHP does not.
        assert_eq!(pool.post("do=hello", &big, true).text(), "Hello, world!");
        assert_eq!(pool.get("do=body").text(), expected(b""));
    });
}

#[test]
fn a_response_larger_than_a_lane_arrives_whole() {
    in_both_modes(|pool| {
        for _ in 0..3 {
            let response = pool.get("do=big&lines=160");
            assert_eq!(response.body().len(), 160 * 65536);
            assert!(
                response
                    .body()
                    .chunks(16)
                    .all(|chunk| chunk == b"0123456789abcdef")
            );
        }
    });
}

#[test]
fn flush_shows_the_client_what_was_written_so_far() {
    in_both_modes(|pool| {
        let gate = Gate::new("stream");
        let query = gate.query("stream");
        let mut pending = pool.submit(&Get {
            query: &query,
            ..Get::default()
        });
        pool.read_until(&mut pending, |response| response.body() == b"first");
        gate.open();
        pool.finish(&mut pending);
        assert_eq!(pending.response.text(), "first second");
    });
}

#[test]
fn a_finished_response_is_complete_while_the_script_goes_on_with_its_own_variables() {
    in_both_modes(|pool| {
        let gate = Gate::new("finish");
        let query = gate.query("finish");
        assert_eq!(pool.get(&query).text(), "done");
        gate.open();
        let said = pool.workers[0].said();
        assert!(
            said[0]
                .2
                .contains(&format!("host is localhost, query is {query}")),
            "{said:?}"
        );
        assert_eq!(pool.get("do=hello").text(), "Hello, world!");
    });
}

#[test]
fn an_interim_response_precedes_the_final_one() {
    in_both_modes(|pool| {
        let response = pool.get("do=early");
        assert_eq!(response.status(), 103);
        assert_eq!(
            response.header("link").as_deref(),
            Some("</style.css>; rel=preload")
        );
        assert_eq!(response.rest().status(), 200);
        assert_eq!(response.rest().text(), "late");
    });
}

#[test]
fn log_lines_carry_the_request_and_other_output_is_plain() {
    in_both_modes(|pool| {
        pool.get("do=log");
        let said = pool.workers[0].said();
        let (request, level, message) = &said[0];
        assert_eq!(*request, Some(0x1001));
        assert_eq!(*level, Kind::Message(Level::NOTICE));
        assert!(message.contains("a line\nand another"), "{message}");
        pool.get("do=stderr");
        assert_eq!(pool.workers[0].said(), [(None, Kind::Plain, "plain".to_owned())]);
    });
}

#[test]
fn a_script_learns_that_its_client_has_gone() {
    in_both_modes(|pool| {
        let mut pending = pool.submit(&Get {
            query: "do=gone",
            ..Get::default()
        });
        pool.read_until(&mut pending, |response| response.body().len() > 1024);
        pool.client_gone(&pending);
        pool.finish(&mut pending);
        assert!(pool.workers[0].said()[0].2.contains("aborted: 1"));
        assert_eq!(pool.get("do=hello").text(), "Hello, world!");
    });
}

#[test]
fn a_worker_has_only_descriptors_of_its_own_and_a_title() {
    // What the test was started with is handed down by it, not by the zygote.
    let inherited = std::fs::read_dir("/proc/self/fd").unwrap();
    let inherited: Vec<_> = inherited
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .collect();
    in_both_modes(|pool| {
        pool.fork(1, 0);
        pool.fork(2, 0);
        for worker in [0, 1] {
            pool.drain(worker);
            assert_eq!(pool.exited(), (worker, Some(0), None));
        }
        let titles = pool.get("do=titles").text();
        // As far as the memory of the arguments goes.
        assert!(
            titles.starts_with("hearth: zygote web gen 1\nhearth: worker web 2 gen 1 run"),
            "{titles}"
        );
        let descriptors = pool.get("do=descriptors").text();
        let count = |what: &str| {
            let targets = descriptors.lines().map(|line| line.split_once(' ').unwrap().1);
            targets
                .filter(|target| target.starts_with(what) && !inherited.contains(&target.into()))
                .count()
        };
        assert_eq!(count("socket:"), 1, "{descriptors}");
        // Lifeline; output as 1 and 2.
        assert_eq!(count("pipe:"), 3, "{descriptors}");
        assert_eq!(count("anon_inode:[pidfd]"), 0, "{descriptors}");
        assert_eq!(count("/memfd:hearth"), 0, "{descriptors}");
    });
}

/// CRC-32 as PHP's `crc32()`: so that a large body need not come back to be compared.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
