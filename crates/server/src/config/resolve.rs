//! From settings as written to `Config`: explicit values first, then what detection found, then defaults; validated.
//!
//! Touches the disk to see that named files exist; starts nothing. Called by `Config::load`. Runs in: server.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use super::compression::compression;
use super::entry::{Entry, entry};
use super::environment;
use super::fastcgi::fastcgi;
use super::file::{ADMIN_INI, Errors, FIRST_POOL, File, INI, Origin, Value};
use super::limits::limits;
use super::listen::{self, Listen, Place, Protocol};
use super::process::process;
use super::project::{names, project_folder};
use super::rate;
use super::reader::Reader;
use super::rules::{error_pages, internal, rules};
use super::tls;
use super::trusted_proxies::trusted_proxies;
use super::{
    AdminSocket, ByteSize, Config, Health, Isolation, IsolationMethod, Loaded, Log, LogFormat, Pool,
    Recycling, Reload, Requests, Sources, Warmup,
};
use crate::rights::Rights;
use crate::trust::{self, Groups};

/// Most paths of `pool.web.warmup_paths`, and bytes of each such path: their heads must fit into one message to the zygote.
const WARMUP_PATHS: usize = 16;
const TARGET: usize = 512;
/// Longest path of a unix socket on Linux (`sun_path`, without its NUL).
pub(super) const SOCKET_PATH: usize = 107;

/// Most listening sockets: they are handed to a successor in one message.
const LISTENERS: usize = 32;
/// Where `--https` listens unless told otherwise.
const LISTEN_HTTPS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8443));
/// Where to listen unless told otherwise.
const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));

const ZERO: Duration = Duration::ZERO;
const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// See `Config::load`.
pub(super) fn load(sources: &Sources) -> Result<Loaded, Errors> {
    load_with_keys(sources).map(|(loaded, _)| loaded)
}

/// As `load`, with the keys that exist.
pub(super) fn load_with_keys(sources: &Sources) -> Result<(Loaded, BTreeSet<&'static str>), Errors> {
    let dir = project_folder(&sources.dir)?;
    let file = File::read_trusted(sources);
    let origins = file.origins();
    let mut reader = Reader::new(file);
    let cores = available_parallelism().map_or(1, usize::from);
    let file = reader.text_of_file().cloned();
    let mut reasons: Vec<String> = file.iter().map(|file| format!("read {}", file.path)).collect();
    let watch = reader.switch("watch", false);
    let mut pools = pools(&mut reader, &dir, (cores, watch), &mut reasons);
    for pool in &mut pools {
        pool.dev = sources.dev;
    }
    let listen = listeners(&mut reader, &dir, sources.https.is_some());
    let is_https = |listen: &Listen| listen.protocol == Protocol::Https;
    let config = Config {
        tls: tls::tls(
            &mut reader,
            &dir,
            (listen.iter().any(is_https), sources.https.as_deref()),
        ),
        listen,
        reactors: reader.number(
            "reactors",
            cores.min(ipc::layout::MAX_REACTORS),
            1..=ipc::layout::MAX_REACTORS,
        ),
        limits: limits(&mut reader),
        fastcgi: fastcgi(&mut reader),
        trusted_proxies: trusted_proxies(&mut reader),
        rate: rate::rate(&mut reader),
        compression: compression(&mut reader),
        log: log(&mut reader, &dir),
        stop_delay: reader.duration("stop_delay", ZERO, ZERO..=HOUR),
        stop_timeout: reader.duration("stop_timeout", Duration::from_secs(30), ZERO..=HOUR),
        reload: reload(&mut reader),
        watch,
        admin_socket: admin_socket(&mut reader, &dir),
        admin_listen: address(&mut reader, "admin_listen"),
        admin_hosts: admin_hosts(&mut reader),
        h2c_upgrade: reader.switch("h2c_upgrade", false),
        spool_dir: servers_own(&mut reader, "spool_dir", &dir, ("a folder", Path::is_dir))
            .unwrap_or_else(std::env::temp_dir),
        pools,
        names: names(&sources.dir),
        file,
        dir,
    };
    let read = reader.finish()?;
    if let Some(reason) = environment::reason(&origins, &read.strangers) {
        reasons.insert(usize::from(config.file.is_some()), reason);
    }
    let loaded = Loaded {
        config,
        reasons,
        origins,
    };
    Ok((loaded, read.keys))
}

