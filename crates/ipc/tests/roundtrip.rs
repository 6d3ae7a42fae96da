//! What one side writes the other reads; what a hostile side writes is refused without a panic or a read outside.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

use std::collections::VecDeque;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};

use ipc::body::{Position, stretches, waiting};
use ipc::control::{
    self, Boot, Bytes, Fork, FromWorker, FromZygote, Isolation, Method, Mode, Process, Resource, ToWorker,
    ToZygote, Warmup,
};
use ipc::head::{BodyKind, Known, RequestReader, RequestWriter, ResponseReader, set_body, write_response};
use ipc::layout::{LANE_BYTES, Layout};
use proptest::collection::vec;
use proptest::prelude::*;

const KNOWN: [Known; 9] = [
    Known::Method,
    Known::Uri,
    Known::Query,
    Known::ContentType,
    Known::ContentLength,
    Known::Cookie,
    Known::Authorization,
    Known::Script,
    Known::Protocol,
];

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..most)
}

fn body_kind() -> impl Strategy<Value = BodyKind> {
    prop_oneof![
        Just(BodyKind::Empty),
        Just(BodyKind::InSlot),
        Just(BodyKind::Spooled)
    ]
}

/// A head with some lengths replaced: gets further into the readers than noise does.
fn damaged(head: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (
        head,
        vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(mut head, changes, cut)| {
            for (at, value) in changes {
                let at = at.index(head.len());
                head[at] = value;
            }
            head.truncate(cut.index(head.len()) + 1);
            head
        })
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    vec((bytes(20), bytes(40)), 0..8).prop_map(|params| {
        let mut writer = RequestWriter::new(7, 0);
        for (index, (name, value)) in params.iter().enumerate() {
            writer.known(KNOWN[index], name, value);
        }
        writer.finish()
    })
}

fn response() -> impl Strategy<Value = Vec<u8>> {
    (
        102_u16..1000,
        "[ -~]{0,20}",
        vec("[a-z-]{1,10}: ?[ -~]{0,20}", 0..6),
    )
        .prop_map(|(status, reason, lines)| {
            let mut head = Vec::new();
            let lines = lines.iter().map(String::as_bytes);
            assert!(write_response(status, reason.as_bytes(), lines, |part| head
                .extend_from_slice(part)));
            head
        })
}

fn read_all_of_request(area: &[u8]) {
    if let Some(reader) = RequestReader::new(area) {
        assert!(reader.len() <= area.len());
        let range = area.as_ptr_range();
        for param in reader.params() {
            assert!(range.contains(&param.name.as_ptr()) && range.contains(&param.value.as_ptr()));
            // The NUL that C counts on lies inside, too.
            assert!(param.value.as_ptr_range().end < range.end);
        }
        for known in KNOWN {
            let _ = reader.known(known);
        }
        let _ = (reader.id(), reader.body());
    }
}

fn read_all_of_response(head: &[u8]) {
    if let Ok(reader) = ResponseReader::new(head) {
        assert!((100..1000).contains(&reader.status()));
        assert!(!reader.reason().iter().any(|b| matches!(b, 0 | b'\r' | b'\n')));
        for (name, value) in reader.headers().flatten() {
            assert!(!name.is_empty());
            assert!(!name.iter().chain(value).any(|b| matches!(b, 0 | b'\r' | b'\n')));
        }
        assert!(reader.headers().count() <= head.len());
    }
}

