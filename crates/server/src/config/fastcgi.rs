//! Settings of FastCGI listeners but for where they listen. Read by `edge`. Runs in: server.

use super::file::Value;
use super::network::Network;
use super::reader::Reader;

/// What web servers may ask for by FastCGI.
#[derive(Clone, Debug)]
pub struct FastCgi {
    /// Number of the group whose members may connect to its unix sockets, besides the server's user. Default: the server's group.
    pub socket_group: Option<u32>,
    /// Which addresses may connect over TCP: whoever does says which script runs, and who the client is. Default: this machine.
    pub allowed: Vec<Network>,
    /// How names of scripts end that a classic pool runs. Default `.php` and `.phar`; empty: in any way.
    pub limit_extensions: Vec<String>,
}

impl Default for FastCgi {
    fn default() -> Self {
        Self {
            socket_group: None,
            allowed: Network::LOOPBACK.to_vec(),
            limit_extensions: [".php", ".phar"].map(str::to_owned).to_vec(),
        }
    }
}

/// Reads them.
pub(super) fn fastcgi(reader: &mut Reader) -> FastCgi {
    let default = FastCgi::default();
    FastCgi {
        socket_group: socket_group(reader),
        allowed: networks(reader, "fastcgi.allowed").unwrap_or(default.allowed),
        limit_extensions: reader
            .list("fastcgi.limit_extensions")
            .map_or(default.limit_extensions, |(list, _)| list),
    }
}

/// By its number, or by its name in `/etc/group`.
fn socket_group(reader: &mut Reader) -> Option<u32> {
    const KEY: &str = "fastcgi.socket_group";
    let (name, origin) = reader.text(KEY)?;
    let number = name.parse().ok().or_else(|| group_number(&name));
    if number.is_none() {
        let form = "expected the number of a group, or a name that is in /etc/group";
        reader.wrong(origin, KEY, &Value::Text(name), form);
    }
    number
}

/// Lines are `NAME:PASSWORD:NUMBER:MEMBERS` (group(5)).
fn group_number(name: &str) -> Option<u32> {
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let mut numbers = groups.lines().filter_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    });
    numbers.next()
}

/// A list of addresses and networks.
pub(super) fn networks(reader: &mut Reader, key: &'static str) -> Option<Vec<Network>> {
    let (texts, origin) = reader.list(key)?;
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        if let Ok(network) = text.parse() {
            all.push(network);
        } else {
            let form =
                "expected an address or a network, for instance \"10.0.0.5\", \"10.0.0.0/8\" or \"fd00::/8\"";
            reader.wrong(origin.clone(), key, &Value::Text(text), form);
        }
    }
    Some(all)
}
