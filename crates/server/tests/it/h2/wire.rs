//! The least of an HTTP/2 client: frames as they are, headers without compression.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// What comes from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Frame {
        kind: u8,
        flags: u8,
        stream: u32,
        payload: Vec<u8>,
    },
    /// The connection is over.
    End,
}

/// A connection whose preface is sent.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    acknowledges: bool,
}

/// A header that is not to be remembered (RFC 7541 §6.2.2).
pub(super) fn field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        block.push(u8::try_from(text.len()).unwrap());
        assert!(text.len() < 127, "longer than one byte says");
        block.extend(text.bytes());
    }
}

/// The block of a request to `test`.
pub(super) fn request(method: &str, path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", method),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", path),
    ] {
        field(&mut block, name, value);
    }
    block
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> Self {
        Self::start(address, &[])
    }

    /// Streams that may send so much, to begin with.
    pub(super) fn open_with_window(address: SocketAddr, window: u32) -> Self {
        let mut setting = vec![0, 4];
        setting.extend(window.to_be_bytes());
        Self::start(address, &setting)
    }

    fn start(address: SocketAddr, settings: &[u8]) -> Self {
        Self::begin(TcpStream::connect(address).unwrap(), settings)
    }

    /// By a socket on which HTTP/2 was agreed on.
    pub(super) fn over(socket: TcpStream) -> Self {
        Self::begin(socket, &[])
    }

    fn begin(mut socket: TcpStream, settings: &[u8]) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, settings));
        socket.write_all(&bytes).unwrap();
        Self {
            socket,
            acknowledges: true,
        }
    }

    pub(super) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.socket
            .write_all(&frame(kind, flags, stream, payload))
            .unwrap();
    }

    /// Sends bytes until the server will not have them; true if it did not.
    pub(super) fn flood(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_err()
    }

    pub(super) fn get(&mut self, stream: u32, path: &str) {
        let mut block = request("GET", "/");
        if path.len() < 127 {
            block = request("GET", path);
        } else {
            block.truncate(block.len() - 1 - 1 - ":path".len() - 1 - 1);
            block.push(0);
            block.push(5);
            block.extend(b":path");
            // RFC 7541 §5.1: 127 and the rest in one byte or two.
            let mut rest = path.len() - 127;
            block.push(127);
            while rest >= 128 {
                block.push(u8::try_from(rest % 128).unwrap() | 128);
                rest /= 128;
            }
            block.push(u8::try_from(rest).unwrap());
            block.extend(path.bytes());
        }
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, &block);
    }

    pub(super) fn next(&mut self) -> Event {
        let mut head = [0; 9];
        if let Err(error) = self.socket.read_exact(&mut head) {
            assert!(
                !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "the server says nothing"
            );
            return Event::End;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        if self.socket.read_exact(&mut payload).is_err() {
            return Event::End;
        }
        let (kind, flags) = (head[3], head[4]);
        if self.acknowledges && flags & ACK == 0 && matches!(kind, SETTINGS | PING) {
            let answer = if kind == PING { &payload[..] } else { &[] };
            // The server may be gone by now.
            let _ = self.socket.write_all(&frame(kind, ACK, 0, answer));
        }
        Event::Frame {
            kind,
            flags,
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        }
    }

    /// The first event that is wanted.
    pub(super) fn wait(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.next();
            if wanted(&event) {
                return event;
            }
            assert_ne!(event, Event::End, "the connection ended before");
        }
    }

    /// The body of a response, as far as its window lets it come.
    pub(super) fn body(&mut self, stream: u32) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            match self.next() {
                Event::End => panic!("the connection ended"),
                Event::Frame {
                    kind: kind @ (DATA | HEADERS),
                    flags,
                    stream: of,
                    payload,
                } if of == stream => {
                    if kind == DATA {
                        body.extend(payload);
                    }
                    if flags & END_STREAM != 0 {
                        return body;
                    }
                }
                Event::Frame { .. } => {}
            }
        }
    }
}
