//! TLS: certificates as the files are by now, handshakes, and what PHP is told of a client's certificate.
//!
//! Made by `app`, which also says when files may have changed ([`Tls::refresh`]); connections take what is there when they begin.
//! Called by `connection`. Runs in: server; handshakes on a reactor.

mod challenges;
mod handshake;
mod keys;
pub(super) mod policy;
pub(crate) mod private;
mod variables;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::Context;
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};

use self::keys::Chosen;
use crate::config::{self, ClientCertificates, TlsVersion};

pub(crate) use self::challenges::Challenges;
pub(super) use self::handshake::{Agreed, Handshake, shake};
pub(crate) use self::keys::serves;

/// Sessions that are kept for clients of TLS 1.2 that take no tickets.
const SESSIONS: usize = 4096;

/// What is spoken above, the best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The one TLS configuration of all reactors, so that a session goes on at any of them.
#[derive(Debug)]
pub(crate) struct Tls {
    current: ArcSwapOption<ServerConfig>,
    loaded: Mutex<Option<Loaded>>,
    /// What an authority looks for.
    pub(crate) challenges: Challenges,
}

/// What was loaded, and how the files were then.
#[derive(Debug)]
struct Loaded {
    settings: config::Tls,
    stamps: Stamps,
    /// How they were when they were last tried, if that failed.
    failed: Option<Stamps>,
    chosen: Arc<Chosen>,
    sessions: Sessions,
}

/// What goes on from one configuration to the next.
#[derive(Clone, Debug)]
struct Sessions {
    tickets: Arc<dyn ProducesTickets>,
    storage: Arc<dyn StoresServerSessions>,
}

/// How the files of certificates and keys are, and that of who may have signed those of clients.
#[derive(Debug, PartialEq, Eq)]
struct Stamps {
    certificates: Vec<Stamp>,
    authorities: Option<Stamp>,
}

/// A file's time, size and inode; `None` where it cannot be asked for.
type Stamp = Option<(SystemTime, u64, u64)>;

impl Tls {
    /// Nothing is loaded yet.
    pub(crate) fn new() -> Self {
        Self {
            current: ArcSwapOption::empty(),
            loaded: Mutex::new(None),
            challenges: Challenges::default(),
        }
    }

    /// Loads what `settings` name. On an error all stays as it was; it names the file and the reason.
    pub(crate) fn load(&self, settings: &config::Tls) -> anyhow::Result<()> {
        if settings.certificates.is_empty() {
            return Ok(());
        }
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        // Before they are read: what changes meanwhile is seen as a change.
        let stamps = Stamps::of(settings);
        let sessions = match &*loaded {
            // With other demands on clients a session of before would go around them.
            Some(before) if before.demands_as(settings, &stamps) => before.sessions.clone(),
            _ => Sessions::new()?,
        };
        let (config, chosen) = build(settings, &sessions)?;
        chosen.complain();
        self.current.store(Some(Arc::new(config)));
        *loaded = Some(Loaded {
            settings: settings.clone(),
            stamps,
            failed: None,
            chosen,
            sessions,
        });
        Ok(())
    }

    /// Loads the files anew if one has changed; true if so. An error comes once for each change.
    pub(crate) fn refresh(&self) -> anyhow::Result<bool> {
        let settings = {
            let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(loaded) = &mut *loaded else {
                return Ok(false);
            };
            let now = Stamps::of(&loaded.settings);
            if now == loaded.stamps || loaded.failed.as_ref() == Some(&now) {
                return Ok(false);
            }
            loaded.failed = Some(now);
            loaded.settings.clone()
        };
        self.load(&settings).map(|()| true)
    }

    /// Says which certificates clients do not take, or will soon not take.
    pub(crate) fn complain(&self) {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = &*loaded {
            loaded.chosen.complain();
        }
    }

    pub(super) fn now(&self) -> Option<Arc<ServerConfig>> {
        self.current.load_full()
    }
}

impl Loaded {
    /// Whether the same is asked of clients: else a session of before would go around it.
    fn demands_as(&self, settings: &config::Tls, stamps: &Stamps) -> bool {
        self.settings.clients == settings.clients
            && self.settings.least == settings.least
            && self.stamps.authorities == stamps.authorities
    }
}

impl Stamps {
    fn of(settings: &config::Tls) -> Self {
        let files = settings.certificates.iter();
        let files = files.flat_map(|files| [&files.certificate, &files.key]);
        let authorities = settings.clients.as_ref().map(|clients| &clients.authorities);
        Self {
            certificates: files.map(|path| stamp(path).ok()).collect(),
            authorities: authorities.map(|path| stamp(path).ok()),
        }
    }
}

impl Sessions {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            tickets: Ticketer::new().context("making the keys of session tickets")?,
            storage: ServerSessionMemoryCache::new(SESSIONS),
        })
    }
}

fn build(settings: &config::Tls, sessions: &Sessions) -> anyhow::Result<(ServerConfig, Arc<Chosen>)> {
    let provider = Arc::new(default_provider());
    let chosen = Arc::new(Chosen::load(&settings.certificates, &provider)?);
    let versions = match settings.least {
        TlsVersion::Tls12 => &[&TLS13, &TLS12][..],
        TlsVersion::Tls13 => &[&TLS13][..],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .context("choosing versions of TLS")?;
    let builder = match &settings.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(verifier(clients, provider)?),
    };
    let mut config = builder.with_cert_resolver(Arc::<Chosen>::clone(&chosen));
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    config.ticketer = Arc::clone(&sessions.tickets);
    config.session_storage = Arc::clone(&sessions.storage);
    Ok((config, chosen))
}

fn verifier(
    clients: &ClientCertificates,
    provider: Arc<CryptoProvider>,
) -> anyhow::Result<Arc<dyn rustls::server::danger::ClientCertVerifier>> {
    let path = &clients.authorities;
    let naming = || format!("reading {} (tls.client_ca)", path.display());
    let mut roots = rustls::RootCertStore::empty();
    for certificate in keys::certificates(path).with_context(naming)? {
        roots.add(certificate).with_context(naming)?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if clients.required {
        builder
    } else {
        builder.allow_unauthenticated()
    };
    builder.build().with_context(naming)
}

fn stamp(path: &Path) -> io::Result<(SystemTime, u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let about = fs::metadata(path)?;
    Ok((about.modified()?, about.len(), about.ino()))
}

/// The certificates that `settings` name, each for a person; the error is the one that would keep the server from starting.
pub(crate) fn describe(settings: &config::Tls) -> anyhow::Result<Vec<String>> {
    if settings.certificates.is_empty() {
        return Ok(Vec::new());
    }
    build(settings, &Sessions::new()?).map(|(_, chosen)| chosen.describe())
}
