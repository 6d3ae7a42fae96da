//! What clients have open and how often they ask, over all reactors: the limits that hold for one client.
//!
//! A client is an address; of IPv6 a network of 64 bits, which is what a customer has to himself. The memory is bounded: connections
//! are bounded by `limits.connections`, and of requests a table of fixed size remembers who asked lately; where it is full, the one that
//! asked least is forgotten, which can only do it good. Kept by `site`, asked by `connection`, `exchange` and `fastcgi`. Runs in: server.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderName;

use crate::config::{Rate, RateKey};
use crate::edge::site;

/// Clients whose requests are remembered: so many rows of so many.
const ROWS: usize = 4096;
const ROW: usize = 16;

/// The clients of a server.
#[derive(Debug)]
pub(in crate::edge) struct Clients {
    open: Mutex<HashMap<IpAddr, usize>>,
    asked: Vec<Mutex<[Asked; ROW]>>,
    hasher: RandomState,
    epoch: Instant,
}

/// How far ahead of its rate a client is (GCRA: the time at which its next request would be on time).
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    key: u64,
    /// Microseconds after the epoch.
    due: u64,
}

impl Clients {
    pub(in crate::edge) fn new() -> Self {
        Self {
            open: Mutex::default(),
            asked: (0..ROWS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            epoch: Instant::now(),
        }
    }

    /// A place for a connection of `client`, unless it has `limit`; 0 is without limit.
    pub(in crate::edge) fn enter(self: &Arc<Self>, client: IpAddr, limit: usize) -> Option<Place> {
        let client = network(client);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(client).or_default();
        if limit > 0 && *count >= limit {
            return None;
        }
        *count += 1;
        Some(Place {
            clients: Arc::clone(self),
            client,
        })
    }

    /// Counts a request that comes now. The error is how long the client has to wait with it.
    pub(in crate::edge) fn ask<'a>(
        &self,
        rate: &Rate,
        (path, header): (&[u8], impl Fn(&HeaderName) -> Option<&'a [u8]>),
        client: Option<IpAddr>,
    ) -> Result<(), Duration> {
        let fits = |pattern: &String| site::is_path_of(pattern, path);
        if !rate.paths.is_empty() && !rate.paths.iter().any(fits) {
            return Ok(());
        }
        let header = match &rate.key {
            RateKey::Header(name) => header(name),
            RateKey::Address => None,
        };
        let key = match (header, client) {
            (Some(value), _) => self.hasher.hash_one(value),
            (None, Some(client)) => self.hasher.hash_one(network(client)),
            // Over a unix socket there is no telling who it is.
            (None, None) => return Ok(()),
        };
        self.ask_at(rate, key, self.epoch.elapsed())
    }

    fn ask_at(&self, rate: &Rate, key: u64, now: Duration) -> Result<(), Duration> {
        let now = micros(now);
        let each = micros(rate.period / rate.requests.max(1)).max(1);
        let ahead = each.saturating_mul(u64::from(rate.burst.max(1)) - 1);
        let row = usize::try_from(key % ROWS as u64).unwrap_or_default();
        let Some(row) = self.asked.get(row) else {
            return Ok(());
        };
        let mut row = row.lock().unwrap_or_else(PoisonError::into_inner);
        let known = row.iter().position(|asked| asked.key == key && asked.due != 0);
        let least = || {
            row.iter()
                .enumerate()
                .min_by_key(|(_, asked)| asked.due)
                .map(|(at, _)| at)
        };
        let Some(asked) = known.or_else(least).and_then(|at| row.get_mut(at)) else {
            return Ok(());
        };
        let due = if known.is_some() { asked.due.max(now) } else { now };
        if due > now.saturating_add(ahead) {
            return Err(Duration::from_micros(due - now - ahead));
        }
        *asked = Asked {
            key,
            due: due.saturating_add(each),
        };
        Ok(())
    }
}

/// A connection that counts.
#[derive(Debug)]
pub(in crate::edge) struct Place {
    clients: Arc<Clients>,
    client: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.clients.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = open.entry(self.client) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (!0 << 64))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(requests: u32, burst: u32) -> Rate {
        Rate {
            requests,
            period: Duration::from_secs(1),
            burst,
            key: RateKey::Address,
            paths: Vec::new(),
        }
    }

    #[test]
    fn a_client_may_ask_its_burst_at_once_and_then_at_its_rate() {
        let clients = Clients::new();
        let rate = rate(10, 5);
        let mut now = Duration::from_secs(100);
        for _ in 0..5 {
            assert_eq!(clients.ask_at(&rate, 1, now), Ok(()));
        }
        assert_eq!(clients.ask_at(&rate, 1, now), Err(Duration::from_millis(100)));
        assert_eq!(clients.ask_at(&rate, 2, now), Ok(()), "another client");
        for _ in 0..50 {
            now += Duration::from_millis(100);
            assert_eq!(clients.ask_at(&rate, 1, now), Ok(()));
            assert!(clients.ask_at(&rate, 1, now).is_err());
        }
        now += Duration::from_secs(10);
        let served = (0..20).filter(|_| clients.ask_at(&rate, 1, now).is_ok());
        assert_eq!(served.count(), 5, "what was not asked for is not saved up");
    }

    #[test]
    fn a_full_row_forgets_who_asked_least() {
        let clients = Clients::new();
        let rate = rate(1, 3);
        let now = Duration::from_secs(1);
        let key = |n: usize| (n * ROWS) as u64 + 5;
        for _ in 0..3 {
            assert!(clients.ask_at(&rate, key(1), now).is_ok());
        }
        for n in 2..1000 {
            assert!(clients.ask_at(&rate, key(n), now).is_ok());
        }
        assert!(clients.ask_at(&rate, key(1), now).is_err());
    }

    #[test]
    fn connections_of_a_client_are_counted_together() {
        let clients = Arc::new(Clients::new());
        let enter = |address: &str, limit| clients.enter(address.parse().unwrap(), limit);
        let one = enter("192.0.2.1", 2).unwrap();
        let _two = enter("::ffff:192.0.2.1", 2).unwrap();
        assert!(enter("192.0.2.1", 2).is_none());
        let _other = enter("192.0.2.2", 2).unwrap();
        drop(one);
        let _again = enter("192.0.2.1", 2).unwrap();
        let _six = enter("2001:db8::1", 1).unwrap();
        assert!(enter("2001:db8::ffff:2", 1).is_none(), "the same network");
        let _next = enter("2001:db8:0:1::1", 1).unwrap();
        drop(enter("192.0.2.9", 1));
        let open = clients.open.lock().unwrap();
        assert!(!open.contains_key(&"192.0.2.9".parse::<IpAddr>().unwrap()));
    }
}
