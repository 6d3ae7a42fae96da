//! Clients that mean harm: each is ended or harmless, and another client is served meanwhile and afterwards.

use super::wire::{
    ACK, CONTINUATION, Connection, DATA, END_HEADERS, END_STREAM, Event, GOAWAY, HEADERS, PING, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, field, frame, request,
};
use crate::harness::{App, Server, tree};

/// Memory that all processes of a server may need more at the end of a flood, in KiB.
const MORE: u64 = 64 * 1024;

/// Of RFC 9113 §7.
const ENHANCE_YOUR_CALM: u8 = 11;

/// Whether the server ends who sends this over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Ended,
    Harmless,
}

/// Sends what `next` makes, thousands of times.
fn suffer(fate: Fate, times: u32, next: impl Fn(u32) -> Vec<u8>) {
    let server = Server::start(&App::of_tests(), &["pool.web.workers=2"]);
    let before = crate::harness::pss_kib(&tree(server.pid()));
    let mut connection = Connection::open(server.address());
    let mut ended = false;
    for number in 0..times {
        if connection.flood(&next(number)) {
            ended = true;
            break;
        }
        if number % (times / 8).max(1) == 0 {
            assert_eq!(server.get("/a").text(), "hello from /a");
        }
    }
    if fate == Fate::Ended && !ended {
        // What was sent may be on its way.
        connection.wait(|event| *event == Event::End);
    }
    assert_eq!(server.get("/b").text(), "hello from /b");
    let after = crate::harness::pss_kib(&tree(server.pid()));
    assert!(after < before + MORE, "from {before} to {after} KiB");
}

/// Stream of the request with this number.
fn stream(number: u32) -> u32 {
    2 * number + 1
}

#[test]
fn requests_that_are_taken_back_at_once() {
    suffer(Fate::Ended, 20_000, |number| {
        let mut bytes = frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream(number),
            &request("GET", "/"),
        );
        bytes.extend(frame(RST_STREAM, 0, stream(number), &[0, 0, 0, 8]));
        bytes
    });
}

#[test]
fn a_header_block_without_end() {
    suffer(Fate::Ended, 20_000, |number| {
        if number == 0 {
            return frame(HEADERS, 0, 1, &request("GET", "/"));
        }
        let mut block = Vec::new();
        field(&mut block, &format!("x-{number}"), &"y".repeat(100));
        frame(CONTINUATION, 0, 1, &block)
    });
}

#[test]
fn continuations_that_hold_nothing() {
    suffer(Fate::Ended, 200_000, |number| match number {
        0 => frame(HEADERS, 0, 1, &request("GET", "/")),
        _ => frame(CONTINUATION, 0, 1, b"").repeat(8),
    });
}

#[test]
fn settings_without_end() {
    suffer(Fate::Ended, 200_000, |_| {
        frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]).repeat(8)
    });
}

#[test]
fn pings_without_end() {
    suffer(Fate::Ended, 200_000, |_| frame(PING, 0, 0, b"12345678").repeat(8));
}

#[test]
fn acknowledgements_of_nothing() {
    suffer(Fate::Ended, 200_000, |_| {
        frame(PING, ACK, 0, b"12345678").repeat(8)
    });
}

#[test]
fn empty_data() {
    suffer(Fate::Ended, 200_000, |number| match number {
        0 => frame(HEADERS, END_HEADERS, 1, &request("POST", "/length")),
        _ => frame(DATA, 0, 1, b"").repeat(8),
    });
}

#[test]
fn blocks_of_one_byte_headers_that_may_not_be() {
    // `:method GET` over and over, one byte each: malformed, and decoded to its end.
    suffer(Fate::Ended, 2000, |number| {
        frame(HEADERS, END_HEADERS | END_STREAM, stream(number), &[0x82; 16_000])
    });
}

#[test]
fn a_block_of_hundreds_of_fields_ends_its_connection() {
    let server = Server::start(&App::of_tests(), &["pool.web.workers=2"]);
    // One that is right but for their number, in two frames, and one that is malformed.
    let mut crumbs = request("GET", "/");
    for _ in 0..500 {
        field(&mut crumbs, "cookie", "a=1");
    }
    for block in [crumbs, vec![0x82; 500]] {
        let mut connection = Connection::open(server.address());
        let (begin, rest) = block.split_at(block.len() / 2);
        let mut bytes = frame(HEADERS, END_STREAM, 1, begin);
        bytes.extend(frame(CONTINUATION, END_HEADERS, 1, rest));
        assert!(!connection.flood(&bytes));
        let farewell = connection.wait(|event| matches!(event, Event::Frame { kind: GOAWAY, .. }));
        let Event::Frame { payload, .. } = farewell else {
            panic!("{farewell:?}")
        };
        assert_eq!(payload[4..8], [0, 0, 0, ENHANCE_YOUR_CALM], "{payload:?}");
        connection.wait(|event| *event == Event::End);
    }
    assert_eq!(server.get("/a").text(), "hello from /a");
}

#[test]
fn blocks_that_grow_when_they_are_decoded() {
    // One big header that is remembered, then named by one byte again and again, as often as a block may name one.
    suffer(Fate::Harmless, 2000, |number| {
        let mut block = Vec::new();
        if number == 0 {
            block.extend([0x40, 1, b'x', 127, 0x80, 0x1e]);
            block.extend([b'y'; 127 + 30 * 128]);
        }
        block.extend([0xbe; 400]);
        let mut bytes = frame(HEADERS, 0, stream(number), &block);
        bytes.extend(frame(
            CONTINUATION,
            END_HEADERS,
            stream(number),
            &request("GET", "/"),
        ));
        bytes
    });
}

#[test]
fn streams_whose_window_stays_closed() {
    let server = Server::start(&App::of_tests(), &["pool.web.workers=2"]);
    let before = crate::harness::pss_kib(&tree(server.pid()));
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut connection = Connection::open_with_window(server.address(), 0);
        for number in 0..100 {
            connection.get(stream(number), "/big?mib=1");
        }
        held.push(connection);
    }
    for _ in 0..20 {
        assert_eq!(server.get("/a").text(), "hello from /a");
    }
    // Each has its response, of which a little is kept in memory, the rest in a file.
    let after = crate::harness::pss_kib(&tree(server.pid()));
    assert!(after < before + 5 * MORE, "from {before} to {after} KiB");
}

#[test]
fn windows_that_grow_by_one_byte() {
    suffer(Fate::Ended, 200_000, |_| {
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(8)
    });
}
