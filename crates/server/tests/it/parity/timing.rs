//! When bytes leave, and what a script learns of its client: the same with each server. What php-fpm does is written into each test, and
//! asked of it when answers are recorded.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Case, Mode, Peers, recorded};
use crate::harness::{Front, RawClient};

/// Longest time a script may take to notice.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test against each server, with files `gate` and `mark` that do not exist yet.
fn with_each(name: &str, test: impl Fn(&str, SocketAddr, &Path, &Path)) {
    let peers = Peers::new(name, 2, "");
    let run = |server: &str, address: SocketAddr, folder: &Path| {
        test(server, address, &folder.join("gate"), &folder.join("mark"));
    };
    if recorded::is_recording() {
        let (fpm, folder) = peers.fpm();
        run("php-fpm", fpm.address(), &folder);
    }
    for mode in Mode::ALL {
        let (server, front, folder) = peers.hearth(*mode);
        let address = front.as_ref().map_or(server.address(), Front::address);
        run(&format!("{mode:?}"), address, &folder);
    }
}

fn start(run: &str, address: SocketAddr, gate: &Path, mark: &Path) -> RawClient {
    let case = Case::get(run, "/")
        .line(&format!("X-Gate: {}", gate.display()))
        .line(&format!("X-Mark: {}", mark.display()));
    let mut client = RawClient::connect(address);
    client.send(&case.bytes()).unwrap();
    client
}

/// The text of a file that a script is about to write.
fn wait_for(mark: &Path) -> String {
    let until = Instant::now() + PATIENCE;
    while !mark.exists() {
        assert!(Instant::now() < until, "{} was never written", mark.display());
        std::thread::sleep(Duration::from_millis(2));
    }
    fs::read_to_string(mark).unwrap()
}

#[test]
fn flushed_output_arrives_while_the_script_runs() {
    with_each("flush", |server, address, gate, mark| {
        let mut client = start("wait/flush", address, gate, mark);
        let head = client.head().unwrap();
        assert_eq!(client.part(&head, 5).unwrap(), b"first", "{server}");
        fs::write(gate, "").unwrap();
        assert_eq!(client.part(&head, 7).unwrap(), b" second", "{server}");
    });
}

#[test]
fn a_finished_response_is_complete_while_the_script_goes_on() {
    with_each("finish", |server, address, gate, mark| {
        let answer = start("wait/finish", address, gate, mark).read("GET").unwrap();
        assert_eq!(
            (answer.text().as_str(), answer.whole),
            ("complete", true),
            "{server}"
        );
        assert!(!mark.exists());
        fs::write(gate, "").unwrap();
        assert_eq!(wait_for(mark), "went on 0", "{server}");
    });
}

#[test]
fn a_client_that_leaves_ends_the_script_or_not_as_it_wishes() {
    with_each("leave", |server, address, gate, mark| {
        for (run, said) in [
            ("wait/leave", "ended by it, 1"),
            ("wait/leave_ignored", "went on, 1"),
        ] {
            let mark = mark.with_extension(run.replace('/', "-"));
            let mut client = start(run, address, gate, &mark);
            let head = client.head().unwrap();
            assert_eq!(&client.part(&head, 5).unwrap()[..5], b"first");
            drop(client);
            assert_eq!(wait_for(&mark), said, "{server}: {run}");
        }
    });
}

#[test]
fn of_two_requests_with_one_session_the_second_waits() {
    with_each("lock", |server, address, gate, mark| {
        let second_mark = mark.with_extension("second");
        let mut first = start("wait/hold_session", address, gate, mark);
        assert_eq!(wait_for(mark), "held", "{server}");
        let mut second = start("wait/share_session", address, gate, &second_mark);
        assert_eq!(wait_for(&second_mark), "asks", "{server}");
        fs::write(gate, "").unwrap();
        assert_eq!(first.read("GET").unwrap().text(), "held", "{server}");
        let answer = second.read("GET").unwrap().text();
        assert_eq!(answer, "set by the first, gate open", "{server}");
    });
}

#[test]
fn a_session_written_early_is_free_while_its_script_goes_on() {
    with_each("unlock", |server, address, gate, mark| {
        let second_mark = mark.with_extension("second");
        let mut first = start("wait/release_session", address, gate, mark);
        assert_eq!(wait_for(mark), "released", "{server}");
        let mut second = start("wait/share_session", address, gate, &second_mark);
        let answer = second.read("GET").unwrap().text();
        assert_eq!(answer, "set by who released it, gate closed", "{server}");
        fs::write(gate, "").unwrap();
        assert_eq!(first.read("GET").unwrap().text(), "late", "{server}");
    });
}
