//! Recognises the application in a folder: what it is, how it can be served, and why.
//!
//! Reads a few files, runs nothing, and never fails: what cannot be read is not there. Explicit settings win over what
//! is found here; that is decided in `resolve`, the only caller. Runs in: server.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::Value as Json;

use super::symfony;

/// Calls by which a script shows that it is a resident worker.
const WORKER_CALLS: [&str; 2] = ["hearth_handle_request", "frankenphp_handle_request"];

/// Bytes of a file that are looked at.
const LARGEST: u64 = 16 << 20;

/// Folders that hold what clients may see, beside what they may not; the first that has an index.php is taken.
const PUBLIC: [&str; 8] = [
    "public",
    "web",
    "pub",
    "docroot",
    "webroot",
    "htdocs",
    "www",
    "public_html",
];

/// Where composer.json names such a folder: Drupal, Symfony Flex and Contao, Symfony before it, TYPO3.
const PUBLIC_KEYS: [&str; 4] = [
    "/extra/drupal-scaffold/locations/web-root",
    "/extra/public-dir",
    "/extra/symfony-web-dir",
    "/extra/typo3~1cms/web-dir",
];

/// Of a framework on `HttpFoundation`.
pub(super) const STAYS: &str = "pool.web.mode = \"resident\" boots the front controller as it is";

/// What was found, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Document root, absolute.
    pub(super) root: PathBuf,
    /// The worker script, absolute. With it the application is served resident, without it classic.
    pub(super) worker: Option<PathBuf>,
    /// The front controller of classic mode, absolute.
    pub(super) front: Option<PathBuf>,
    /// The front controller of a framework on `HttpFoundation`, absolute: it can be a worker script as it is.
    pub(super) resident_front: Option<PathBuf>,
    /// Why, as sentences.
    pub(super) reasons: Vec<String>,
}

/// Looks at the folder `dir`, which is absolute. `runtime` is the class that the environment of PHP names for Symfony.
pub(super) fn detect(dir: &Path, runtime: Option<&str>) -> Found {
    let public = public_folder(dir);
    let mut found = public
        .as_deref()
        .and_then(|root| symfony(dir, root, runtime).or_else(|| laravel(dir, root)))
        .or_else(|| wordpress(dir))
        .unwrap_or_else(|| plain(dir, public));
    if found.worker.is_none()
        && let Some((script, call)) = worker_script(dir, &found.root)
    {
        let name = shown(&script, dir);
        found.worker = Some(script);
        found.reasons.push(format!(
            "found {name}, which calls {call}(): resident mode with {name}"
        ));
    } else if found.worker.is_none() {
        found.reasons.push(match &found.front {
            Some(front) => format!("classic mode; URLs that name no file go to {}", shown(front, dir)),
            None => "classic mode; the URL names the script".to_owned(),
        });
    }
    found
}

/// `path` as it is named in messages: below `dir` without it.
pub(super) fn shown(path: &Path, dir: &Path) -> String {
    path.strip_prefix(dir).unwrap_or(path).display().to_string()
}

/// The call by which the script `path` shows that it is a resident worker.
pub(super) fn worker_call(path: &Path) -> Option<&'static str> {
    let text = read(path)?;
    WORKER_CALLS
        .into_iter()
        .find(|call| text.contains(&format!("{call}(")))
}

/// The folder in `dir` that holds what clients may see, with an index.php: that of composer.json, else that of a usual name.
fn public_folder(dir: &Path) -> Option<PathBuf> {
    let composer = composer(dir);
    let named = PUBLIC_KEYS
        .iter()
        .filter_map(|key| composer.as_ref()?.pointer(key)?.as_str());
    let mut folders = named.chain(PUBLIC).filter_map(|name| below(dir, name));
    folders.find(|folder| folder.join("index.php").is_file())
}

/// The folder `name` in `dir`, if it is another one, and lies there.
fn below(dir: &Path, name: &str) -> Option<PathBuf> {
    let name: PathBuf = Path::new(name)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
    (is_below && name != Path::new("")).then(|| dir.join(name))
}

/// Why `dir` must not be published as it was `found`: it is a project's own folder, and nothing in it says that it is a site.
pub(super) fn reason_not_to_publish(found: &Found, dir: &Path) -> Option<String> {
    let is_site = found.root != dir || found.front.is_some() || found.worker.is_some();
    (!is_site && dir.join("composer.json").is_file()).then(|| {
        format!(
            "found composer.json, but no index.php in {}, {}",
            dir.display(),
            PUBLIC.join(", ")
        )
    })
}

