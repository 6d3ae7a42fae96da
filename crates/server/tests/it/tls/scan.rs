//! What testssl.sh finds, which tries each protocol, cipher and known attack, and gives the grade of SSL Labs.
//!
//! `make tls-check` installs it and runs this; it takes two minutes, and is skipped elsewhere.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{Certificates, ca, start};

/// What is of the application, of the scanner itself, and what the cryptography that rustls uses here does not have yet: key exchange that withstands
/// quantum computers.
const KNOWN: [&str; 3] = ["security_headers", "engine_problem", "FS_KEMs"];

#[test]
fn nothing_is_graded_below_a_with_an_elliptic_key() {
    assert_well_graded(&Certificates::new("tls-scan"));
}

#[test]
fn nothing_is_graded_below_a_with_a_key_of_rsa() {
    assert_well_graded(&Certificates::of_rsa("tls-scan-rsa"));
}

fn assert_well_graded(certificates: &Certificates) {
    if std::env::var_os("HEARTH_TEST_TESTSSL").is_none() {
        eprintln!("not run: `make tls-check` runs it");
        return;
    }
    certificates.make_authority("/O=Tests/CN=Authority");
    // Authorities use numbers that nobody guesses.
    certificates.issue_for_host("shop.test", "0x15d02d3c390b40732012de30");
    let mut settings = certificates.settings(&["shop.test"]);
    settings.extend([
        "tls.redirect=true".to_owned(),
        "tls.hsts='max-age=31536000'".to_owned(),
    ]);
    let (_server, address) = start(&settings);
    let report = certificates.path("report.json");
    let output = Command::new("testssl")
        .args([
            "--quiet",
            "--color",
            "0",
            "--warnings",
            "batch",
            "--nodns",
            "none",
            "--ip",
            "127.0.0.1",
        ])
        .args(["--add-ca", &ca(&certificates.path("ca.pem"))])
        .args(["--jsonfile", &ca(&report)])
        .arg(format!("shop.test:{}", address.port()))
        .output()
        .expect("testssl, of the package testssl.sh");
    let said = String::from_utf8_lossy(&output.stdout);
    let text = fs::read_to_string(&report).unwrap_or_else(|error| panic!("{error}: {said}"));
    let findings: Vec<Value> = serde_json::from_str(&text).unwrap();
    let bad: Vec<&Value> = findings.iter().filter(|finding| is_bad(finding)).collect();
    assert!(bad.is_empty(), "{bad:#?}\n{said}");
    let of = |id: &str| {
        let found = findings.iter().find(|finding| finding["id"] == id);
        found.unwrap_or_else(|| panic!("no {id}: {said}"))["finding"]
            .as_str()
            .unwrap()
    };
    // A grade of its own, A+, is for those that tell browsers to stay with TLS.
    assert_eq!(of("overall_grade"), "A+", "{said}");
    // It has got to what it is asked for.
    assert_eq!(of("heartbleed"), "not vulnerable, no heartbeat extension");
    assert!(of("cert_trust").starts_with("Ok via SAN"), "{said}");
    eprintln!(
        "grade {}, score {}: protocols {}, key exchange {}, ciphers {}",
        of("overall_grade"),
        of("final_score"),
        of("protocol_support_score"),
        of("key_exchange_score"),
        of("cipher_strength_score")
    );
}

/// Whether something could be better.
fn is_bad(finding: &Value) -> bool {
    let is_known = KNOWN.iter().any(|id| finding["id"] == *id);
    !is_known && finding["severity"] != "OK" && finding["severity"] != "INFO"
}
