//! Chance and time: no two requests get the same random numbers, ids, salts or keys, in whichever worker and whenever it was
//! forked; and each request sees its own time. See `random/draw.php` for the sources.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{App, Server, kill};

/// Requests of each mode; `HEARTH_TEST_DRAWS` for another number.
const REQUESTS: usize = 10_000;
const CLIENTS: usize = 8;
const WORKERS: usize = 4;
/// Workers that are killed on the way, so that new ones are forked.
const KILLS: usize = 5;
/// A source fails by chance at most once in so many runs.
const CHANCE: f64 = 1e-9;

/// What one mode has answered.
#[derive(Default)]
struct Drawn {
    /// By source: bits of the seed, and in which workers each value was drawn, when.
    values: BTreeMap<String, (u32, HashMap<String, Vec<String>>)>,
    /// What must be the same in each request, by name: the values seen.
    steady: BTreeMap<String, HashMap<String, usize>>,
    /// Process ids of the workers that answered.
    workers: BTreeSet<i64>,
}

impl Drawn {
    fn add(&mut self, answer: &Value) {
        for (name, drawn) in answer["drawn"].as_object().unwrap() {
            let bits = u32::try_from(drawn[0].as_u64().unwrap()).unwrap();
            let values = &mut self
                .values
                .entry(name.clone())
                .or_insert_with(|| (bits, HashMap::new()))
                .1;
            let value = drawn[1].as_str().unwrap().to_owned();
            let place = format!("{} at {}", answer["pid"], answer["time"]);
            values.entry(value).or_default().push(place);
        }
        for (name, value) in answer["steady"].as_object().unwrap() {
            let values = self.steady.entry(name.clone()).or_default();
            *values.entry(value.to_string()).or_default() += 1;
        }
        self.workers.insert(answer["worker"].as_i64().unwrap());
    }

    /// The sources that repeat themselves more often than chance allows.
    fn repeating(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, (bits, values)) in &self.values {
            let count: usize = values.values().map(Vec::len).sum();
            let (repeats, allowed) = (count - values.len(), allowed(count, *bits));
            if repeats > allowed {
                let example = values.iter().find(|(_, places)| places.len() > 1);
                wrong.push(format!(
                    "{name}: {repeats} of {count} draws repeat, {allowed} are allowed; e.g. {example:?}"
                ));
            }
        }
        wrong
    }
}

/// Repeats among `count` draws of `bits` bits that are still chance: the birthday problem, as a Poisson distribution.
fn allowed(count: usize, bits: u32) -> usize {
    #[expect(clippy::cast_precision_loss, reason = "a count of requests is small")]
    let count = count as f64;
    let expected = count * (count - 1.0) / 2.0 / 2.0_f64.powi(i32::try_from(bits).unwrap());
    // P(k repeats), for k = 0, 1, …; what is left of 1 is P(more than k).
    let mut allowed = 0;
    let mut next = expected * (-expected).exp();
    while next > CHANCE {
        allowed += 1;
        next *= expected / f64::from(u32::try_from(allowed).unwrap() + 1);
    }
    allowed
}

fn requests() -> usize {
    let chosen = std::env::var("HEARTH_TEST_DRAWS").ok();
    chosen.map_or(REQUESTS, |count| {
        count.parse().expect("HEARTH_TEST_DRAWS is a number")
    })
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64()
}

/// Draws `count` times, in all clients at the same time; `more` is appended to each query.
fn draw(server: &Server, count: usize, more: &str) -> Drawn {
    let drawn = Mutex::new(Drawn::default());
    let asked = AtomicUsize::new(0);
    let kills = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.connect();
                loop {
                    // Relaxed: each number is taken once.
                    let n = asked.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return;
                    }
                    let before = now();
                    let answer = client.request("GET", &format!("/?n={n}{more}"), b"").unwrap();
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
                    let time = answer["time"].as_f64().unwrap();
                    // PHP counts in microseconds.
                    assert!(
                        before - 1e-5 <= time && time <= now(),
                        "REQUEST_TIME_FLOAT is {time}, asked at {before}"
                    );
                    drawn.lock().unwrap().add(&answer);
                    // Relaxed: as above.
                    if n % (count / (KILLS + 1)) == count / (KILLS + 1) - 1
                        && kills.fetch_add(1, Ordering::Relaxed) < KILLS
                    {
                        let pid = i32::try_from(answer["worker"].as_i64().unwrap()).unwrap();
                        kill(pid, Signal::KILL);
                    }
                }
            });
        }
    });
    drawn.into_inner().unwrap()
}

fn assert_nothing_repeats(settings: &[&str], count: usize, more: &str) {
    let app = App::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/random"));
    let workers = format!("pool.web.workers={WORKERS}");
    let mut all = vec![workers.as_str(), "pool.web.ini.ffi.enable=\"true\""];
    all.extend(settings);
    let server = Server::start(&app, &all);
    let drawn = draw(&server, count, more);
    assert!(
        drawn.values.len() >= 20,
        "sources: {:?}",
        drawn.values.keys().collect::<Vec<_>>()
    );
    assert_eq!(drawn.repeating(), Vec::<String>::new(), "{settings:?}");
    for (name, values) in &drawn.steady {
        assert_eq!(values.len(), 1, "{name} is not steady: {values:?}");
    }
    assert!(drawn.workers.len() > WORKERS, "no worker was replaced");
}

const CLASSIC: [&str; 2] = [
    "pool.web.mode=\"classic\"",
    "pool.web.script=\"public/index.php\"",
];
const RESIDENT: [&str; 2] = ["pool.web.mode=\"resident\"", "pool.web.script=\"worker.php\""];

#[test]
fn classic_requests_never_draw_the_same() {
    // PHP does it alone here; it boots for each request, which takes its time.
    assert_nothing_repeats(&CLASSIC, requests() / 4, "");
}

#[test]
fn resident_requests_that_keep_state_never_draw_the_same() {
    let [mode, script] = RESIDENT;
    let settings = [mode, script, "pool.web.isolation=\"none\""];
    // libuuid seeds the C library's generator with few bits of the time. Where state is kept, the next request draws from that.
    assert_nothing_repeats(&settings, requests(), "&c&uuid=no");
    assert_nothing_repeats(&settings, requests() / 4, "");
}

#[test]
fn resident_requests_that_are_put_back_never_draw_the_same() {
    let [mode, script] = RESIDENT;
    assert_nothing_repeats(
        &[mode, script, "pool.web.isolation=\"request\""],
        requests(),
        "&c",
    );
}

#[test]
fn resident_requests_in_forks_of_their_own_never_draw_the_same() {
    let [mode, script] = RESIDENT;
    let fork = "pool.web.isolation_method=\"fork\"";
    assert_nothing_repeats(
        &[mode, script, "pool.web.isolation=\"request\"", fork],
        requests() / 4,
        "&c",
    );
}

#[test]
fn a_seed_of_32_bits_may_repeat_itself_a_few_times() {
    assert_eq!(allowed(10_000, 64), 0);
    assert_eq!(allowed(10_000, 32), 3);
    assert!((8..30).contains(&allowed(10_000, 24)), "{}", allowed(10_000, 24));
}