/// Every listening socket, those of `listen` first.
fn listeners(reader: &mut Reader, dir: &Path, local: bool) -> Vec<Listen> {
    let http = listen::places(reader, ("listen", Protocol::Http), dir);
    let fastcgi = listen::places(reader, ("fastcgi.listen", Protocol::FastCgi), dir);
    let https = listen::places(reader, ("tls.listen", Protocol::Https), dir);
    let https = https.or(local.then(|| {
        vec![Listen {
            place: Place::Tcp(LISTEN_HTTPS),
            protocol: Protocol::Https,
        }]
    }));
    // In the place of php-fpm nobody expects it to speak HTTP.
    let usual = (http.is_none() && fastcgi.is_none()).then_some(Listen {
        place: Place::Tcp(LISTEN),
        protocol: Protocol::Http,
    });
    let mut all: Vec<Listen> = http
        .into_iter()
        .flatten()
        .chain(usual)
        .chain(https.into_iter().chain(fastcgi).flatten())
        .collect();
    if all.len() > LISTENERS {
        all.truncate(LISTENERS);
        let why = format!("listening at more than {LISTENERS} addresses: name fewer");
        reader.problem(Origin::Dir(dir.display().to_string()), why);
    }
    all
}

/// See `Config::admin_socket`.
pub(super) fn admin_socket_of(sources: &Sources) -> Result<(Vec<PathBuf>, AdminSocket), Errors> {
    let names = names(&sources.dir);
    // A folder that is gone, or a link to one, is served on, and its server has to be told of another.
    let dir = project_folder(&sources.dir).or_else(|errors| match sources.dir.metadata() {
        Err(_) => Ok(names.first().cloned().unwrap_or_default()),
        Ok(_) => Err(errors),
    })?;
    let mut reader = Reader::new(File::read(sources));
    let socket = admin_socket(&mut reader, &dir);
    Ok((names, socket))
}

fn reload(reader: &mut Reader) -> Reload {
    let default = Reload::default();
    Reload {
        drain_timeout: reader.duration("reload.drain_timeout", default.drain_timeout, ZERO..=HOUR),
        keep_previous: reader.duration("reload.keep_previous", default.keep_previous, ZERO..=DAY),
    }
}

fn health(reader: &mut Reader) -> Health {
    const PATH: &str = "pool.web.health_path";
    let path = reader.text(PATH).map_or_else(|| "/".to_owned(), |(path, origin)| {
        if !path.is_empty() && !is_target(&path) {
            let form = format!(
                "expected the path of a URL, percent-encoded, at most {TARGET} bytes, or nothing for no check"
            );
            reader.wrong(origin, PATH, &Value::Text(path.clone()), &form);
        }
        path
    });
    let status = reader.number("pool.web.health_status", 0_u16, 0..=599);
    Health {
        path,
        status: (status != 0).then_some(status),
    }
}

/// What a request line may hold, RFC 9112 §3.2.1; a fragment never comes to a server.
fn is_target(path: &str) -> bool {
    path.starts_with('/') && path.len() <= TARGET && path.bytes().all(|b| b.is_ascii_graphic() && b != b'#')
}

fn admin_socket(reader: &mut Reader, dir: &Path) -> AdminSocket {
    match reader.text("admin_socket") {
        None => AdminSocket::Default,
        Some((text, _)) if text == "off" => AdminSocket::Off,
        Some((text, origin)) => {
            let path = dir.join(&text);
            if path.as_os_str().len() > SOCKET_PATH || text.is_empty() || text.ends_with('/') {
                let form = format!(
                    "expected \"off\", or the path of a socket, of at most {SOCKET_PATH} bytes with its folders"
                );
                reader.wrong(origin, "admin_socket", &Value::Text(text), &form);
            }
            AdminSocket::At(path)
        }
    }
}

fn admin_hosts(reader: &mut Reader) -> Vec<String> {
    const FORM: &str =
        "no host: expected for instance \"probes.example.com\", in small letters and without a port";
    patterns(reader, "admin_hosts", FORM, |host| {
        is_host(host) && !host.contains('*')
    })
}

