//! `hearth serve --https`: a certificate for localhost, signed by an authority of this user's own that browsers can be told to trust.
//!
//! Both are kept in a folder of the user, so that what is trusted once stays trusted. Runs in: server, before it starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::edge::tls::private;

const DAY: Duration = Duration::from_hours(24);
/// How long the authority holds.
const AUTHORITY: Duration = Duration::from_hours(24 * 3650);
/// How long a certificate holds; browsers take none of more than 825 days.
const HOLDS: Duration = Duration::from_hours(24 * 90);
/// Age at which another is made.
const AGE: Duration = Duration::from_hours(24 * 60);
/// What it is for.
const NAMES: [&str; 4] = ["localhost", "*.localhost", "127.0.0.1", "::1"];

/// The certificate with its key, and what to say of it.
pub(super) fn certificate() -> anyhow::Result<(PathBuf, String)> {
    let folder = folder()?;
    let making = || format!("keeping a local certificate in {}", folder.display());
    private::folder(&folder).with_context(making)?;
    let authority = folder.join("local-ca.pem");
    let issuer = authority_in(&folder, &authority).with_context(making)?;
    let file = folder.join("localhost.pem");
    if !is_fresh(&file, &authority) {
        let (certificate, key) = sign(&issuer).with_context(making)?;
        let both = format!("{}{}", certificate.pem(), key.serialize_pem());
        private::write(&file, &both).with_context(making)?;
    }
    Ok((file, advice(&authority)))
}

fn advice(authority: &Path) -> String {
    let path = authority.display();
    format!(
        "HTTPS with a certificate for localhost, signed by {path}; to have it trusted:\n\
         \x20   Debian, Ubuntu: sudo install -m 644 {path} /usr/local/share/ca-certificates/hearth-local.crt && sudo update-ca-certificates\n\
         \x20   Firefox: Settings, Certificates, View Certificates, Authorities, Import\n\
         \x20   macOS: sudo security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain {path}"
    )
}

/// `$XDG_DATA_HOME/hearth` (XDG Base Directory Specification).
fn folder() -> anyhow::Result<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    let data =
        data.ok_or_else(|| anyhow!("--https: no folder for its certificate: set HOME or XDG_DATA_HOME"))?;
    Ok(data.join("hearth"))
}

fn authority_in(folder: &Path, file: &Path) -> anyhow::Result<Issuer<'static, KeyPair>> {
    let key_file = folder.join("local-ca.key");
    if let (Ok(pem), Ok(key)) = (fs::read_to_string(file), fs::read_to_string(&key_file)) {
        return Ok(Issuer::from_ca_cert_pem(&pem, KeyPair::from_pem(&key)?)?);
    }
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    params.distinguished_name.push(
        DnType::CommonName,
        format!("Hearth, local development on {machine}"),
    );
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    holds(&mut params, AUTHORITY);
    let certificate = params.self_signed(&key)?;
    private::write(&key_file, &key.serialize_pem())?;
    private::write(file, &certificate.pem())?;
    Ok(Issuer::new(params, key))
}

fn sign(issuer: &Issuer<'_, KeyPair>) -> anyhow::Result<(Certificate, KeyPair)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    holds(&mut params, HOLDS);
    Ok((params.signed_by(&key, issuer)?, key))
}

fn holds(params: &mut CertificateParams, duration: Duration) {
    // Clocks differ.
    let now = SystemTime::now() - DAY;
    params.not_before = now.into();
    params.not_after = (now + duration).into();
}

/// Whether the certificate was made lately, and by this authority.
fn is_fresh(file: &Path, authority: &Path) -> bool {
    let made = |path: &Path| fs::metadata(path)?.modified();
    let (Ok(made), Ok(signed)) = (made(file), made(authority)) else {
        return false;
    };
    made >= signed && made.elapsed().is_ok_and(|age| age < AGE)
}
