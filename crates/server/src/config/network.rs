//! Ranges of IP addresses, as they are written in lists of who may do something. Runs in: server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address, or all that begin with the same bits: `10.0.0.0/8`, `::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// The addresses of this machine alone.
    pub const LOOPBACK: [Self; 2] = [
        Self::v4([127, 0, 0, 0], 8),
        Self {
            address: IpAddr::V6(Ipv6Addr::LOCALHOST),
            bits: 128,
        },
    ];

    /// Networks that nobody reaches from outside: RFC 1918, loopback, link-local (RFC 3927, RFC 4291), RFC 4193.
    pub const PRIVATE: [Self; 8] = [
        Self::v4([10, 0, 0, 0], 8),
        Self::v4([172, 16, 0, 0], 12),
        Self::v4([192, 168, 0, 0], 16),
        Self::LOOPBACK[0],
        Self::LOOPBACK[1],
        Self::v4([169, 254, 0, 0], 16),
        Self::v6(0xfe80, 10),
        Self::v6(0xfc00, 7),
    ];

    const fn v4([a, b, c, d]: [u8; 4], bits: u8) -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            bits,
        }
    }

    /// `first` are its first 16 bits.
    const fn v6(first: u16, bits: u8) -> Self {
        Self {
            address: IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0)),
            bits,
        }
    }

    /// Whether `address` is in it. One of IPv4 written as one of IPv6 (`::ffff:10.0.0.1`) is the one of IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(address)) => {
                (net.to_bits() ^ address.to_bits()).leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(net), IpAddr::V6(address)) => {
                (net.to_bits() ^ address.to_bits()).leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) if bits.bytes().all(|b| b.is_ascii_digit()) => (address, Some(bits)),
            Some(_) => return Err(()),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| ())?;
        let this = Self { address, bits };
        // What is behind the bits would be ignored silently.
        (bits <= most && this.is_first()).then_some(this).ok_or(())
    }
}

impl Network {
    /// Whether nothing is set behind its bits.
    fn is_first(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => address.to_bits().trailing_zeros() + u32::from(self.bits) >= 32,
            IpAddr::V6(address) => address.to_bits().trailing_zeros() + u32::from(self.bits) >= 128,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_the_networks_that_begin_like_them() {
        for (network, address, expected) in [
            ("127.0.0.0/8", "127.1.2.3", true),
            ("127.0.0.0/8", "128.0.0.1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("10.0.0.0/8", "::ffff:10.9.9.9", true),
            ("::1", "::1", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::/0", "fe00::1", true),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(
                parsed.contains(address.parse().unwrap()),
                expected,
                "{network} {address}"
            );
        }
    }

    #[test]
    fn private_are_the_networks_that_are_not_routed() {
        let is_private = |address: &str| {
            let address = address.parse().unwrap();
            Network::PRIVATE.iter().any(|network| network.contains(address))
        };
        for address in [
            "10.255.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "127.0.0.1",
            "169.254.1.1",
            "::ffff:10.0.0.1",
            "::1",
            "fe80::1",
            "febf::1",
            "fc00::1",
            "fdff::1",
        ] {
            assert!(is_private(address), "{address}");
        }
        for address in [
            "9.255.255.255",
            "11.0.0.0",
            "172.32.0.1",
            "192.169.0.1",
            "100.64.0.1",
            "0.0.0.0",
            "::",
            "::2",
            "fec0::1",
            "fbff::1",
            "fe00::1",
            "2001:db8::1",
        ] {
            assert!(!is_private(address), "{address}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "localhost",
            "1.2.3",
            "1.2.3.4/33",
            "10.0.0.1/8",
            "::1/129",
            "1.2.3.4/+8",
            "::1/",
            "fd00::1/8",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        assert_eq!("0.0.0.0/0".parse::<Network>().unwrap().to_string(), "0.0.0.0/0");
    }
}