#[test]
fn a_variable_behind_large_headers_is_found_by_name() {
    let mut writer = RequestWriter::new(1, 0);
    writer.header(b"x-large", &vec![b'a'; 1024 * 1024]);
    writer.known(Known::Script, b"SCRIPT_FILENAME", b"/index.script");
    let head = writer.finish();
    let reader = RequestReader::new(&head).unwrap();
    assert_eq!(reader.known(Known::Script), Some(&b"/index.script"[..]));
}

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_written(
        id: u64,
        params in vec((bytes(30), bytes(200), prop::option::of(0..KNOWN.len())), 0..30),
        headers in vec(("[a-zA-Z0-9-]{1,20}", bytes(50)), 0..10),
        kind in body_kind(),
        body_len: u64,
        rest in bytes(50),
    ) {
        let mut writer = RequestWriter::new(id, 0);
        for (name, value, known) in &params {
            match known {
                Some(known) => writer.known(KNOWN[*known], name, value),
                None => writer.param(name, value),
            }
        }
        for (name, value) in &headers {
            writer.header(name.as_bytes(), value);
        }
        let mut area = writer.finish();
        set_body(&mut area, kind, body_len);
        let len = area.len();
        area.extend_from_slice(&rest);

        let reader = RequestReader::new(&area).unwrap();
        prop_assert_eq!(reader.len(), len);
        prop_assert_eq!(reader.id(), id);
        prop_assert_eq!(reader.body(), Some((kind, body_len)));
        let read: Vec<_> = reader.params().map(|p| (p.name.to_vec(), p.value.to_vec())).collect();
        let written: Vec<_> = params
            .iter()
            .map(|(name, value, _)| (name.clone(), value.clone()))
            .chain(headers.iter().map(|(name, value)| {
                (format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_")).into_bytes(), value.clone())
            }))
            .collect();
        prop_assert_eq!(read, written);
        for (index, known) in KNOWN.into_iter().enumerate() {
            let last = params.iter().rev().find(|(.., known)| *known == Some(index));
            prop_assert_eq!(reader.known(known), last.map(|(_, value, _)| value.as_slice()));
        }
        read_all_of_request(&area);
    }

    #[test]
    fn a_response_is_read_as_it_was_written(
        status in 102_u16..1000,
        reason in "[ -~\t]{0,30}",
        headers in vec(("[!#-'*+.^_`|~0-9A-Za-z-]{1,20}", "[!-~\u{e9}]{0,5}[ -~\t]{0,30}"), 0..20),
    ) {
        let lines: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let mut head = Vec::new();
        let fits = write_response(status, reason.as_bytes(), lines.iter().map(String::as_bytes), |part| {
            head.extend_from_slice(part);
        });
        prop_assert!(fits);
        prop_assert_eq!(ResponseReader::expected_len(&head), Some(Ok(head.len())));
        let reader = ResponseReader::new(&head).unwrap();
        prop_assert_eq!(reader.status(), status);
        prop_assert_eq!(reader.reason(), reason.as_bytes());
        let read: Vec<_> = reader.headers().map(Result::unwrap).collect();
        let written: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.trim_matches([' ', '\t']).as_bytes()))
            .collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn arbitrary_bytes_are_no_danger(area in bytes(300), mut len_fits in bytes(300)) {
        read_all_of_request(&area);
        read_all_of_response(&area);
        let len = u32::try_from(len_fits.len()).unwrap();
        if let Some(place) = len_fits.first_chunk_mut() {
            *place = len.to_le_bytes();
        }
        read_all_of_request(&len_fits);
        read_all_of_response(&len_fits);
    }

    #[test]
    fn damaged_heads_are_no_danger(request in damaged(request()), response in damaged(response())) {
        read_all_of_request(&request);
        read_all_of_response(&response);
    }

    #[test]
    fn line_ends_in_a_header_are_refused(at in 0_usize..6, bad in prop::sample::select(&b"\r\n\0"[..])) {
        let mut line = b"a: bc".to_vec();
        line.insert(at.min(line.len()), bad);
        let mut head = Vec::new();
        write_response(200, b"", std::iter::once(&line[..]), |part| head.extend_from_slice(part));
        prop_assert!(ResponseReader::new(&head).unwrap().headers().any(|header| header.is_err()));
    }

    #[test]
    fn whatever_the_positions_say_nothing_outside_of_the_lane_is_read(read: u64, written: u64, count: usize) {
        let (read, written) = (Position(read), Position(written));
        if let Some(count) = waiting(read, written) {
            prop_assert!(count <= LANE_BYTES);
            prop_assert_eq!(read.advance(count as u64), written);
        }
        for (offset, len) in stretches(read, count) {
            prop_assert!(offset + len <= LANE_BYTES);
        }
        prop_assert_eq!(read.advance(count as u64).exchange(), read.exchange());
        prop_assert_eq!(waiting(read.start(), read.next_exchange()), None);
    }

    #[test]
    fn a_lane_is_a_queue_of_bytes(start: u64, steps in vec((0_usize..100_000, 0_usize..100_000), 1..20)) {
        let (mut written, mut read) = (Position(start), Position(start));
        let (mut lane, mut model) = (vec![0_u8; LANE_BYTES], VecDeque::new());
        let mut next = 0_u8;
        for (put, take) in steps {
            let put = put.min(LANE_BYTES - waiting(read, written).unwrap());
            for (offset, len) in stretches(written, put) {
                for byte in &mut lane[offset..offset + len] {
                    next = next.wrapping_mul(31).wrapping_add(7);
                    *byte = next;
                    model.push_back(next);
                }
            }
            written = written.advance(put as u64);
            let take = take.min(waiting(read, written).unwrap());
            for (offset, len) in stretches(read, take) {
                for byte in &lane[offset..offset + len] {
                    prop_assert_eq!(model.pop_front(), Some(*byte));
                }
            }
            read = read.advance(take as u64);
            prop_assert_eq!(waiting(read, written), Some(model.len()));
        }
    }

    #[test]
    fn arbitrary_packets_are_no_danger(packet in bytes(200)) {
        let (ours, theirs) = control::pair().unwrap();
        rustix::io::write(&theirs, &packet).unwrap();
        if !packet.is_empty() {
            let _ = control::receive::<FromWorker>(ours.as_fd());
        }
    }
}