fn address(reader: &mut Reader, key: &'static str) -> Option<SocketAddr> {
    reader.as_text(key);
    let (text, origin) = reader.text(key)?;
    let address = to_address(&text);
    if address.is_none() {
        let form = text.parse().map_or_else(
            |_| {
                "expected ADDRESS:PORT, for instance \"127.0.0.1:8080\" or \"[::1]:8080\"; or \":8080\" for all addresses"
                    .to_owned()
            },
            listen::missing_address,
        );
        reader.wrong(origin, key, &Value::Text(text), &form);
    }
    address
}

/// `ADDRESS:PORT`, `localhost:PORT`, or `:PORT` for all addresses.
pub(super) fn to_address(text: &str) -> Option<SocketAddr> {
    match text.split_once(':') {
        Some(("localhost", port)) => format!("127.0.0.1:{port}").parse().ok(),
        Some(("", port)) => format!("[::]:{port}").parse().ok(),
        _ => text.parse().ok(),
    }
}

/// A file that may have to be made, relative to `dir`.
fn file_to_be(reader: &mut Reader, key: &'static str, dir: &Path) -> Option<PathBuf> {
    let (text, origin) = reader.text(key)?;
    if text.is_empty() || text.ends_with('/') {
        reader.wrong(origin, key, &Value::Text(text), "expected the path of a file");
        return None;
    }
    Some(dir.join(text))
}

fn log(reader: &mut Reader, dir: &Path) -> Log {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let levels = [
        ("error", tracing::Level::ERROR),
        ("warn", tracing::Level::WARN),
        ("info", tracing::Level::INFO),
        ("debug", tracing::Level::DEBUG),
    ];
    Log {
        format: reader.word_or("log.format", &formats, LogFormat::Text),
        level: reader.word_or("log.level", &levels, tracing::Level::INFO),
        php_level: reader.word_or("log.php_level", &levels, tracing::Level::INFO),
        access: reader.switch("log.access", true),
        file: file_to_be(reader, "log.file", dir),
        access_file: file_to_be(reader, "log.access_file", dir),
    }
}

/// `web`, then the others by name.
fn pools(
    reader: &mut Reader,
    dir: &Path,
    (cores, watch): (usize, bool),
    reasons: &mut Vec<String>,
) -> Vec<Pool> {
    let nowhere = Origin::Dir(String::new());
    let all = std::iter::once((FIRST_POOL.to_owned(), nowhere)).chain(reader.pools());
    let mut pools = Vec::new();
    for (name, origin) in all {
        reader.at(&name);
        let (entry, why) = entry(reader, dir);
        if name == FIRST_POOL {
            reasons.extend(why);
        } else {
            reasons.extend(why.into_iter().map(|reason| format!("pool {name}: {reason}")));
        }
        pools.push(pool(reader, (&name, origin), entry, (cores, watch)));
    }
    reader.at(FIRST_POOL);
    // It is asked for to find a fault, wherever that is.
    let paranoid = pools.first().is_some_and(|web| web.paranoid);
    for pool in &mut pools {
        pool.paranoid |= paranoid;
    }
    pools
}

/// Which requests the pool at hand gets.
fn requests_of(reader: &mut Reader, (name, origin): (&str, Origin)) -> Requests {
    if reader.is_at_first() {
        return Requests::default();
    }
    let requests = Requests {
        hosts: patterns(
            reader,
            "pool.web.hosts",
            "no host: expected for instance \"example.com\" or \"*.example.com\", in small letters and without a port",
            is_host,
        ),
        paths: patterns(
            reader,
            "pool.web.paths",
            "no path: expected for instance \"/status\" for one, or \"/api/*\" for all below it",
            is_path_pattern,
        ),
    };
    if requests.hosts.is_empty() && requests.paths.is_empty() {
        reader.problem(
            origin,
            format!(
                "pool `{name}` gets no requests: set `pool.{name}.hosts` or `pool.{name}.paths`; what no pool is named for goes to \
                 `{FIRST_POOL}`"
            ),
        );
    }
    requests
}

