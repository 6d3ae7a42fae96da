//! What requests leave behind in the workers of a pool whose isolation is "none": adds up what workers say, and logs each thing
//! once.
//!
//! A worker's word is input: texts are cut, tables are bounded. Called by `worker`, reported by `status`. Runs in: server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipc::control::{Leak, LeakKind, Leaks, MAX_LEAK_TEXT, MAX_LEAKS};
use tracing::{info, warn};

use super::worker::Who;
use crate::dispatch::RequestId;
use crate::report;

/// Different findings that are kept.
const MOST_FOUND: usize = 512;
/// Routes whose memory is added up.
const MOST_ROUTES: usize = 256;
/// Routes that are kept of a finding.
const ROUTES_OF_ONE: usize = 4;
/// Pairs of worker and route that are kept of a finding, to tell what happens again and again from a cache that fills.
const PAIRS_OF_ONE: usize = 32;
/// So many times in one worker by requests of one route is again and again.
const REPEATED: u32 = 3;
/// So many requests of a route tell whether it keeps memory each time.
const ENOUGH: u64 = 10;
/// Characters of a part of a path that is no longer a name.
const LONG_PART: usize = 40;

/// Everything found in one pool.
#[derive(Debug)]
pub(super) struct Book {
    pool: String,
    /// The project folder, with a slash behind it.
    dir: String,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    sampled: u64,
    found: BTreeMap<(LeakKind, String, String), Entry>,
    unlisted: u64,
    routes: BTreeMap<String, Memory>,
}

#[derive(Debug)]
struct Entry {
    change: String,
    times: u64,
    repeated: bool,
    first: RequestId,
    routes: BTreeSet<String>,
    pairs: Vec<(Who, String, u32)>,
}

#[derive(Debug, Default)]
struct Memory {
    sampled: u64,
    grew: u64,
    kept_bytes: i64,
    told: bool,
}

impl Book {
    /// Nothing found yet. Places below `dir` are shown relative to it.
    pub(super) fn new(pool: &str, dir: &Path) -> Self {
        Self {
            pool: pool.to_owned(),
            dir: format!("{}/", dir.display()),
            pages: Mutex::default(),
        }
    }

    /// A worker has looked at a request.
    pub(super) fn note(&self, who: Who, leaks: &Leaks) {
        let request = RequestId(leaks.request);
        let route = route(&leaks.method, &leaks.path);
        let mut pages = self.lock();
        pages.sampled += 1;
        pages.unlisted += u64::from(leaks.more);
        self.note_memory(&mut pages, &route, leaks.kept_bytes);
        for leak in leaks.found.iter().take(MAX_LEAKS) {
            self.note_one(&mut pages, leak, (who, request, &route));
        }
    }

    fn note_memory(&self, pages: &mut Pages, route: &str, kept_bytes: i64) {
        if pages.routes.len() >= MOST_ROUTES && !pages.routes.contains_key(route) {
            return;
        }
        let memory = pages.routes.entry(route.to_owned()).or_default();
        memory.sampled += 1;
        memory.grew += u64::from(kept_bytes > 0);
        memory.kept_bytes = memory.kept_bytes.saturating_add(kept_bytes);
        // A table that doubles now and then is no leak: nearly every request must keep something.
        if !memory.told && memory.sampled >= ENOUGH && memory.grew * 10 >= memory.sampled * 9 {
            memory.told = true;
            let (pool, sampled, kept_bytes) = (&self.pool, memory.sampled, memory.kept_bytes);
            warn!(
                pool,
                route, sampled, kept_bytes, "requests of a route keep memory"
            );
        }
    }

    fn note_one(&self, pages: &mut Pages, leak: &Leak, (who, request, route): (Who, RequestId, &str)) {
        let (name, place) = (cut(&leak.name), cut(&leak.place));
        let place = place.strip_prefix(&self.dir).unwrap_or(&place).to_owned();
        let key = (leak.kind, name, place);
        let is_new = !pages.found.contains_key(&key);
        if is_new && pages.found.len() >= MOST_FOUND {
            pages.unlisted += 1;
            return;
        }
        let (kind, name, place) = (Name(leak.kind), key.1.clone(), key.2.clone());
        let entry = pages.found.entry(key).or_insert_with(|| Entry::new(request));
        entry.change = cut(&leak.change);
        entry.times += 1;
        if entry.routes.len() < ROUTES_OF_ONE {
            entry.routes.insert(route.to_owned());
        }
        let again = entry.count(who, route) >= REPEATED && !entry.repeated;
        entry.repeated |= again;
        let (pool, change) = (&self.pool, &entry.change);
        let weight = Weight::of(leak.kind);
        match (again, weight) {
            (true, Weight::Process | Weight::Value) => {
                warn!(pool, %kind, name, place, change, %request, route, "requests keep leaving something behind");
            }
            (true, Weight::Service | Weight::Code) => {
                info!(pool, %kind, name, place, change, %request, route, "requests keep leaving something behind");
            }
            (false, Weight::Process) if is_new => {
                warn!(pool, %kind, name, place, change, %request, route, "a request left something behind");
            }
            (false, Weight::Value | Weight::Service) if is_new => {
                info!(pool, %kind, name, place, change, %request, route, "a request left something behind");
            }
            (false, _) => {}
        }
    }

