//! The PROXY protocol, versions 1 and 2: what a proxy sends before anything else to say for whom it connects. After
//! `proxy-protocol.txt` of `HAProxy`, which names the two forms.
//!
//! Reads exactly the header, so that what follows (TLS or HTTP) is another's to read. Called by `connection` for trusted peers, under its
//! deadline. Runs in: server, on a reactor.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt};

/// What version 2 begins with; no text of version 1 does.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Longest header of version 1, with its end.
const LINE: usize = 107;
/// Longest part of version 2 behind its fixed head that is read: addresses, and extensions that nobody here asks for.
const EXTENSIONS: usize = 4096;

/// Source and destination of the connection that the proxy has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::edge) struct Proxied {
    pub(in crate::edge) source: SocketAddr,
    pub(in crate::edge) destination: SocketAddr,
}

/// Reads the header. `None`: the proxy speaks for itself, or does not know for whom.
pub(in crate::edge) async fn receive(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Proxied>> {
    // The shortest header, `PROXY UNKNOWN`, is longer.
    let mut start = [0; SIGNATURE.len()];
    socket.read_exact(&mut start).await?;
    if start == SIGNATURE {
        return second(socket).await;
    }
    let mut line = start.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() >= LINE || !line.starts_with(b"PROXY ") {
            return Err(malformed("no header of the PROXY protocol"));
        }
        line.push(socket.read_u8().await?);
    }
    let text = std::str::from_utf8(&line).map_err(|_| malformed("no text"))?;
    first(text)
}