/// `/a` or `/a/*`.
pub(super) fn is_path_pattern(path: &str) -> bool {
    path.starts_with('/') && !path.strip_suffix("/*").unwrap_or(path).contains('*')
}

/// A list of texts that are each of a form.
pub(super) fn patterns(
    reader: &mut Reader,
    key: &'static str,
    form: &str,
    is_one: fn(&str) -> bool,
) -> Vec<String> {
    let Some((texts, origin)) = reader.list(key) else {
        return Vec::new();
    };
    if let Some(wrong) = texts.iter().find(|text| !is_one(text)) {
        let why = format!("\"{wrong}\" is {form}");
        reader.wrong(origin, key, &Value::List(texts.clone()), &why);
    }
    texts
}

pub(super) fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._[:]".contains(&b);
    !name.is_empty() && name.bytes().all(is_part)
}

fn pool(
    reader: &mut Reader,
    (name, origin): (&str, Origin),
    entry: Entry,
    (cores, watch): (usize, bool),
) -> Pool {
    let dir = &entry.dir.clone();
    let most = u16::try_from(ipc::layout::MAX_WORKERS).unwrap_or(u16::MAX);
    let workers = u16::try_from(cores * 2).unwrap_or(most).clamp(2, most);
    let workers = reader.number("pool.web.workers", workers, 1..=most);
    let process = process(reader, dir);
    Pool {
        rights: Rights::of_pool(process.user.as_deref(), process.group.as_deref()),
        process,
        requests: requests_of(reader, (name, origin)),
        name: name.to_owned(),
        dir: entry.dir,
        root: entry.root,
        rules: rules(reader),
        error_pages: error_pages(reader, dir),
        intercept_errors: reader.switch("pool.web.intercept_errors", false),
        internal: internal(reader, dir),
        htaccess: reader.switch("pool.web.htaccess", true),
        mode: entry.mode,
        script: entry.script,
        isolation: isolation(reader),
        warmup: warmup(reader, watch),
        warmup_paths: warmup_paths(reader),
        leak_check: reader.number("pool.web.leak_check", 1000, 0..=1_000_000),
        isolation_method: isolation_method(reader),
        paranoid: reader.switch("pool.web.paranoid", false),
        workers,
        min_workers: reader.number("pool.web.min_workers", workers, 1..=workers),
        worker_idle_timeout: reader.duration(
            "pool.web.worker_idle_timeout",
            Duration::from_mins(1),
            MILLI..=DAY,
        ),
        recycling: recycling(reader),
        php_ini: existing(
            reader,
            "pool.web.php_ini",
            dir,
            "a php.ini, or a folder with one",
            Path::exists,
        ),
        ini: reader.table(INI),
        admin_ini: reader.table(ADMIN_INI),
        idempotency_key: reader.switch("pool.web.idempotency_key", false),
        queue_length: reader.number("pool.web.queue_length", 1024, 0..=1_000_000),
        queue_timeout: reader.duration("pool.web.queue_timeout", Duration::from_secs(30), ZERO..=HOUR),
        request_timeout: reader.duration("pool.web.request_timeout", Duration::from_mins(1), ZERO..=DAY),
        request_grace: reader.duration("pool.web.request_grace", Duration::from_secs(5), ZERO..=HOUR),
        slow_log: reader.duration("pool.web.slow_log", ZERO, ZERO..=DAY),
        health: health(reader),
        max_unavailable: reader.number("pool.web.max_unavailable", 0, 0..=most),
        boot_timeout: reader.duration("pool.web.boot_timeout", Duration::from_secs(30), MILLI..=HOUR),
        worker_binary: servers_own(
            reader,
            "pool.web.worker_binary",
            dir,
            ("the hearth-worker binary", Path::is_file),
        )
        .unwrap_or_else(worker_binary),
        dev: false,
    }
}

fn recycling(reader: &mut Reader) -> Recycling {
    Recycling {
        requests: reader.number("pool.web.max_requests", 0, 0..=1_000_000_000),
        memory: reader.size(
            "pool.web.max_memory",
            ByteSize(0),
            ByteSize(0)..=ByteSize::gib(1024),
        ),
        age: reader.duration("pool.web.max_age", ZERO, ZERO..=30 * DAY),
    }
}

