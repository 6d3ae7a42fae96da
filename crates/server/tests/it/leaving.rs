//! Clients that leave while PHP runs or before it does, and those that only say that they will send no more.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Folder, Server, in_each_mode};
use crate::tls::{Certificates, secure};

/// Longer than what a client has to say that it sends no more, in milliseconds.
const LATER: u64 = 250;
/// As Debian sets it for php-fpm: what a script echoes stays in PHP for a while.
const SETTINGS: [&str; 2] = ["pool.web.workers=1", "pool.web.ini.output_buffering=4096"];

fn head(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").into_bytes()
}

fn asked(server: &Server, target: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(&head(target)).unwrap();
    socket
}

/// Waits for the line of a script.
fn wait_for(server: &Server, text: &str) {
    server.log.wait("php", |event| event["text"] == text);
}

#[test]
fn a_script_finds_at_its_next_flush_that_its_client_has_left() {
    in_each_mode(&SETTINGS, |server| {
        let client = asked(server, &format!("/stream?delay={LATER}"));
        wait_for(server, "streaming");
        let left = Instant::now();
        drop(client);
        wait_for(server, "ended with 1");
        let noticed = left.elapsed();
        assert!(noticed < Duration::from_secs(2), "{noticed:?}");
        server.out.wait_for_line_with("\"client-gone\"");
        assert_eq!(server.log.count("loop left with 1"), 0, "the script was ended");
    });
}

#[test]
fn a_script_that_ignores_it_goes_on_when_its_client_has_left() {
    in_each_mode(&SETTINGS, |server| {
        let client = asked(server, &format!("/stream?delay={LATER}&ignore"));
        wait_for(server, "streaming");
        drop(client);
        wait_for(server, "loop left with 1");
        server.out.wait_for_line_with("\"client-gone\"");
    });
}

#[test]
fn a_request_that_waits_is_not_run_when_its_client_has_left() {
    in_each_mode(&SETTINGS, |server| {
        let (open, mark) = (server.file("open"), server.file("mark"));
        let mut running = asked(server, &format!("/gate?open={}", open.display()));
        wait_for(server, "at the gate");
        let begun = Instant::now();
        let waiting = asked(server, &format!("/once?mark={}", mark.display()));
        // The time itself is what is tested: only later is the end of what a client sends its end.
        while begun.elapsed() < Duration::from_millis(LATER)
            || server.status()["pools"][0]["queue"]["waiting"] != 1
        {
            std::thread::yield_now();
        }
        drop(waiting);
        let line = server.out.wait_for_line_with("\"client-gone\"");
        assert!(line.contains("\"status\":499"), "{line}");
        std::fs::write(&open, "").unwrap();
        let mut answer = String::new();
        running.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("through the gate"), "{answer}");
        assert_eq!(server.get("/x").text(), "hello from /x");
        assert!(!mark.exists(), "nobody waited for it");
        std::fs::remove_file(&open).unwrap();
    });
}

#[test]
fn a_client_that_sends_no_more_is_answered_however_long_it_takes() {
    in_each_mode(&SETTINGS, |server| {
        let open = server.file("open");
        let mut client = asked(server, &format!("/gate?open={}", open.display()));
        client.shutdown(Shutdown::Write).unwrap();
        let begun = Instant::now();
        wait_for(server, "at the gate");
        while begun.elapsed() < Duration::from_millis(LATER) {
            std::thread::yield_now();
        }
        std::fs::write(&open, "").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("through the gate"), "{answer}");
        std::fs::remove_file(&open).unwrap();
    });
}

#[test]
fn over_a_unix_socket_the_end_of_what_is_sent_is_never_taken_for_the_end() {
    let folder = Folder::new("leaving");
    let path = folder.file("web.sock");
    let listen = format!("listen=['127.0.0.1:0', 'unix:{}']", path.display());
    let connect = |target: &str| {
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.write_all(&head(target)).unwrap();
        socket
    };
    in_each_mode(&[SETTINGS[0], SETTINGS[1], &listen], |server| {
        let open = server.file("open");
        let mut client = connect(&format!("/gate?open={}", open.display()));
        wait_for(server, "at the gate");
        client.shutdown(Shutdown::Write).unwrap();
        std::fs::write(&open, "").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("through the gate"), "{answer}");
        // Without any delay.
        let client = connect("/stream?delay=0");
        wait_for(server, "streaming");
        drop(client);
        wait_for(server, "ended with 1");
    });
}

#[test]
fn a_client_that_leaves_is_noticed_over_tls() {
    let certificates = Certificates::new("leaving");
    certificates.make("shop.test");
    let settings = certificates.settings(&["shop.test"]);
    let mut all = SETTINGS.to_vec();
    all.extend(settings.iter().map(String::as_str));
    in_each_mode(&all, |server| {
        for (number, version) in ["--http1.1", "--http2"].iter().enumerate() {
            let url = format!("https://{}/stream?delay={LATER}", secure(server));
            let mut curl = Command::new("curl")
                .args(["-sk", version, &url])
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let count = |text: &'static str| {
                server
                    .log
                    .wait_for_count_of("php", number + 1, move |event| event["text"] == text);
            };
            count("streaming");
            curl.kill().unwrap();
            curl.wait().unwrap();
            count("ended with 1");
        }
    });
}
