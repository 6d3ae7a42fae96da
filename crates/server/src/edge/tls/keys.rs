//! Certificates and their keys: read from PEM files, and chosen by the name that a client asks for (SNI, RFC 6066 §3).
//!
//! Called by `tls`; rustls asks for a choice in each handshake. Runs in: server.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, bail};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tracing::warn;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::config::CertificateFiles;
use crate::trust::{self, Groups};

/// A certificate that ends sooner is spoken of.
const SOON: i64 = 7 * 24 * 3600;

/// Bytes of a file: all authorities of a system take a quarter of a megabyte.
const LARGEST: u64 = 4 << 20;

/// All certificates, each with the names it is for.
#[derive(Debug)]
pub(super) struct Chosen(Vec<Held>);

/// A certificate.
#[derive(Debug)]
pub(super) struct Held {
    /// In small letters; `*.example.com` for all directly below it.
    names: Vec<String>,
    file: String,
    begins: ASN1Time,
    ends: ASN1Time,
    key: Arc<CertifiedKey>,
}

impl Chosen {
    /// Reads all; the error names the file.
    pub(super) fn load(files: &[CertificateFiles], provider: &CryptoProvider) -> anyhow::Result<Self> {
        let all = files.iter().map(|files| load(files, provider));
        all.collect::<anyhow::Result<_>>().map(Self)
    }

    /// Says which of them clients will not take.
    pub(super) fn complain(&self) {
        let now = ASN1Time::now().timestamp();
        for held in &self.0 {
            let (file, begins, ends) = (&held.file, show(held.begins), show(held.ends));
            if held.ends.timestamp() < now {
                warn!(file, ends, "certificate has expired");
            } else if held.begins.timestamp() > now {
                warn!(file, begins, "certificate does not hold yet");
            } else if held.ends.timestamp() < now + SOON {
                warn!(file, ends, "certificate expires soon");
            }
        }
    }

    /// Each for a person.
    pub(super) fn describe(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }

    fn of(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let exact = |names: &[String]| names.iter().any(|known| known == name);
        let below = name.split_once('.').map(|(_, domain)| format!("*.{domain}"));
        let wild = |names: &[String]| below.as_ref().is_some_and(|below| names.contains(below));
        let first = |fits: &dyn Fn(&[String]) -> bool| self.0.iter().find(|held| fits(&held.names));
        first(&exact).or_else(|| first(&wild)).map(|held| &held.key)
    }
}

impl ResolvesServerCert for Chosen {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello
            .server_name()
            .and_then(|name| self.of(&name.to_ascii_lowercase()));
        named
            .or_else(|| self.0.first().map(|held| &held.key))
            .map(Arc::clone)
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, ends) = (self.names.join(" "), show(self.ends));
        write!(f, "{names} until {ends} ({})", self.file)?;
        if self.ends < ASN1Time::now() {
            f.write_str(", which is over")?;
        }
        Ok(())
    }
}

fn load(files: &CertificateFiles, provider: &CryptoProvider) -> anyhow::Result<Held> {
    if !files.stand_in.is_empty() && !files.certificate.exists() {
        return stand_in(files, provider);
    }
    let reading = || format!("reading the certificate {}", files.certificate.display());
    let chain = certificates(&files.certificate).with_context(reading)?;
    let reading_key = || format!("reading the key {}", files.key.display());
    let key = content(&files.key)
        .and_then(|pem| {
            let key = PrivateKeyDer::from_pem_slice(&pem);
            key.map_err(|error| plain(error, "no private key in PEM form is in it"))
        })
        .with_context(reading_key)?;
    let key = provider
        .key_provider
        .load_private_key(key)
        .with_context(reading_key)?;
    let key = CertifiedKey::new(chain, key);
    key.keys_match().map_err(|_| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        anyhow!("the key {key} is not that of the certificate {certificate}")
    })?;
    held(key, files.certificate.display().to_string()).with_context(reading)
}

