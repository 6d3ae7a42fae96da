//! What PHP is told of a client's certificate, by the names that Apache's `mod_ssl` has for it. Runs in: server, on a reactor.

use std::fmt::Write as _;

use rustls::ServerConnection;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};
use x509_parser::time::ASN1Time;

/// Characters of a line of PEM.
const LINE: usize = 64;

/// The variables of a connection; those of the client's certificate where it was asked for one.
pub(super) fn of(session: &ServerConnection, asks_clients: bool) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if let Some(version) = session.protocol_version() {
        let version = version.as_str().unwrap_or_default().replace("TLSv1_", "TLSv1.");
        all.push(("SSL_PROTOCOL", version));
    }
    if let Some(suite) = session.negotiated_cipher_suite() {
        all.push((
            "SSL_CIPHER",
            openssl_name(suite.suite().as_str().unwrap_or_default()),
        ));
    }
    if let Some(name) = session.server_name() {
        all.push(("SSL_TLS_SNI", name.to_owned()));
    }
    if !asks_clients {
        return all;
    }
    let certificate = session.peer_certificates().and_then(<[_]>::first);
    let Some(certificate) = certificate else {
        all.push(("SSL_CLIENT_VERIFY", "NONE".to_owned()));
        return all;
    };
    // rustls lets nobody in whose certificate does not hold.
    all.push(("SSL_CLIENT_VERIFY", "SUCCESS".to_owned()));
    if let Ok((_, parsed)) = X509Certificate::from_der(certificate) {
        let validity = parsed.validity();
        all.extend([
            ("SSL_CLIENT_M_VERSION", (parsed.version().0 + 1).to_string()),
            ("SSL_CLIENT_M_SERIAL", hex(parsed.raw_serial())),
            ("SSL_CLIENT_S_DN", name(parsed.subject())),
            ("SSL_CLIENT_S_DN_CN", common_name(parsed.subject())),
            ("SSL_CLIENT_I_DN", name(parsed.issuer())),
            ("SSL_CLIENT_I_DN_CN", common_name(parsed.issuer())),
            ("SSL_CLIENT_V_START", time(validity.not_before)),
            ("SSL_CLIENT_V_END", time(validity.not_after)),
        ]);
    }
    all.push(("SSL_CLIENT_CERT", pem(certificate)));
    all
}

/// `mod_ssl` has OpenSSL's names: `TLS_AES_256_GCM_SHA384`, and of TLS 1.2 `ECDHE-RSA-AES128-GCM-SHA256`.
fn openssl_name(name: &str) -> String {
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let name = name
        .trim_start_matches("TLS_")
        .replace("_WITH_", "_")
        .replace("AES_", "AES");
    let name = if name.contains("CHACHA20") {
        name.trim_end_matches("_SHA256")
    } else {
        &name
    };
    name.replace('_', "-")
}

/// RFC 4514: the last part first.
fn name(name: &X509Name<'_>) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in name.iter() {
        let attributes = part.iter().map(|attribute| {
            let key =
                x509_parser::objects::oid2abbrev(attribute.attr_type(), x509_parser::objects::oid_registry());
            let key = key.map_or_else(|_| attribute.attr_type().to_id_string(), str::to_owned);
            format!("{key}={}", escaped(attribute.as_str().unwrap_or_default()))
        });
        parts.push(attributes.collect::<Vec<_>>().join("+"));
    }
    parts.reverse();
    parts.join(",")
}

/// RFC 4514 §2.4.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, c) in value.chars().enumerate() {
        let special = matches!(c, '"' | '+' | ',' | ';' | '<' | '>' | '\\');
        let at_edge = c == ' ' && (at == 0 || at == last) || c == '#' && at == 0;
        if special || at_edge {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn common_name(name: &X509Name<'_>) -> String {
    let first = name.iter_common_name().next();
    let text = first.and_then(|attribute| attribute.as_str().ok());
    text.unwrap_or_default().to_owned()
}

/// As OpenSSL prints it: `Nov  1 12:00:00 2026 GMT`.
fn time(time: ASN1Time) -> String {
    let at = time.to_datetime();
    let (hour, minute, second) = at.to_hms();
    let month = at.month().to_string();
    let month = month.get(..3).unwrap_or_default();
    format!(
        "{month} {:>2} {hour:02}:{minute:02}:{second:02} {} GMT",
        at.day(),
        at.year()
    )
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    // A leading zero only says that the number is positive.
    for byte in bytes.iter().skip_while(|byte| **byte == 0) {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02X}");
    }
    out
}

fn pem(der: &[u8]) -> String {
    let code = base64(der);
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in code.as_bytes().chunks(LINE) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut parts = three.iter().copied().chain([0, 0]);
        let [a, b, c] = [(); 3].map(|()| u32::from(parts.next().unwrap_or(0)));
        let bits = a << 16 | b << 8 | c;
        for place in 0..4_usize {
            let six = bits >> (18 - 6 * place) & 0x3f;
            let digit = usize::try_from(six).ok().and_then(|six| DIGITS.get(six));
            let shown = if place <= three.len() {
                digit.copied()
            } else {
                None
            };
            out.push(char::from(shown.unwrap_or(b'=')));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        for (bytes, code) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(bytes), code);
        }
    }

    #[test]
    fn cipher_suites_have_the_names_of_openssl() {
        for (name, expected) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
            (
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "ECDHE-RSA-AES128-GCM-SHA256",
            ),
            (
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
            ),
        ] {
            assert_eq!(openssl_name(name), expected);
        }
    }

    #[test]
    fn names_are_escaped_as_rfc_4514_says() {
        assert_eq!(escaped("a,b\\c"), "a\\,b\\\\c");
        assert_eq!(escaped(" a "), "\\ a\\ ");
        assert_eq!(escaped("#a#"), "\\#a#");
    }
}