    /// For `hearth leaks`. Says nothing of the settings.
    pub(super) fn report(&self) -> report::PoolLeaks {
        let pages = self.lock();
        let mut found: Vec<report::Found> = pages.found.iter().map(Entry::report).collect();
        found.sort_by_key(|one| (!one.repeated, std::cmp::Reverse(one.times)));
        let mut routes: Vec<report::RouteMemory> = pages
            .routes
            .iter()
            .map(|(route, memory)| report::RouteMemory {
                route: route.clone(),
                sampled: memory.sampled,
                grew: memory.grew,
                kept_bytes: memory.kept_bytes,
            })
            .collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.kept_bytes));
        report::PoolLeaks {
            name: self.pool.clone(),
            leak_check: 0,
            sampled: pages.sampled,
            found,
            unlisted: pages.unlisted,
            routes,
        }
    }

    /// Whole also after a panic: counts at worst miss one.
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(first: RequestId) -> Self {
        Self {
            change: String::new(),
            times: 0,
            repeated: false,
            first,
            routes: BTreeSet::new(),
            pairs: Vec::new(),
        }
    }

    /// One more time in this worker by this route: how often there.
    fn count(&mut self, who: Who, route: &str) -> u32 {
        if let Some((.., times)) = self.pairs.iter_mut().find(|(w, r, _)| *w == who && r == route) {
            *times = times.saturating_add(1);
            return *times;
        }
        if self.pairs.len() == PAIRS_OF_ONE {
            self.pairs.remove(0);
        }
        self.pairs.push((who, route.to_owned(), 1));
        1
    }

    fn report(((kind, name, place), entry): (&(LeakKind, String, String), &Self)) -> report::Found {
        report::Found {
            kind: *kind,
            name: name.clone(),
            place: (!place.is_empty()).then(|| place.clone()),
            change: entry.change.clone(),
            repeated: entry.repeated,
            times: entry.times,
            first_request: entry.first.to_string(),
            routes: entry.routes.iter().cloned().collect(),
            hint: hint(*kind).to_owned(),
        }
    }
}

/// A kind as in JSON, for the log.
struct Name(LeakKind);

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        serde::Serialize::serialize(&self.0, f)
    }
}

/// How much a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// It holds for whatever request comes next.
    Process,
    /// Of the application as a whole; perhaps a cache that fills.
    Value,
    /// Of one object among many: mostly what a service remembers of its last request.
    Service,
    /// Usual while an application gets warm; only what goes on means something.
    Code,
}

impl Weight {
    const fn of(kind: LeakKind) -> Self {
        match kind {
            LeakKind::Global | LeakKind::StaticProperty | LeakKind::FunctionStatic => Self::Value,
            LeakKind::ObjectProperty => Self::Service,
            LeakKind::Objects | LeakKind::Classes | LeakKind::Function => Self::Code,
            LeakKind::Setting
            | LeakKind::Handler
            | LeakKind::ShutdownFunction
            | LeakKind::Autoloader
            | LeakKind::Constant
            | LeakKind::Resource
            | LeakKind::StreamWrapper
            | LeakKind::OutputBuffer
            | LeakKind::Environment
            | LeakKind::Locale
            | LeakKind::Timezone
            | LeakKind::Encoding
            | LeakKind::Directory
            | LeakKind::Umask
            | LeakKind::Descriptor => Self::Process,
        }
    }
}

/// What can be done about it, besides isolating requests.
const fn hint(kind: LeakKind) -> &'static str {
    match kind {
        LeakKind::Global | LeakKind::StaticProperty | LeakKind::FunctionStatic => {
            "set it anew at the start of each request, or keep the value in an object that is made for the request"
        }
        LeakKind::ObjectProperty | LeakKind::Objects => {
            "reset the service after each request (Symfony: ResetInterface with the tag kernel.reset; Laravel: scoped instead of singleton)"
        }
        LeakKind::Setting => "call ini_restore() at the end of the request, or make it a setting of the pool",
        LeakKind::Handler => {
            "pair it with restore_error_handler() or restore_exception_handler(), or set it while the application boots"
        }
        LeakKind::ShutdownFunction | LeakKind::Autoloader | LeakKind::StreamWrapper => {
            "register it once, while the application boots"
        }
        LeakKind::Constant | LeakKind::Function => "declare it once, while the application boots",
        LeakKind::Classes => {
            "usual while classes are loaded; a number that keeps growing comes from eval() or anonymous classes"
        }
        LeakKind::Resource | LeakKind::Descriptor => "close it at the end of the request",
        LeakKind::OutputBuffer => "end each buffer that was started",
        LeakKind::Environment => "undo putenv() at the end of the request",
        LeakKind::Locale => "put it back with setlocale() at the end of the request",
        LeakKind::Timezone => {
            "put it back with date_default_timezone_set(), or give the zone to DateTime objects"
        }
        LeakKind::Encoding => "put it back with mb_internal_encoding(), or give the encoding to each call",
        LeakKind::Directory => "put it back with chdir(), or use absolute paths",
        LeakKind::Umask => "put it back with umask()",
    }
}

