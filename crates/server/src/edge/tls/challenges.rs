//! What an authority looks for at this server, to see that a name is its own (ACME): over HTTP (RFC 8555 §8.3), or in a handshake
//! (RFC 8737).
//!
//! Filled by `app`, read by `exchange` and `handshake`. Runs in: server.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

/// The protocol of such a handshake.
pub(super) const ALPN: &[u8] = b"acme-tls/1";
/// Where the authority looks over HTTP.
pub(super) const PATH: &[u8] = b"/.well-known/acme-challenge/";

/// All that are being looked for. Nearly always none.
#[derive(Debug, Default)]
pub(crate) struct Challenges {
    /// Answers by the last part of the path.
    answers: RwLock<BTreeMap<String, String>>,
    /// By the name that is asked for.
    handshakes: RwLock<BTreeMap<String, Arc<ServerConfig>>>,
}

impl Challenges {
    /// The authority will ask for `token` over HTTP.
    pub(crate) fn answer(&self, token: &str, answer: &str) {
        let mut answers = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        answers.insert(token.to_owned(), answer.to_owned());
    }

    /// The authority will shake hands for `name`, and look for `digest`.
    pub(crate) fn shake(&self, name: &str, digest: &[u8]) -> anyhow::Result<()> {
        let config = for_handshake(name, digest).context("making the certificate of a challenge")?;
        let mut handshakes = self.handshakes.write().unwrap_or_else(PoisonError::into_inner);
        handshakes.insert(name.to_ascii_lowercase(), Arc::new(config));
        Ok(())
    }

    /// The authority has seen what it wanted, or will not.
    pub(crate) fn clear(&self) {
        self.answers
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        self.handshakes
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// What is to be answered at `path`.
    pub(super) fn at(&self, path: &[u8]) -> Option<String> {
        let token = std::str::from_utf8(path.strip_prefix(PATH)?).ok()?;
        let answers = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        answers.get(token).cloned()
    }

    /// Whether a handshake may be one of these.
    pub(super) fn has_handshakes(&self) -> bool {
        let handshakes = self.handshakes.read().unwrap_or_else(PoisonError::into_inner);
        !handshakes.is_empty()
    }

    pub(super) fn handshake(&self, name: &str) -> Option<Arc<ServerConfig>> {
        let handshakes = self.handshakes.read().unwrap_or_else(PoisonError::into_inner);
        handshakes.get(&name.to_ascii_lowercase()).cloned()
    }
}

fn for_handshake(name: &str, digest: &[u8]) -> anyhow::Result<ServerConfig> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let chain = vec![params.self_signed(&key)?.der().clone()];
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let provider = Arc::new(default_provider());
    let key = CertifiedKey::new(chain, provider.key_provider.load_private_key(key)?);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        // `with_single_cert` refuses it: rustls does not know its extension.
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}