/// One that nobody trusts, so that there is a connection at all.
fn stand_in(files: &CertificateFiles, provider: &CryptoProvider) -> anyhow::Result<Held> {
    let make = || -> anyhow::Result<CertifiedKey> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(files.stand_in.clone())?;
        params
            .distinguished_name
            .push(DnType::CommonName, "no certificate yet");
        let now = SystemTime::now();
        params.not_before = (now - Duration::from_hours(24)).into();
        params.not_after = (now + Duration::from_hours(24 * 365)).into();
        let chain = vec![params.self_signed(&key)?.der().clone()];
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        Ok(CertifiedKey::new(
            chain,
            provider.key_provider.load_private_key(key)?,
        ))
    };
    let making = || {
        format!(
            "making a certificate in the place of {}",
            files.certificate.display()
        )
    };
    make()
        .and_then(|key| {
            held(
                key,
                format!("self-signed, as there is no {} yet", files.certificate.display()),
            )
        })
        .with_context(making)
}

fn held(key: CertifiedKey, file: String) -> anyhow::Result<Held> {
    let first = key.cert.first().map(AsRef::as_ref).unwrap_or_default();
    let (_, certificate) = X509Certificate::from_der(first)?;
    let names = names(&certificate)?;
    let validity = certificate.validity();
    let (begins, ends) = (validity.not_before, validity.not_after);
    Ok(Held {
        names,
        file,
        begins,
        ends,
        key: Arc::new(key),
    })
}

/// At least one.
pub(super) fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let none = "no certificate in PEM form is in it";
    let all: Vec<_> = CertificateDer::pem_slice_iter(&content(path)?)
        .collect::<Result<_, _>>()
        .map_err(|error| plain(error, none))?;
    if all.is_empty() {
        bail!(none);
    }
    Ok(all)
}

/// What is in a file. Of another kind (a pipe waits for who writes to it) or size it is none of ours, and a server must not wait for it.
fn content(path: &Path) -> anyhow::Result<Vec<u8>> {
    trust::file(path, Groups::NotOfPools).map_err(|error| {
        if trust::is_refusal(&error) {
            anyhow!("{error}; have root own it, or copy it to a folder of root's, such as /etc/hearth")
        } else {
            error.into()
        }
    })?;
    let about = fs::metadata(path)?;
    if !about.is_file() {
        bail!("it is no regular file");
    }
    if about.len() > LARGEST {
        bail!("it is too large, with {} bytes", about.len());
    }
    Ok(fs::read(path)?)
}

fn plain(error: pem::Error, none: &'static str) -> anyhow::Error {
    match error {
        pem::Error::Io(error) => error.into(),
        pem::Error::NoItemsFound => anyhow!(none),
        other => other.into(),
    }
}

/// Whether the certificate in `file` is for all of `domains`, and more than a third of its time is left.
pub(crate) fn serves(file: &Path, domains: &[String]) -> bool {
    let Ok(chain) = certificates(file) else {
        return false;
    };
    let first = chain.first().map(AsRef::as_ref).unwrap_or_default();
    let Ok((_, certificate)) = X509Certificate::from_der(first) else {
        return false;
    };
    let names = names(&certificate).unwrap_or_default();
    let (begins, ends) = (
        certificate.validity().not_before,
        certificate.validity().not_after,
    );
    let left = ends.timestamp() - ASN1Time::now().timestamp();
    left > (ends.timestamp() - begins.timestamp()) / 3 && domains.iter().all(|domain| names.contains(domain))
}

fn names(certificate: &X509Certificate<'_>) -> anyhow::Result<Vec<String>> {
    let Some(extension) = certificate.subject_alternative_name()? else {
        return Ok(Vec::new());
    };
    let names = extension.value.general_names.iter();
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    Ok(names.collect())
}

/// `2026-11-21 12:00:00 UTC`
fn show(time: ASN1Time) -> String {
    let at = time.to_datetime();
    let (date, (hour, minute, second)) = (at.date(), at.to_hms());
    format!("{date} {hour:02}:{minute:02}:{second:02} UTC")
}