fn symfony(dir: &Path, root: &Path, runtime: Option<&str>) -> Option<Found> {
    let front = root.join("index.php");
    let sign = first_file(dir, &["config/bundles.php", "symfony.lock"]).or_else(|| {
        requires(dir, "symfony/framework-bundle").then_some("composer.json with symfony/framework-bundle")
    })?;
    let mut found = Found {
        root: root.to_owned(),
        worker: None,
        front: Some(front.clone()),
        resident_front: Some(front.clone()),
        reasons: vec![format!("found {sign}: a Symfony application")],
    };
    let (resident, why) = symfony::stays_resident(dir, &front, runtime);
    if resident {
        let reason = format!("{why}: resident mode with {}", shown(&front, dir));
        found.worker = Some(front);
        found.reasons.push(reason);
    } else {
        found.reasons.push(why);
    }
    Some(found)
}

fn laravel(dir: &Path, root: &Path) -> Option<Found> {
    if !dir.join("artisan").is_file() {
        return None;
    }
    let mut reasons = vec!["found artisan: a Laravel application".to_owned()];
    let worker = root.join("frankenphp-worker.php");
    let name = shown(&worker, dir);
    let worker = Some(worker).filter(|path| path.is_file());
    reasons.push(match worker {
        Some(_) => format!("found {name} of Octane: resident mode with it"),
        None => format!("no {name} of Octane; {STAYS}"),
    });
    Some(Found {
        root: root.to_owned(),
        worker,
        front: Some(root.join("index.php")),
        resident_front: Some(root.join("index.php")),
        reasons,
    })
}

fn wordpress(dir: &Path) -> Option<Found> {
    let sign = first_file(
        dir,
        &["wp-includes/version.php", "wp-config.php", "wp-config-sample.php"],
    )?;
    let front = Some(dir.join("index.php")).filter(|path| path.is_file());
    Some(Found {
        root: dir.to_owned(),
        worker: None,
        front,
        resident_front: None,
        reasons: vec![format!("found {sign}: WordPress")],
    })
}

fn plain(dir: &Path, public: Option<PathBuf>) -> Found {
    // It wins over an index.php beside it: what lies outside it was not meant to be reached.
    let root = public.unwrap_or_else(|| {
        let scripts = dir.join("public");
        if scripts.is_dir() && !dir.join("index.php").is_file() {
            scripts
        } else {
            dir.to_owned()
        }
    });
    let front = Some(root.join("index.php")).filter(|path| path.is_file());
    let reason = match &front {
        Some(front) => format!("found {}", shown(front, dir)),
        None => format!("found no known framework and no index.php in {}", root.display()),
    };
    Found {
        root,
        worker: None,
        front,
        resident_front: None,
        reasons: vec![reason],
    }
}

fn worker_script(dir: &Path, root: &Path) -> Option<(PathBuf, &'static str)> {
    [dir, root].into_iter().find_map(|folder| {
        let script = folder.join("worker.php");
        let call = worker_call(&script)?;
        Some((script, call))
    })
}

fn first_file(dir: &Path, names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| dir.join(name).is_file())
}

pub(super) fn read(path: &Path) -> Option<String> {
    // A pipe in the place of the file is not waited for.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .ok()?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn composer(dir: &Path) -> Option<Json> {
    serde_json::from_str(&read(&dir.join("composer.json"))?).ok()
}

fn requires(dir: &Path, package: &str) -> bool {
    composer(dir).is_some_and(|json| json.get("require").and_then(|list| list.get(package)).is_some())
}

/// The version of `package` that Composer has put in `vendor`.
pub(super) fn installed(dir: &Path, package: &str) -> Option<String> {
    let composer = dir.join("vendor/composer");
    installed_json(&composer.join("installed.json"), package)
        .or_else(|| installed_php(&composer.join("installed.php"), package))
}

/// Composer 2 writes `{"packages": […]}`, Composer 1 the bare list.
fn installed_json(path: &Path, package: &str) -> Option<String> {
    let json: Json = serde_json::from_str(&read(path)?).ok()?;
    let packages = json.get("packages").unwrap_or(&json).as_array()?;
    let entry = packages
        .iter()
        .find(|entry| entry.get("name").and_then(Json::as_str) == Some(package))?;
    Some(entry.get("version")?.as_str()?.to_owned())
}

/// The file is PHP that returns an array: the version is the first `pretty_version` behind the package's key.
fn installed_php(path: &Path, package: &str) -> Option<String> {
    let text = read(path)?;
    let (_, entry) = text.split_once(&format!("'{package}' =>"))?;
    let (_, version) = entry.split_once("'pretty_version' => '")?;
    Some(version.split_once('\'')?.0.to_owned())
}
