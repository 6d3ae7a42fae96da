//! Certificates of clients.

use std::fs;

use serde_json::Value;

use super::{Certificates, ca, curl, start, try_curl};

/// An authority of clients (`ca.pem`), and one client (`ada.pem`, `ada.key`).
fn make_client(certificates: &Certificates) {
    certificates.make_authority("/O=Clients/CN=Authority");
    let extensions = "extendedKeyUsage=clientAuth\nbasicConstraints=CA:FALSE\n";
    certificates.issue("ada", "/C=DE/O=Shop/CN=Ada", "0x1A2B", extensions);
}

#[test]
fn php_sees_the_certificate_of_a_client() {
    let certificates = Certificates::new("tls-client");
    certificates.make("shop.test");
    make_client(&certificates);
    let pem = ca(&certificates.path("shop.test.pem"));
    let (ada, key) = (
        ca(&certificates.path("ada.pem")),
        ca(&certificates.path("ada.key")),
    );
    let with = ["--cacert", &pem, "--cert", &ada, "--key", &key];
    let authority = format!("tls.client_ca='{}'", certificates.path("ca.pem").display());
    for (word, is_required) in [("optional", false), ("required", true)] {
        let mut settings = certificates.settings(&["shop.test"]);
        settings.extend([authority.clone(), format!("tls.client='{word}'")]);
        let (_server, address) = start(&settings);
        let seen: Value = serde_json::from_str(&curl(address, "shop.test", &with, "/server")).unwrap();
        for (name, value) in [
            ("SSL_CLIENT_VERIFY", "SUCCESS"),
            ("SSL_CLIENT_S_DN", "CN=Ada,O=Shop,C=DE"),
            ("SSL_CLIENT_S_DN_CN", "Ada"),
            ("SSL_CLIENT_I_DN", "CN=Authority,O=Clients"),
            ("SSL_CLIENT_M_SERIAL", "1A2B"),
            ("SSL_CLIENT_M_VERSION", "3"),
        ] {
            assert_eq!(seen[name], value, "{name}");
        }
        let certificate = fs::read_to_string(certificates.path("ada.pem")).unwrap();
        assert_eq!(seen["SSL_CLIENT_CERT"], certificate);
        let (is_well, text, _) = try_curl(address, "shop.test", &["--cacert", &pem], "/server");
        assert_eq!(is_well, !is_required, "{word}");
        if is_well {
            let seen: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(seen["SSL_CLIENT_VERIFY"], "NONE");
        }
    }
}
