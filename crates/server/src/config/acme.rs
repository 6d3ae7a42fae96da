//! `[tls.acme]`: certificates that an authority hands out by itself (RFC 8555). Read by `app` and `edge`. Runs in: server.

use std::path::{Path, PathBuf};

use super::file::{Origin, Value};
use super::reader::Reader;
use super::tls::CertificateFiles;

/// The authority that is asked unless another is named.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Most names of one certificate; Let's Encrypt's limit.
const DOMAINS: usize = 100;

/// For what, from whom, and how it is shown that the names are this server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// Names of the certificate. Never empty.
    pub domains: Vec<String>,
    /// Whom the authority may write to: `mailto:…`. Default: nobody.
    pub contact: Vec<String>,
    /// The authority. Default: Let's Encrypt.
    pub directory: String,
    /// Where account and certificates are kept.
    pub folder: PathBuf,
    /// Default: HTTP.
    pub challenge: Challenge,
    /// What the authority's own server is trusted by, in PEM form. Default: the system's authorities.
    pub ca: Option<PathBuf>,
}

/// How it is shown that a name is this server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Challenge {
    /// By a file at port 80 (RFC 8555 §8.3).
    #[default]
    Http,
    /// By a certificate at port 443 (RFC 8737).
    TlsAlpn,
}

impl Acme {
    /// Where its certificate is.
    pub fn file(&self) -> PathBuf {
        let first = self.domains.first().map_or("certificate", String::as_str);
        self.folder.join(format!("{first}.pem"))
    }

    /// As one of the certificates.
    pub(super) fn files(&self) -> CertificateFiles {
        CertificateFiles {
            stand_in: self.domains.clone(),
            ..CertificateFiles::in_one(self.file())
        }
    }
}

/// Reads them; paths are below `dir`. `listens`: TLS is spoken somewhere.
pub(super) fn acme(reader: &mut Reader, dir: &Path, listens: bool) -> Option<Acme> {
    let domains = domains(reader);
    let words = [("http-01", Challenge::Http), ("tls-alpn-01", Challenge::TlsAlpn)];
    let contact = reader
        .list("tls.acme.contact")
        .map_or_else(Vec::new, |(texts, _)| texts);
    let directory = directory(reader);
    let folder = reader.text("tls.acme.folder");
    let challenge = reader.word_or("tls.acme.challenge", &words, Challenge::default());
    let agreed = reader.switch("tls.acme.agree_to_terms", false);
    let ca = reader.text("tls.acme.ca").map(|(text, _)| dir.join(text));
    let (domains, origin) = domains?;
    let mut lacks = |what: &str| reader.problem(origin.clone(), format!("`tls.acme.domains` needs {what}"));
    if !listens {
        lacks("`tls.listen`: where the certificate is used");
    }
    if !agreed {
        lacks(
            "`tls.acme.agree_to_terms = true`: the authority has terms, and asks whether you agree to them",
        );
    }
    if folder.is_none() {
        lacks("`tls.acme.folder`: where the account and the certificate are kept");
    }
    let (folder, _) = folder?;
    Some(Acme {
        domains,
        contact: contact.iter().map(|text| address(text)).collect(),
        directory,
        folder: dir.join(folder),
        challenge,
        ca,
    })
}

/// RFC 8555 §6.1: only HTTPS.
fn directory(reader: &mut Reader) -> String {
    const KEY: &str = "tls.acme.directory";
    let Some((text, origin)) = reader.text(KEY) else {
        return LETS_ENCRYPT.to_owned();
    };
    if !text.starts_with("https://") {
        let form = "expected a URL that begins with https://";
        reader.wrong(origin, KEY, &Value::Text(text.clone()), form);
    }
    text
}

/// An address of electronic mail may be written as it is.
fn address(text: &str) -> String {
    if text.contains(':') {
        text.to_owned()
    } else {
        format!("mailto:{text}")
    }
}

fn domains(reader: &mut Reader) -> Option<(Vec<String>, Origin)> {
    const KEY: &str = "tls.acme.domains";
    let (texts, origin) = reader.list(KEY)?;
    let names: Vec<String> = texts.iter().map(|text| text.to_ascii_lowercase()).collect();
    let wrong = names.iter().find(|name| !is_domain(name));
    let why = match wrong {
        Some(name) if name.starts_with("*.") => Some(format!(
            "\"{name}\": no authority hands out such a one by these challenges; name each host"
        )),
        Some(name) => Some(format!(
            "\"{name}\": expected the name of a host, for instance \"example.com\""
        )),
        None if names.is_empty() || names.len() > DOMAINS => Some(format!("expected 1 to {DOMAINS} names")),
        None => None,
    };
    if let Some(why) = why {
        reader.wrong(origin, KEY, &Value::List(texts), &why);
        return None;
    }
    Some((names, origin))
}

/// RFC 1123 §2.1; names of other scripts as DNS has them (`xn--…`).
fn is_domain(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
