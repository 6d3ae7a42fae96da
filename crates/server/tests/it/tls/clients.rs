//! Certificates of clients.

use std::fs;

use serde_json::Value;

use super::{Certificates, ca, curl, secure, start, try_curl};
use crate::harness::{Folder, Server};

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
    // Of another authority, which has the same name.
    let others = Certificates::new("tls-other-client");
    make_client(&others);
    let (other, its_key) = (ca(&others.path("ada.pem")), ca(&others.path("ada.key")));
    let with_other = ["--cacert", &pem, "--cert", &other, "--key", &its_key];
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
        assert!(
            !try_curl(address, "shop.test", &with_other, "/server").0,
            "{word}"
        );
        let (is_well, text, _) = try_curl(address, "shop.test", &["--cacert", &pem], "/server");
        assert_eq!(is_well, !is_required, "{word}");
        if is_well {
            let seen: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(seen["SSL_CLIENT_VERIFY"], "NONE");
        }
    }
}

#[test]
fn a_reload_that_could_not_demand_certificates_is_refused() {
    let certificates = Certificates::new("tls-client-reload");
    certificates.make("shop.test");
    let site = Folder::new("tls-client-site");
    site.write("index.php", "<?php echo 'hello';");
    let settings = certificates.settings(&["shop.test"]);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Server::start(&site.app(), &settings);
    let (address, pem) = (secure(&server), ca(&certificates.path("shop.test.pem")));
    let is_served = || try_curl(address, "shop.test", &["--cacert", &pem], "/").0;

    site.write("hearth.toml", "[tls]\nclient_ca = 'clients.pem'\n");
    let output = server.command(&["reload"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("clients.pem (tls.client_ca)"),
        "{said}"
    );
    assert!(is_served());

    make_client(&certificates);
    fs::copy(certificates.path("ca.pem"), site.file("clients.pem")).unwrap();
    server.ask(&["reload"]);
    assert!(!is_served());

    // They were good: code is served all the same, and certificates are demanded.
    site.write("clients.pem", "nothing");
    let told = server.ask(&["reload"]);
    assert!(
        told.contains("warning: certificates not loaded anew: those of before are used on"),
        "{told}"
    );
    assert!(!is_served());
}