/// `PROXY TCP4 192.0.2.1 192.0.2.2 4711 443`, a space between the words.
fn first(line: &str) -> io::Result<Option<Proxied>> {
    let mut words = line.trim_end_matches("\r\n").split(' ').skip(1);
    let family = words.next();
    if family == Some("UNKNOWN") {
        return Ok(None);
    }
    let mut read = || {
        let (source, destination): (IpAddr, IpAddr) =
            (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (from, to) = (port(words.next()?)?, port(words.next()?)?);
        let fits = |address: IpAddr| match family {
            Some("TCP4") => address.is_ipv4(),
            Some("TCP6") => address.is_ipv6(),
            _ => false,
        };
        let is_all = words.next().is_none() && fits(source) && fits(destination);
        is_all.then(|| Proxied {
            source: SocketAddr::new(source, from),
            destination: SocketAddr::new(destination, to),
        })
    };
    read().map(Some).ok_or_else(|| malformed("invalid addresses"))
}

fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Behind the signature: version and command, family and transport, length; addresses, extensions.
async fn second(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Proxied>> {
    let mut head = [0; 4];
    socket.read_exact(&mut head).await?;
    let [command, family, high, low] = head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > EXTENSIONS {
        return Err(malformed("header too long"));
    }
    let mut rest = vec![0; length];
    socket.read_exact(&mut rest).await?;
    match (command, family) {
        // LOCAL, a check of the proxy's own; or a client that is unknown, or came to it over a unix socket.
        (0x20, _) | (0x21, 0x00 | 0x31) => Ok(None),
        (0x21, 0x11) => of_parts::<4>(&rest).map(Some),
        (0x21, 0x21) => of_parts::<16>(&rest).map(Some),
        (0x21, _) => Err(malformed("neither TCP over IPv4 nor over IPv6")),
        _ => Err(malformed("unknown version or command")),
    }
}

/// Two addresses of `N` bytes, two ports.
fn of_parts<const N: usize>(bytes: &[u8]) -> io::Result<Proxied> {
    let read = || {
        let (source, rest) = bytes.split_at_checked(N)?;
        let (destination, rest) = rest.split_at_checked(N)?;
        let (from, rest) = rest.split_first_chunk::<2>()?;
        let (to, _) = rest.split_first_chunk::<2>()?;
        Some(Proxied {
            source: SocketAddr::new(address(source)?, u16::from_be_bytes(*from)),
            destination: SocketAddr::new(address(destination)?, u16::from_be_bytes(*to)),
        })
    };
    read().ok_or_else(|| malformed("addresses cut short"))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(four)));
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(IpAddr::V6(Ipv6Addr::from(sixteen)))
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a header says, and how many bytes behind it are left.
    fn read(bytes: &[u8]) -> Result<(Option<String>, usize), io::ErrorKind> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut rest = bytes;
        let said = runtime.block_on(receive(&mut rest)).map_err(|e| e.kind())?;
        let said = said.map(|said| format!("{} {}", said.source, said.destination));
        Ok((said, rest.len()))
    }

    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest, b"GET /"].concat()
    }

    #[test]
    fn version_1_is_read_and_nothing_behind_it() {
        for (line, expected) in [
            (
                "PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\nGET /",
                Some("192.0.2.1:4711 192.0.2.2:443"),
            ),
            (
                "PROXY TCP6 2001:db8::1 ::1 65535 0\r\nGET /",
                Some("[2001:db8::1]:65535 [::1]:0"),
            ),
            ("PROXY UNKNOWN\r\nGET /", None),
            ("PROXY UNKNOWN ffff:f::1 ffff::2 65535 65535\r\nGET /", None),
        ] {
            let expected = Ok((expected.map(str::to_owned), 5));
            assert_eq!(read(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn version_2_is_read_with_its_extensions() {
        let four = [192, 0, 2, 1, 192, 0, 2, 2, 0x12, 0x67, 0x01, 0xbb];
        let with_tls = [&four[..], &[0x20, 0, 5, 1, 0, 0, 0, 0]].concat();
        let expected = Ok((Some("192.0.2.1:4711 192.0.2.2:443".to_owned()), 5));
        assert_eq!(read(&version_2(0x21, 0x11, &four)), expected);
        assert_eq!(read(&version_2(0x21, 0x11, &with_tls)), expected);
        let mut six = [0; 36];
        (six[15], six[31], six[33], six[35]) = (1, 2, 80, 81);
        let expected = Ok((Some("[::1]:80 [::2]:81".to_owned()), 5));
        assert_eq!(read(&version_2(0x21, 0x21, &six)), expected);
        for (command, family) in [(0x20, 0x00), (0x20, 0x11), (0x21, 0x00), (0x21, 0x31)] {
            assert_eq!(read(&version_2(command, family, &four)), Ok((None, 5)));
        }
        assert_eq!(read(&version_2(0x20, 0, b"")), Ok((None, 5)));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(200));
        for text in [
            "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 4711\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 4711 443 1\r\n",
            "PROXY TCP4 ::1 ::1 1 1\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 1\r\n",
            "PROXY TCP4 192.0.2.256 192.0.2.2 1 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 65536 1\r\n",
            "PROXY UDP4 192.0.2.1 192.0.2.2 1 1\r\n",
            "PROXY \r\n012345678\r\n",
            "PROXY  TCP4 192.0.2.1 192.0.2.2 1 1\r\n",
            "PROXY TCP4 192.0.2.1\t192.0.2.2 1 1\r\n",
            "proxy unknown\r\n",
            long.as_str(),
        ] {
            assert_eq!(read(text.as_bytes()), Err(io::ErrorKind::InvalidData), "{text}");
        }
        for (command, family, rest) in [
            (0x21, 0x11, &[0; 11][..]),
            (0x21, 0x21, &[0; 35]),
            (0x21, 0x12, &[0; 12]),
            (0x22, 0x11, &[0; 12]),
            (0x11, 0x11, &[0; 12]),
            (0x20, 0x00, &[0; 5000]),
        ] {
            let bytes = version_2(command, family, rest);
            assert_eq!(
                read(&bytes),
                Err(io::ErrorKind::InvalidData),
                "{command} {family}"
            );
        }
        assert_eq!(read(b"PROXY TCP4 1"), Err(io::ErrorKind::UnexpectedEof));
    }
}
