//! From variables and a body to a request for a pool.
//!
//! The web server is trusted: what it says of the client, of the script and of the document root is so. Only the pool is chosen here,
//! by host and path, as over HTTP. Called by `exchange`. Runs in: server, on a reactor.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderName;
use tracing::warn;

use super::script::{self, Named, Script};
use super::variables::Variables;
use crate::config::{ByteSize, Config, Mode};
use crate::dispatch::{Request, RequestBody, RequestId};
use crate::edge::check::is_idempotent;
use crate::edge::connection::Shared;
use crate::edge::reply::Refusal;
use crate::edge::site::route::{self, Found, Router};
use crate::edge::{Backend, Site, Sites, body, site};

/// What is to be done.
pub(super) enum Plan<P> {
    /// Ask the pool of this number.
    Ask {
        site: Arc<Site<P>>,
        pool: usize,
        request: Request,
        /// What php-fpm would tell the web server's log.
        note: Option<&'static str>,
    },
    /// Tell that this is no script.
    Deny(Vec<u8>),
}

/// Bytes of the body, as the web server announces them.
pub(super) fn announced(variables: &Variables<'_>) -> Result<Option<u64>, Refusal> {
    match variables.filled(b"CONTENT_LENGTH") {
        None => Ok(None),
        Some(digits) => match variables.text(b"CONTENT_LENGTH").parse() {
            Ok(length) if digits.iter().all(u8::is_ascii_digit) => Ok(Some(length)),
            _ => Err(Refusal::BadRequest("CONTENT_LENGTH is no number")),
        },
    }
}

/// Refuses what no script can be asked, and a client that asks too often; else says how large the body may be.
pub(super) async fn admit<B: Backend>(
    variables: &Variables<'_>,
    shared: &Shared<B>,
) -> Result<ByteSize, Refusal> {
    if variables.filled(b"REQUEST_METHOD").is_none() {
        return Err(Refusal::BadRequest("REQUEST_METHOD is missing"));
    }
    let sites = &shared.sites;
    let site = sites.open().await.map_err(Refusal::Broken)?;
    let path = path(variables)?;
    if let Some(rate) = &site.config.rate {
        let header = |name: &HeaderName| {
            let name = name.as_str().to_ascii_uppercase().replace('-', "_");
            variables.get(format!("HTTP_{name}").as_bytes())
        };
        let client = variables.text(b"REMOTE_ADDR").parse().ok();
        let asked = sites.clients.ask(rate, (&path, header), client);
        asked.map_err(Refusal::TooManyRequests)?;
    }
    let (pool, _) = site.pick_for(|| host(variables), &path);
    Ok(body::limit(&shared.backend, &site, pool))
}

fn host(variables: &Variables<'_>) -> String {
    site::plain_name(variables.get(b"HTTP_HOST").unwrap_or_default())
}

/// The path that is asked for.
fn path<'a>(variables: &'a Variables<'_>) -> Result<Cow<'a, [u8]>, Refusal> {
    let target = variables.text(b"REQUEST_URI");
    let target = if target.starts_with('/') {
        target
    } else {
        variables.text(b"SCRIPT_NAME")
    };
    route::decode(target.split_once('?').map_or(target, |(path, _)| path))
}

/// Chooses the pool for a request with this body and makes the request for it.
pub(super) async fn plan<B: Backend>(
    mut variables: Variables<'_>,
    body: RequestBody,
    id: RequestId,
    sites: &Sites<B::Pools>,
) -> Result<Plan<B::Pools>, Refusal> {
    let site = sites.open().await.map_err(Refusal::Broken)?;
    let path = path(&variables)?;
    let (pool, router) = site.pick_for(|| host(&variables), &path);
    let mode = router.mode();
    drop(path);
    let script = script::settle(&mut variables, |path| look(router, path));
    if mode == Mode::Classic
        && let Script::At(path) = &script
        && !script::is_permitted(path, &site.config.fastcgi.limit_extensions)
    {
        return Ok(Plan::Deny(path.clone()));
    }
    if mode == Mode::Resident {
        warn_of_settings(&variables);
    }
    let is_known = script != Script::Unknown;
    if mode == Mode::Classic && !is_known {
        variables.keep(b"ORIG_SCRIPT_FILENAME", b"SCRIPT_FILENAME");
        variables.remove(b"SCRIPT_FILENAME");
    }
    if variables.filled(b"CONTENT_LENGTH").is_none() && !body.is_empty() {
        variables.set(b"CONTENT_LENGTH", body.len().to_string().into_bytes());
    }
    let request = Request {
        id,
        head: variables.encode(id, is_known || mode == Mode::Resident),
        idempotent: is_idempotent(variables.get(b"REQUEST_METHOD").unwrap_or_default())
            || (site.believes_keys(pool) && variables.get(b"HTTP_IDEMPOTENCY_KEY").is_some()),
        interim: None,
        body,
    };
    let note = (mode == Mode::Classic && !is_known).then_some("Primary script unknown");
    Ok(Plan::Ask {
        site,
        pool,
        request,
        note,
    })
}

/// A resident application was booted with its settings.
fn warn_of_settings(variables: &Variables<'_>) {
    static ONCE: AtomicBool = AtomicBool::new(false);
    let given = [&b"PHP_VALUE"[..], b"PHP_ADMIN_VALUE"];
    // Relaxed: a flag on its own.
    if given.iter().any(|name| variables.filled(name).is_some()) && !ONCE.swap(true, Ordering::Relaxed) {
        warn!("settings of the web server ignored: PHP_VALUE and PHP_ADMIN_VALUE hold in classic pools only");
    }
}

fn look(router: &Router, path: &[u8]) -> Named {
    match router.find(Path::new(OsStr::from_bytes(path))) {
        Found::File => Named::File,
        Found::Folder | Found::Other => Named::Other,
        Found::Nothing => Named::Nothing,
    }
}

/// Parameters that a request may have: those of its headers, and as many as a web server may add.
pub(super) fn limit(config: &Config) -> usize {
    config.limits.header_count + 100
}
