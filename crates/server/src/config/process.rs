//! What a pool's processes are: user, limits, environment, ….
//!
//! Only the form is checked: what this machine has and permits is found out when the zygote starts. Called by `resolve`. Runs in:
//! server.

use std::path::{Component, Path, PathBuf};

use ipc::control::Resource;

use super::file::{ENV, Origin, RLIMITS, Value};
use super::limits::ByteSize;
use super::reader::Reader;
use super::resolve::folder;
use super::value::parse_duration;

/// Fewer descriptors than that, and the zygote has none for its workers.
const FEWEST_FILES: u64 = 64;

/// What becomes of the zygote's process before PHP starts; its workers inherit it.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Name or number of the user. Default: the server's.
    pub user: Option<String>,
    /// Name or number of the group. Default: that of `user`.
    pub group: Option<String>,
    /// Permissions that new files do not get. Default: the server's.
    pub umask: Option<u32>,
    /// Working directory of a resident application. Default: the folder of its worker script.
    pub chdir: Option<PathBuf>,
    /// Limits, soft and hard; no number: unlimited. Default: the server's.
    pub rlimits: Vec<(Resource, Option<u64>)>,
    /// Priority. Default 0: the server's.
    pub nice: i32,
    /// Folder of a cgroup. Default: the server's.
    pub cgroup: Option<PathBuf>,
    /// Environment variables. A value `$NAME` is that of the server's variable.
    pub env: Vec<(String, String)>,
    /// Whether the server's other variables are left out. Default false.
    pub clear_env: bool,
    /// Whether processes of the same user may look into PHP's memory, and a core file may be written. Default false.
    pub dumpable: bool,
}

/// Reads them for the pool at hand, whose folder is `dir`.
pub(super) fn process(reader: &mut Reader, dir: &Path) -> Process {
    Process {
        user: account(reader, "pool.web.user"),
        group: account(reader, "pool.web.group"),
        umask: umask(reader),
        chdir: folder(reader, "pool.web.chdir", dir),
        rlimits: rlimits(reader),
        nice: reader.number("pool.web.nice", 0, -20..=19),
        cgroup: cgroup(reader),
        env: env(reader),
        clear_env: reader.switch("pool.web.clear_env", false),
        dumpable: reader.switch("pool.web.dumpable", false),
    }
}

fn account(reader: &mut Reader, key: &'static str) -> Option<String> {
    let (text, origin) = reader.text(key)?;
    if text.is_empty() || text.contains('\0') {
        reader.wrong(origin, key, &Value::Text(text), "expected a name or a number");
        return None;
    }
    Some(text)
}

fn umask(reader: &mut Reader) -> Option<u32> {
    let (text, origin) = reader.text("pool.web.umask")?;
    let umask = u32::from_str_radix(&text, 8).ok().filter(|umask| *umask <= 0o777);
    if umask.is_none() {
        let form = "expected octal digits from \"000\" to \"777\", for instance \"027\"";
        reader.wrong(origin, "pool.web.umask", &Value::Text(text), form);
    }
    umask
}

/// The zygote writes there with the rights of the server, so it must be a place of the kernel's.
fn cgroup(reader: &mut Reader) -> Option<PathBuf> {
    let (text, origin) = reader.text("pool.web.cgroup")?;
    let below = Path::new(&text).strip_prefix("/sys/fs/cgroup");
    let is_named = |path: &Path| path.components().next().is_some() && path.components().all(is_name);
    if below.is_ok_and(is_named) {
        return Some(text.into());
    }
    let form =
        "expected a folder below /sys/fs/cgroup, without \"..\", for instance \"/sys/fs/cgroup/hearth/web\"";
    reader.wrong(origin, "pool.web.cgroup", &Value::Text(text), form);
    None
}

fn is_name(part: Component<'_>) -> bool {
    matches!(part, Component::Normal(_))
}

fn env(reader: &mut Reader) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, value, origin) in reader.entries(ENV) {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let key = format!("{ENV}.{name}");
            let form = "the name of a variable has no `=`, and neither name nor value a NUL";
            reader.wrong(origin, &key, &Value::Text(value), form);
        } else {
            all.push((name, value));
        }
    }
    all
}

/// The variable `name` as PHP will have it: that of the pool, else the server's.
pub(super) fn variable_of_pool(reader: &Reader, name: &str) -> Option<String> {
    let of_server = |name: &str| std::env::var(name).ok();
    match reader.peek(&format!("{ENV}.{name}")) {
        Some(Value::Text(value)) => match value.strip_prefix('$') {
            Some(other) => of_server(other),
            None => Some(value.clone()),
        },
        _ if reader.peek("pool.web.clear_env") == Some(&Value::Boolean(true)) => None,
        _ => of_server(name),
    }
}

fn rlimits(reader: &mut Reader) -> Vec<(Resource, Option<u64>)> {
    let mut all = Vec::new();
    for (name, text, origin) in reader.entries(RLIMITS) {
        match rlimit(&name, &text) {
            Ok(limit) => all.push(limit),
            Err(why) => note(reader, origin, (&name, text), &why),
        }
    }
    all
}

fn note(reader: &mut Reader, origin: Origin, (name, text): (&str, String), why: &str) {
    reader.wrong(origin, &format!("{RLIMITS}.{name}"), &Value::Text(text), why);
}

fn rlimit(name: &str, text: &str) -> Result<(Resource, Option<u64>), String> {
    const BYTES: &str = "expected a size such as \"1 GiB\", or \"unlimited\"";
    let bytes = || text.parse::<ByteSize>().ok().map(|size| size.0);
    let count = |fewest: u64| text.parse().ok().filter(|count| *count >= fewest);
    let (resource, limit, form) = match name {
        "as" => (Resource::As, bytes(), BYTES),
        "core" => (Resource::Core, bytes(), BYTES),
        "data" => (Resource::Data, bytes(), BYTES),
        "fsize" => (Resource::Fsize, bytes(), BYTES),
        "memlock" => (Resource::Memlock, bytes(), BYTES),
        "stack" => (Resource::Stack, bytes(), BYTES),
        "nofile" => {
            let form = "expected a number from 64, or \"unlimited\"";
            (Resource::Nofile, count(FEWEST_FILES), form)
        }
        "nproc" => (
            Resource::Nproc,
            count(1),
            "expected a number from 1, or \"unlimited\"",
        ),
        "cpu" => {
            let seconds = parse_duration(text).ok().map(|time| time.as_secs());
            let form = "expected a duration of whole seconds such as \"10 min\", or \"unlimited\"";
            (Resource::Cpu, seconds.filter(|seconds| *seconds > 0), form)
        }
        _ => {
            return Err(
                "no such limit; there are as, core, cpu, data, fsize, memlock, nofile, nproc and stack"
                    .to_owned(),
            );
        }
    };
    match (text, limit) {
        ("unlimited", _) => Ok((resource, None)),
        (_, Some(limit)) => Ok((resource, Some(limit))),
        (_, None) => Err(form.to_owned()),
    }
}
