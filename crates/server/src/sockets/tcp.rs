//! Sockets of TCP that are to listen. Called by `edge` and `admin`. Runs in: server, on the main thread.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

/// Connections the kernel holds until they are accepted (at most `net.core.somaxconn`).
pub(crate) const BACKLOG: i32 = 4096;

/// A socket that has the address, and does not listen. That of `[::]` is for all addresses, whatever `net.ipv6.bindv6only` says, and for
/// all there are where the kernel has no IPv6.
pub(crate) fn bind(address: SocketAddr) -> io::Result<Socket> {
    match bind_as_named(address) {
        Err(error) if is_without_ipv6(&error) && is_any_of_ipv6(address) => {
            bind_as_named((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    }
}

fn bind_as_named(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if is_any_of_ipv6(address) {
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

fn is_any_of_ipv6(address: SocketAddr) -> bool {
    address.ip() == Ipv6Addr::UNSPECIFIED
}

/// Whether the kernel was built or started without IPv6, or has it switched off.
fn is_without_ipv6(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_are_those_of_both_families() {
        // It does not listen: nobody can connect.
        let socket = bind((Ipv6Addr::UNSPECIFIED, 0).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        if address.is_ipv6() {
            assert!(!socket.only_v6().unwrap());
        } else {
            assert_eq!(address.ip(), Ipv4Addr::UNSPECIFIED);
        }
    }
}