fn there_and_back<T>(message: &T, fds: &[BorrowedFd<'_>]) -> Vec<std::os::fd::OwnedFd>
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let (ours, theirs) = control::pair().unwrap();
    control::send(theirs.as_fd(), message, fds).unwrap();
    let (received, fds) = control::receive::<T>(ours.as_fd()).unwrap().unwrap();
    assert_eq!(received, *message);
    drop(theirs);
    assert!(
        control::receive::<T>(ours.as_fd()).unwrap().is_none(),
        "the other side has closed"
    );
    fds
}

#[test]
fn messages_arrive_with_their_descriptors() {
    let boot = Boot {
        purpose: control::Purpose::Serve,
        ini_keys: vec!["ini.memory_limit".into()],
        pool: "web".to_owned(),
        generation: 3,
        layout: Layout {
            reactors: 2,
            slots_per_reactor: 64,
            request_area: 65536,
        },
        mode: Mode::Resident,
        isolation: Isolation::Request {
            method: Method::Rewind,
            paranoid: true,
        },
        script: Some("/app/\"worker\".script".to_owned()),
        dir: "/app".to_owned(),
        stay_in_dir: true,
        process: Process {
            user: Some("nobody".into()),
            rlimits: vec![(Resource::Core, None), (Resource::Nofile, Some(99))],
            ..Process::default()
        },
        root: "/app/public".to_owned(),
        php_ini: None,
        dev: false,
        ini: "memory_limit=64M\n".repeat(1000),
        locked_ini: vec!["memory_limit".into()],
        warmup: Warmup::Clean,
        leak_check: 1000,
        warmup_requests: vec![
            Bytes((0..=255).collect()),
            Bytes(Vec::new()),
            Bytes(vec![b'x'; 30_000]),
        ],
    };
    let mut file = tempfile();
    file.write_all(b"spooled").unwrap();
    let many = vec![file.as_fd(); 4 + ipc::layout::MAX_REACTORS];
    let fds = there_and_back(&ToZygote::Boot(boot), &many);
    assert_eq!(fds.len(), many.len());
    for fd in fds {
        let flags = rustix::io::fcntl_getfd(&fd).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let (mut file, mut text) = (std::fs::File::from(fd), String::new());
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "spooled");
    }
}

#[test]
fn messages_without_or_with_one_descriptor_arrive() {
    let file = tempfile();
    there_and_back(
        &ToZygote::Fork(Fork {
            worker: 1,
            incarnation: u16::MAX,
        }),
        &[],
    );
    there_and_back(&ToZygote::Stop, &[]);
    there_and_back(
        &FromZygote::Forked(Fork {
            worker: 1,
            incarnation: 2,
        }),
        &[],
    );
    there_and_back(
        &FromZygote::Exited {
            worker: 1,
            incarnation: 2,
            code: None,
            signal: Some(9),
        },
        &[],
    );
    there_and_back(
        &FromWorker::BodyFd {
            slot: 1,
            generation: 2,
        },
        &[],
    );
    assert_eq!(
        there_and_back(
            &ToWorker::Body {
                slot: 1,
                generation: 2
            },
            &[file.as_fd()]
        )
        .len(),
        1
    );
}

#[test]
fn too_long_messages_are_refused_where_they_are_sent() {
    let (_ours, theirs) = control::pair().unwrap();
    let message = FromZygote::BootFailed {
        reason: "x".repeat(140_000),
    };
    let error = control::send(theirs.as_fd(), &message, &[]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn messages_cut_short_are_refused() {
    let (ours, theirs) = control::pair().unwrap();
    rustix::io::write(&theirs, &vec![b' '; 140_000]).unwrap();
    assert!(control::receive::<FromWorker>(ours.as_fd()).is_err());
}

fn tempfile() -> std::fs::File {
    rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC)
        .unwrap()
        .into()
}
