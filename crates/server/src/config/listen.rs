//! Where the server listens, and what is spoken there. Read by `edge` and `app`. Runs in: server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::file::Value;
use super::reader::Reader;
use super::resolve::{SOCKET_PATH, to_address};

/// One listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub place: Place,
    /// What is spoken.
    pub protocol: Protocol,
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address and a port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// The absolute path of a unix socket.
    Unix(PathBuf),
}

/// What is spoken on a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP in the clear.
    Http,
    /// HTTP over TLS.
    Https,
    /// FastCGI, with a web server as the client.
    FastCgi,
}

impl Protocol {
    const ALL: [Self; 3] = [Self::Http, Self::Https, Self::FastCgi];

    /// The one that URLs name so; `tls` is as good as `https`.
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        let scheme = if scheme == "tls" {
            Self::Https.scheme()
        } else {
            scheme
        };
        Self::ALL.into_iter().find(|protocol| protocol.scheme() == scheme)
    }

    /// As URLs name it.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::FastCgi => "fastcgi",
        }
    }
}

impl Listen {
    /// `http://127.0.0.1:8080`, or as nginx writes it `http://unix:/run/shop.sock`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.protocol.scheme(), self.place)
    }
}

/// The place of HTTP in the clear, the URL of all others.
impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Protocol::Http => self.place.fmt(f),
            Protocol::Https | Protocol::FastCgi => f.write_str(&self.url()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The places that `key` names, one or a list; relative paths are below `dir`. `None`: it is not set.
pub(super) fn places(
    reader: &mut Reader,
    (key, protocol): (&'static str, Protocol),
    dir: &Path,
) -> Option<Vec<Listen>> {
    let (texts, origin) = reader.addresses(key)?;
    let mut all: Vec<Listen> = Vec::with_capacity(texts.len());
    let shown = match &*texts {
        [one] => Value::Text(one.clone()),
        many => Value::List(many.to_vec()),
    };
    for text in &texts {
        let place = match place(text, dir) {
            Ok(place) => place,
            Err(form) => {
                let form = if texts.len() == 1 {
                    form
                } else {
                    format!("\"{text}\": {form}")
                };
                reader.wrong(origin.clone(), key, &shown, &form);
                continue;
            }
        };
        let is_free = matches!(&place, Place::Tcp(address) if address.port() == 0);
        if !is_free && all.iter().any(|other| other.place == place) {
            reader.wrong(origin.clone(), key, &shown, &format!("\"{text}\" is in it twice"));
        }
        all.push(Listen { place, protocol });
    }
    leave_out_covered(&mut all);
    if texts.is_empty() {
        reader.wrong(origin, key, &shown, "expected at least one address");
    }
    Some(all)
}

/// A socket of `[::]` takes the connections of IPv4 as well: there is no second one for them.
fn leave_out_covered(all: &mut Vec<Listen>) {
    let is_any = |place: &Place, any: IpAddr, port: u16| matches!(place, Place::Tcp(address) if address.ip() == any && address.port() == port && port != 0);
    let places: Vec<Place> = all.iter().map(|listen| listen.place.clone()).collect();
    let is_covered = |place: &Place| {
        let Place::Tcp(address) = place else { return false };
        let port = address.port();
        is_any(place, Ipv4Addr::UNSPECIFIED.into(), port)
            && places
                .iter()
                .any(|other| is_any(other, Ipv6Addr::UNSPECIFIED.into(), port))
    };
    all.retain(|listen| !is_covered(&listen.place));
}

fn place(text: &str, dir: &Path) -> Result<Place, String> {
    let Some(path) = text.strip_prefix("unix:") else {
        if let Ok(port) = text.parse::<u16>() {
            return Err(missing_address(port));
        }
        let form = "expected ADDRESS:PORT, for instance \"127.0.0.1:8080\" or \"[::1]:8080\"; \":8080\" for all addresses; or \
                    \"unix:PATH\"";
        return to_address(text).map(Place::Tcp).ok_or_else(|| form.to_owned());
    };
    let full = dir.join(path);
    if path.is_empty() || path.ends_with('/') || full.as_os_str().len() > SOCKET_PATH {
        return Err(format!(
            "expected behind `unix:` the path of a socket, of at most {SOCKET_PATH} bytes with its folders"
        ));
    }
    Ok(Place::Unix(full))
}

/// For a port that stands alone.
pub(super) fn missing_address(port: u16) -> String {
    format!(
        "a port alone does not say who may connect: write \"127.0.0.1:{port}\" in quotes for this machine, \":{port}\" for all"
    )
}