/// `hearth-worker` beside the running binary; by name alone where that is unknown, so that PATH decides.
fn worker_binary() -> PathBuf {
    let name = "hearth-worker";
    std::env::current_exe().map_or_else(|_| name.into(), |path| path.with_file_name(name))
}

fn isolation(reader: &mut Reader) -> Isolation {
    let words = [("request", Isolation::Request), ("none", Isolation::None)];
    reader.word_or("pool.web.isolation", &words, Isolation::Request)
}

fn isolation_method(reader: &mut Reader) -> IsolationMethod {
    let words = [
        ("auto", IsolationMethod::Auto),
        ("rewind", IsolationMethod::Rewind),
        ("fork", IsolationMethod::Fork),
    ];
    reader.word_or("pool.web.isolation_method", &words, IsolationMethod::Auto)
}

fn warmup(reader: &mut Reader, watch: bool) -> Warmup {
    let words = [
        ("clean", Warmup::Clean),
        ("requests", Warmup::Requests),
        ("none", Warmup::None),
    ];
    // Whoever saves a file wants its effect now, and one request.
    let default = if watch { Warmup::None } else { Warmup::Clean };
    reader.word_or("pool.web.warmup", &words, default)
}

fn warmup_paths(reader: &mut Reader) -> Vec<String> {
    let key = "pool.web.warmup_paths";
    let default = vec!["/".to_owned()];
    let Some((paths, origin)) = reader.list(key) else {
        return default;
    };
    let why = if let Some(path) = paths.iter().find(|path| !is_target(path)) {
        format!(
            "\"{path}\" is no path of a URL: expected for instance \"/\" or \"/search?q=a\", percent-encoded, at most \
             {TARGET} bytes"
        )
    } else if paths.is_empty() || paths.len() > WARMUP_PATHS {
        format!("expected 1 to {WARMUP_PATHS} paths; to warm nothing set `pool.web.warmup` to \"none\"")
    } else {
        return paths;
    };
    reader.wrong(origin, key, &Value::List(paths), &why);
    default
}

/// A folder, relative to `dir`.
pub(super) fn folder(reader: &mut Reader, key: &'static str, dir: &Path) -> Option<PathBuf> {
    existing(reader, key, dir, "a folder", Path::is_dir)
}

/// A path relative to `dir`, at which `is_there` must hold.
pub(super) fn existing(
    reader: &mut Reader,
    key: &'static str,
    dir: &Path,
    what: &str,
    is_there: fn(&Path) -> bool,
) -> Option<PathBuf> {
    found(reader, key, dir, (what, is_there)).map(|(path, _)| path)
}

/// The same for what a server relies on that may act as other users.
fn servers_own(
    reader: &mut Reader,
    key: &'static str,
    dir: &Path,
    expected: (&str, fn(&Path) -> bool),
) -> Option<PathBuf> {
    let (path, origin) = found(reader, key, dir, expected)?;
    if let Err(error) = trust::file(&path, Groups::NotOfPools) {
        let value = Value::Text(path.display().to_string());
        reader.wrong(origin, key, &value, &error.to_string());
    }
    Some(path)
}

fn found(
    reader: &mut Reader,
    key: &'static str,
    dir: &Path,
    (what, is_there): (&str, fn(&Path) -> bool),
) -> Option<(PathBuf, Origin)> {
    let (text, origin) = reader.text(key)?;
    let path = if text.is_empty() {
        None
    } else {
        std::path::absolute(dir.join(&text)).ok()
    };
    if let Some(path) = path.as_deref().filter(|path| is_there(path)) {
        return Some((path.to_owned(), origin));
    }
    let place = path.unwrap_or_else(|| dir.to_owned());
    let why = format!(
        "expected {what}, but there is none at {}; paths are relative to DIR",
        place.display()
    );
    reader.wrong(origin, key, &Value::Text(text), &why);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_of_a_folder_that_is_gone_is_known() {
        let gone = Path::new("/nonexistent/shop");
        let sources = Sources {
            dir: gone.to_owned(),
            ..Sources::default()
        };
        let (names, socket) = admin_socket_of(&sources).unwrap();
        assert_eq!(names, [gone]);
        assert_eq!(socket, AdminSocket::Default);
    }
}