/// `GET /users/{id}`: parts of the path that look like numbers or keys are not told apart.
fn route(method: &str, path: &str) -> String {
    let is_key = |part: &str| {
        let key = |c: char| c.is_ascii_hexdigit() || c == '-';
        let has_digit = part.chars().any(|c| c.is_ascii_digit());
        let number = !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
        number || (part.len() >= 8 && has_digit && part.chars().all(key)) || part.chars().count() > LONG_PART
    };
    let (method, path) = (cut(method), cut(path));
    let parts: Vec<&str> = path
        .split('/')
        .map(|part| if is_key(part) { "{id}" } else { part })
        .collect();
    format!("{method} {}", parts.join("/"))
}

/// Text of a worker, of limited length and without what moves a cursor.
fn cut(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { '?' } else { c });
    plain.take(MAX_LEAK_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use ipc::slot::{Incarnation, WorkerId};

    use super::*;

    fn leaks(request: u64, names: &[&str]) -> Leaks {
        let leak = |name: &&str| Leak {
            kind: LeakKind::StaticProperty,
            name: (*name).to_owned(),
            place: "/srv/shop/src/Shop.php:7".to_owned(),
            change: "null → int".to_owned(),
        };
        Leaks {
            request,
            method: "GET".to_owned(),
            path: "/users/42/cart".to_owned(),
            kept_bytes: 100,
            found: names.iter().map(leak).collect(),
            more: 0,
        }
    }

    fn book() -> Book {
        Book::new("web", Path::new("/srv/shop"))
    }

    #[test]
    fn findings_are_added_up_by_name_and_place() {
        let (book, who) = (book(), (WorkerId(0), Incarnation(1)));
        book.note(who, &leaks(5, &["Shop::$user", "Shop::$cart"]));
        book.note(who, &leaks(6, &["Shop::$user"]));
        let report = book.report();
        assert_eq!((report.sampled, report.found.len()), (2, 2));
        let user = &report.found[0];
        assert_eq!(
            (user.name.as_str(), user.times, user.repeated),
            ("Shop::$user", 2, false)
        );
        assert_eq!(user.place.as_deref(), Some("src/Shop.php:7"));
        assert_eq!(
            (user.first_request.as_str(), user.routes.as_slice()),
            ("00000005", &["GET /users/{id}/cart".to_owned()][..])
        );
        assert_eq!(report.routes[0].kept_bytes, 200);
    }

    #[test]
    fn what_a_route_does_again_and_again_in_one_worker_is_repeated() {
        let book = book();
        for worker in 0..5 {
            book.note((WorkerId(worker), Incarnation(1)), &leaks(1, &["once in each"]));
        }
        for path in ["/a", "/b", "/c"] {
            let mut leaks = leaks(1, &["once a route"]);
            leaks.path = path.to_owned();
            book.note((WorkerId(0), Incarnation(1)), &leaks);
        }
        for request in 0..3 {
            book.note((WorkerId(0), Incarnation(1)), &leaks(request, &["each time"]));
        }
        let report = book.report();
        let repeated: Vec<_> = report
            .found
            .iter()
            .map(|one| (one.name.as_str(), one.repeated))
            .collect();
        assert_eq!(
            repeated,
            [
                ("each time", true),
                ("once in each", false),
                ("once a route", false)
            ]
        );
    }

    #[test]
    fn a_worker_cannot_fill_the_memory_of_the_server() {
        let book = book();
        let long = "x".repeat(100_000);
        for number in 0..2000 {
            let name = format!("{number}\n{long}");
            let mut leaks = leaks(number, &[&name]);
            leaks.path = format!("/p{number}x");
            book.note((WorkerId(0), Incarnation(1)), &leaks);
        }
        let report = book.report();
        assert_eq!(
            (report.found.len(), report.unlisted),
            (MOST_FOUND, 2000 - MOST_FOUND as u64)
        );
        assert_eq!(report.routes.len(), MOST_ROUTES);
        assert!(
            report
                .found
                .iter()
                .all(|one| one.name.len() <= MAX_LEAK_TEXT && !one.name.contains('\n'))
        );
    }

    #[test]
    fn numbers_and_keys_in_paths_are_one_route() {
        for (path, expected) in [
            ("/", "GET /"),
            ("/users/42", "GET /users/{id}"),
            ("/o/0f8fad5b-d9cb-469f-a165-70867728950e/x", "GET /o/{id}/x"),
            ("/facade/added", "GET /facade/added"),
            ("/v2/a1", "GET /v2/a1"),
        ] {
            assert_eq!(route("GET", path), expected);
        }
    }
}
