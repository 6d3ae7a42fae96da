//! `[tls]`: settings of TLS but for where it is listened. Read by `edge` and `app`. Runs in: server.

use std::path::{Path, PathBuf};

use http::HeaderValue;

use super::acme::{self, Acme};
use super::file::{Origin, Value};
use super::reader::Reader;

/// How connections are encrypted, and with which certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// What the server shows of itself, chosen by the name that a client asks for; the first one where none fits.
    pub certificates: Vec<CertificateFiles>,
    /// Oldest version that is spoken. Default 1.2.
    pub least: TlsVersion,
    /// Whether clients are asked for a certificate. Default: they are not.
    pub clients: Option<ClientCertificates>,
    /// Whether a request in the clear is redirected. Default false.
    pub redirect: bool,
    /// The port that it is redirected to. Default: that of the first listener of TLS.
    pub redirect_port: Option<u16>,
    /// `Strict-Transport-Security` of encrypted answers. Default: none.
    pub hsts: Option<HeaderValue>,
    /// Where certificates come from that nobody keeps in files. Default: from nowhere.
    pub acme: Option<Acme>,
}

/// Two files in PEM form; they may be the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, then those by which it is signed.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Names for which the server signs one itself as long as there are no files. Empty: the files must be there.
    pub stand_in: Vec<String>,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2, and 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

/// What is asked of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// Those who may have signed them, in PEM form.
    pub authorities: PathBuf,
    /// Who has none is not served.
    pub required: bool,
}

/// Reads them; paths are below `dir`. `listens`: somebody is to be served so; `local`: the file of a certificate of this machine,
/// used where no other is named.
pub(super) fn tls(reader: &mut Reader, dir: &Path, (listens, local): (bool, Option<&Path>)) -> Tls {
    let versions = [("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)];
    let mut tls = Tls {
        certificates: certificates(reader, dir),
        least: reader.word_or("tls.min_version", &versions, TlsVersion::default()),
        clients: clients(reader, dir),
        redirect: reader.switch("tls.redirect", false),
        redirect_port: Some(reader.number("tls.redirect_port", 0, 1..=u16::MAX)).filter(|port| *port > 0),
        hsts: hsts(reader),
        acme: acme::acme(reader, dir, listens),
    };
    tls.certificates.extend(tls.acme.as_ref().map(Acme::files));
    if let Some(local) = local.filter(|_| tls.certificates.is_empty()) {
        tls.certificates.push(CertificateFiles::in_one(local.to_owned()));
    }
    let nobody = Origin::Dir(dir.display().to_string());
    if listens && tls.certificates.is_empty() {
        let why = "`tls.listen` needs a certificate: set `tls.certificates`, and `tls.keys` where keys have files of their own; \
                   or `tls.acme.domains`; or `hearth serve --https` for a local one";
        reader.problem(nobody, why.to_owned());
    } else if tls.redirect && !listens && tls.redirect_port.is_none() {
        let why = "`tls.redirect` leads nowhere without `tls.listen`: set it, or `tls.redirect_port` where a proxy ends TLS";
        reader.problem(nobody, why.to_owned());
    }
    tls
}

impl CertificateFiles {
    /// Both in one file.
    pub(super) fn in_one(file: PathBuf) -> Self {
        Self {
            certificate: file.clone(),
            key: file,
            stand_in: Vec::new(),
        }
    }
}

fn certificates(reader: &mut Reader, dir: &Path) -> Vec<CertificateFiles> {
    const KEYS: &str = "tls.keys";
    let paths = |texts: &[String]| texts.iter().map(|text| dir.join(text)).collect::<Vec<_>>();
    let certificates = reader.list("tls.certificates").map(|(texts, _)| paths(&texts));
    let keys = reader.list(KEYS);
    let Some(certificates) = certificates else {
        if let Some((texts, origin)) = keys {
            reader.wrong(
                origin,
                KEYS,
                &Value::List(texts),
                "there are no `tls.certificates` for them",
            );
        }
        return Vec::new();
    };
    let keys = match keys {
        // A file may hold both.
        None => certificates.clone(),
        Some((texts, _)) if texts.len() == certificates.len() => paths(&texts),
        Some((texts, origin)) => {
            let count = certificates.len();
            let why = format!("expected {count}, as many as `tls.certificates` and in the same order");
            reader.wrong(origin, KEYS, &Value::List(texts), &why);
            return Vec::new();
        }
    };
    let pairs = certificates.into_iter().zip(keys);
    pairs
        .map(|(certificate, key)| CertificateFiles {
            certificate,
            key,
            stand_in: Vec::new(),
        })
        .collect()
}

fn clients(reader: &mut Reader, dir: &Path) -> Option<ClientCertificates> {
    const KEY: &str = "tls.client";
    let words = [
        ("none", None),
        ("optional", Some(false)),
        ("required", Some(true)),
    ];
    let asked = reader.word(KEY, &words);
    let authorities = reader.text("tls.client_ca");
    let required = match asked {
        None => true,
        Some((None, _)) => return None,
        Some((Some(required), origin)) => {
            if authorities.is_none() {
                let why = "expected `tls.client_ca` with it: the certificates of those who may have signed those of clients";
                reader.problem(origin, format!("`{KEY}`: {why}"));
            }
            required
        }
    };
    let (authorities, _) = authorities?;
    Some(ClientCertificates {
        authorities: dir.join(authorities),
        required,
    })
}

/// RFC 6797 §6.1.
fn hsts(reader: &mut Reader) -> Option<HeaderValue> {
    const KEY: &str = "tls.hsts";
    let (text, origin) = reader.text(KEY)?;
    let mut parts = text.split(';').map(str::trim);
    let is_age = |part: &str| {
        let seconds = part.strip_prefix("max-age=");
        seconds.is_some_and(|seconds| !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit()))
    };
    let has_age = parts.next().is_some_and(is_age);
    let is_well = has_age && parts.all(|part| ["includeSubDomains", "preload"].contains(&part));
    let value = HeaderValue::from_str(&text).ok().filter(|_| is_well);
    if value.is_none() {
        let form = "expected \"max-age=SECONDS\", and behind it \"; includeSubDomains\" and \"; preload\" if you mean them";
        reader.wrong(origin, KEY, &Value::Text(text), form);
    }
    value
}

#[cfg(test)]
mod tests;
