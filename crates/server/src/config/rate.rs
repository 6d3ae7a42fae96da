//! `[rate]`: how often a client may ask. Read by `edge`. Runs in: server.

use std::time::Duration;

use super::file::Value;
use super::reader::Reader;
use super::resolve::{is_path_pattern, patterns};

/// How often a client may ask.
#[derive(Clone, Debug)]
pub struct Rate {
    /// Requests in `period`.
    pub requests: u32,
    /// 1 ms to 24 h. Default 1 s.
    pub period: Duration,
    /// Requests that may come at once. Default: `requests`.
    pub burst: u32,
    /// Whose requests are counted together.
    pub key: RateKey,
    /// Only requests for these paths count. Empty: all.
    pub paths: Vec<String>,
}

/// Whose requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateKey {
    /// Those of an address; of an IPv6 network of 64 bits, which is what a customer has.
    Address,
    /// Those with the same value of this header; without it, those of an address.
    Header(http::HeaderName),
}

/// `None`: there is no limit.
pub(super) fn rate(reader: &mut Reader) -> Option<Rate> {
    let requests = reader.number("rate.requests", 0, 0..=1_000_000);
    let rate = Rate {
        requests,
        period: reader.duration(
            "rate.period",
            Duration::from_secs(1),
            Duration::from_millis(1)..=Duration::from_hours(24),
        ),
        burst: reader.number("rate.burst", requests.max(1), 1..=1_000_000),
        key: rate_key(reader),
        paths: patterns(
            reader,
            "rate.paths",
            "no path: expected for instance \"/login\" for one, or \"/api/*\" for all below it",
            is_path_pattern,
        ),
    };
    (requests > 0).then_some(rate)
}

fn rate_key(reader: &mut Reader) -> RateKey {
    const KEY: &str = "rate.key";
    let Some((text, origin)) = reader.text(KEY) else {
        return RateKey::Address;
    };
    if text == "address" {
        return RateKey::Address;
    }
    if let Some(name) = text
        .strip_prefix("header:")
        .and_then(|name| name.trim().parse().ok())
    {
        return RateKey::Header(name);
    }
    reader.wrong(
        origin,
        KEY,
        &Value::Text(text),
        "expected \"address\", or \"header:NAME\", for instance \"header:X-Api-Key\"",
    );
    RateKey::Address
}
