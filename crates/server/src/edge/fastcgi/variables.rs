//! The variables of a request as the web server gave them, and how they go to a worker.
//!
//! As php-fpm keeps them: a name that comes twice has the last value at the place of the first, and `$_SERVER` shows the last one
//! first (php-src main/fastcgi.c `fcgi_hash_set()`, 8.2). Called by `request` and `script`. Runs in: server, on a reactor.

use std::borrow::Cow;

use ipc::head::{Known, RequestWriter};

use super::records::{self, Malformed};
use crate::dispatch::RequestId;
use crate::edge::params;

/// Why there is no request in what was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It is no FastCGI.
    Malformed(Malformed),
    /// There are more variables than may be.
    TooMany,
    /// A name or value has a NUL in it, behind which C would not see the rest.
    Nul,
}

/// Variables by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Variables<'a>(Vec<(&'a [u8], Cow<'a, [u8]>)>);

impl<'a> Variables<'a> {
    /// Those of a request to a responder; `bytes` is the whole stream of its parameters, with `limit` of them at most.
    pub(super) fn read(bytes: &'a [u8], limit: usize) -> Result<Self, Unreadable> {
        if bytes.contains(&0) && has_nul(bytes) {
            return Err(Unreadable::Nul);
        }
        let mut all = Self(Vec::with_capacity(48));
        all.set(b"FCGI_ROLE", b"RESPONDER");
        for pair in records::pairs(bytes) {
            let (name, value) = pair.map_err(Unreadable::Malformed)?;
            if all.0.len() > limit {
                return Err(Unreadable::TooMany);
            }
            all.set(name, value);
        }
        Ok(all)
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.find(name).map(|(_, value)| &**value)
    }

    /// As [`Self::get`]; one that is empty counts as absent.
    pub(super) fn filled(&self, name: &[u8]) -> Option<&[u8]> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// As UTF-8; what is none, and what is absent, is `""`.
    pub(super) fn text(&self, name: &[u8]) -> &str {
        self.get(name)
            .and_then(|value| std::str::from_utf8(value).ok())
            .unwrap_or_default()
    }

    /// Gives `name` another value, or its first one.
    pub(super) fn set(&mut self, name: &'a [u8], value: impl Into<Cow<'a, [u8]>>) {
        let value = value.into();
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Gives the value of `name`, if it has one, to `copy` as well.
    pub(super) fn keep(&mut self, copy: &'a [u8], name: &[u8]) {
        if let Some(value) = self.find(name).map(|(_, value)| value.clone()) {
            self.set(copy, value);
        }
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        self.0.retain(|(other, _)| *other != name);
    }

    /// The head of the request for a worker. `script`: whether `SCRIPT_FILENAME` names one.
    pub(super) fn encode(&self, id: RequestId, script: bool) -> Vec<u8> {
        let bytes: usize = self.0.iter().map(|(n, v)| n.len() + v.len() + 16).sum();
        let mut writer = RequestWriter::new(id.0, bytes + 256);
        for (name, value) in self.0.iter().rev() {
            match known(name) {
                Some(Known::Script) if !script => {}
                Some(known) => writer.mark(known),
                // Over HTTP, too: libraries take it for a setting (httpoxy).
                None if *name == b"HTTP_PROXY" => continue,
                None => {}
            }
            writer.param(name, value);
        }
        params::put_id(&mut writer, id);
        writer.finish()
    }

    fn find(&self, name: &[u8]) -> Option<&(&'a [u8], Cow<'a, [u8]>)> {
        self.0.iter().find(|(other, _)| *other == name)
    }
}

/// What a worker looks for.
fn known(name: &[u8]) -> Option<Known> {
    Some(match name {
        b"REQUEST_METHOD" => Known::Method,
        b"REQUEST_URI" => Known::Uri,
        b"QUERY_STRING" => Known::Query,
        b"CONTENT_TYPE" => Known::ContentType,
        b"CONTENT_LENGTH" => Known::ContentLength,
        b"HTTP_COOKIE" => Known::Cookie,
        b"HTTP_AUTHORIZATION" => Known::Authorization,
        b"SCRIPT_FILENAME" => Known::Script,
        b"SERVER_PROTOCOL" => Known::Protocol,
        _ => return None,
    })
}

/// Whether there is a NUL in a name or value; there mostly is one in a length.
fn has_nul(bytes: &[u8]) -> bool {
    records::pairs(bytes)
        .flatten()
        .any(|(name, value)| name.contains(&0) || value.contains(&0))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use ipc::head::RequestReader;

    use super::*;

    pub(super) fn stream(pairs: &[(&str, &str)]) -> BytesMut {
        let mut bytes = BytesMut::new();
        for (name, value) in pairs {
            records::put_pair(&mut bytes, name.as_bytes(), value.as_bytes());
        }
        bytes
    }

    #[test]
    fn the_last_value_stands_at_the_place_of_the_first() {
        let bytes = stream(&[
            ("A", "1"),
            ("REQUEST_METHOD", "GET"),
            ("HTTP_PROXY", "x"),
            ("A", "2"),
        ]);
        let head = Variables::read(&bytes, 9).unwrap().encode(RequestId(42), true);
        let reader = RequestReader::new(&head).unwrap();
        let shown: Vec<_> = reader
            .params()
            .map(|p| (String::from_utf8_lossy(p.name), String::from_utf8_lossy(p.value)))
            .collect();
        let expected = [
            ("REQUEST_METHOD", "GET"),
            ("A", "2"),
            ("FCGI_ROLE", "RESPONDER"),
            ("HEARTH_REQUEST_ID", "0000002a"),
        ];
        assert_eq!(shown, expected.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(reader.known(Known::Method), Some(&b"GET"[..]));
    }

    #[test]
    fn what_c_would_read_otherwise_is_refused() {
        for (name, value) in [("A", "x.txt\0.php"), ("A\0B", "")] {
            let bytes = stream(&[("Z", ""), (name, value)]);
            assert_eq!(Variables::read(&bytes, 9), Err(Unreadable::Nul));
        }
        assert!(Variables::read(&stream(&[("A", "")]), 9).is_ok());
    }

    #[test]
    fn there_may_not_be_any_number_of_them() {
        let names: Vec<String> = (0..10).map(|n| format!("N{n}")).collect();
        let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(Variables::read(&stream(&pairs[..9]), 9).is_ok());
        assert_eq!(Variables::read(&stream(&pairs), 9), Err(Unreadable::TooMany));
        let broken = Unreadable::Malformed(Malformed::Pair);
        assert_eq!(Variables::read(&[5, 5, 1], 9), Err(broken));
    }
}
