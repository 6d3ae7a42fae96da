//! TLS: handshakes, certificates that change, clients' certificates, and who does not speak it.

mod acme;
mod certificates;
mod clients;
mod handed;
mod scan;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

pub(crate) use self::certificates::Certificates;
use crate::h2::h2spec;
use crate::harness::{App, Folder, Server};

fn start(settings: &[String]) -> (Server, SocketAddr) {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Server::start(&App::of_tests(), &settings);
    let address = secure(&server);
    (server, address)
}

/// Where TLS is spoken.
pub(crate) fn secure(server: &Server) -> SocketAddr {
    let line = server.out.wait_for_line("hearth: ready on ");
    let rest = line.split("https://").nth(1).expect("an address of TLS");
    rest.split(' ').next().unwrap().parse().unwrap()
}

fn try_curl(address: SocketAddr, host: &str, arguments: &[&str], target: &str) -> (bool, String, String) {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20", "--resolve"])
        .arg(format!("{host}:{}:127.0.0.1", address.port()))
        .args(arguments)
        .arg(format!("https://{host}:{}{target}", address.port()))
        .output()
        .expect("running curl");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn curl(address: SocketAddr, host: &str, arguments: &[&str], target: &str) -> String {
    let (is_well, text, complaint) = try_curl(address, host, arguments, target);
    assert!(is_well, "curl: {complaint}");
    text
}

pub(crate) fn ca(path: &std::path::Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn each_version_is_agreed_on_and_php_sees_https() {
    let certificates = Certificates::new("tls-versions");
    certificates.make("shop.test");
    let (_server, address) = start(&certificates.settings(&["shop.test"]));
    let pem = ca(&certificates.path("shop.test.pem"));
    for (flags, expected, version, cipher) in [
        (
            &["--http1.1", "--tlsv1.3"][..],
            "1.1",
            "TLSv1.3",
            "TLS_AES_256_GCM_SHA384",
        ),
        (
            &["--http2", "--tlsv1.3"],
            "2",
            "TLSv1.3",
            "TLS_AES_256_GCM_SHA384",
        ),
        (
            &["--http2", "--tls-max", "1.2"],
            "2",
            "TLSv1.2",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
    ] {
        // What a client says of itself is below HTTP_.
        let mut arguments = vec![
            "--cacert",
            &pem,
            "-w",
            "%{http_version}",
            "-H",
            "SSL_CLIENT_VERIFY: SUCCESS",
            "-H",
            "SSL-CLIENT-VERIFY: SUCCESS",
        ];
        arguments.extend(flags);
        let text = curl(address, "shop.test", &arguments, "/server");
        let end = text.rfind('}').unwrap() + 1;
        let seen: Value = serde_json::from_str(&text[..end]).unwrap();
        assert_eq!(&text[end..], expected, "{flags:?}");
        assert_eq!(seen["HTTPS"], "on");
        assert_eq!(seen["REQUEST_SCHEME"], "https");
        assert_eq!(seen["SERVER_PORT"], address.port().to_string());
        assert_eq!(seen["SSL_PROTOCOL"], version);
        assert_eq!(seen["SSL_CIPHER"], cipher);
        assert_eq!(seen.get("SSL_CLIENT_VERIFY"), None);
    }
    let (is_well, _, _) = try_curl(address, "shop.test", &["--cacert", &pem, "--tls-max", "1.1"], "/");
    assert!(!is_well, "TLS 1.1 is spoken");
}

#[test]
fn h2spec_passes_whole_over_tls() {
    let certificates = Certificates::new("tls-h2spec");
    certificates.make("shop.test");
    let (_server, address) = start(&certificates.settings(&["shop.test"]));
    let port = address.port().to_string();
    let failed = h2spec(&["-h", "127.0.0.1", "-p", &port, "-t", "-k"]);
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn the_certificate_is_chosen_by_name() {
    let certificates = Certificates::new("tls-sni");
    for name in ["a.test", "b.test"] {
        certificates.make(name);
    }
    let (_server, address) = start(&certificates.settings(&["a.test", "b.test"]));
    for (host, name) in [("a.test", "a.test"), ("b.test", "b.test"), ("x.b.test", "b.test")] {
        let pem = ca(&certificates.path(&format!("{name}.pem")));
        assert_eq!(
            curl(address, host, &["--cacert", &pem], "/c"),
            "hello from /c",
            "{host}"
        );
    }
    let target = address.to_string();
    let shown = certificates.openssl(&["s_client", "-connect", &target, "-servername", "other.test"]);
    assert!(
        // OpenSSL 3.2 and later put no spaces there.
        shown.contains("CN = a.test") || shown.contains("CN=a.test"),
        "the first one where none fits: {shown}"
    );
}

#[test]
fn sessions_go_on_at_any_reactor() {
    let certificates = Certificates::new("tls-sessions");
    certificates.make("shop.test");
    let (_server, address) = start(&certificates.settings(&["shop.test"]));
    let target = address.to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        let first = [
            "s_client",
            "-connect",
            &target,
            version,
            "-sess_out",
            "session",
            "-ign_eof",
        ];
        let (is_well, shown) = certificates.try_openssl(&first, b"GET /a HTTP/1.0\r\n\r\n");
        assert!(is_well && shown.contains("New, TLS"), "{shown}");
        assert!(shown.contains("hello from /a"), "{shown}");
        for _ in 0..4 {
            let again =
                certificates.openssl(&["s_client", "-connect", &target, version, "-sess_in", "session"]);
            assert!(again.contains("Reused, TLS"), "{version}: {again}");
        }
    }
}

#[test]
fn what_is_weak_is_not_agreed_on() {
    let certificates = Certificates::new("tls-weak");
    certificates.make("shop.test");
    let (_server, address) = start(&certificates.settings(&["shop.test"]));
    let target = address.to_string();
    let shake = |arguments: &[&str]| {
        let all = [
            &["s_client", "-connect", &target, "-servername", "shop.test"],
            arguments,
        ]
        .concat();
        certificates.try_openssl(&all, b"")
    };
    // Level 0: openssl itself would not offer some of these.
    for weak in [
        &["-tls1", "-cipher", "ALL:@SECLEVEL=0"][..],
        &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
        &["-tls1_2", "-cipher", "kRSA:@SECLEVEL=0"],
        &[
            "-tls1_2",
            "-cipher",
            "ECDHE+SHA1:ECDHE+SHA256:@SECLEVEL=0:-AESGCM:-CHACHA20",
        ],
        &["-tls1_2", "-cipher", "aNULL:eNULL:@SECLEVEL=0"],
        &["-tls1_2", "-cipher", "DHE:@SECLEVEL=0"],
        &["-tls1_2", "-cipher", "PSK:@SECLEVEL=0"],
        &[
            "-tls1_2",
            "-sigalgs",
            "ECDSA+SHA1:RSA+SHA1",
            "-cipher",
            "ALL:@SECLEVEL=0",
        ],
    ] {
        let (is_well, shown) = shake(weak);
        assert!(
            !is_well && shown.contains("Cipher is (NONE)"),
            "{weak:?}: {shown}"
        );
    }
    for strong in [
        &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"][..],
        &["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"],
        &["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"],
        &["-tls1_3", "-groups", "P-256"],
    ] {
        let (is_well, shown) = shake(strong);
        assert!(is_well, "{strong:?}: {shown}");
        assert!(shown.contains("Compression: NONE"), "{shown}");
        // The server's, or with OpenSSL 3.5 and later the peer's.
        let of_key = ["Temp Key: X25519", "Temp Key: ECDH"];
        assert!(of_key.iter().any(|key| shown.contains(key)), "{shown}");
        if strong.contains(&"-tls1_2") {
            assert!(shown.contains("Secure Renegotiation IS supported"), "{shown}");
            assert!(shown.contains("Extended master secret: yes"), "{shown}");
        }
    }
    // `R` renegotiates: refused.
    let (_, shown) =
        certificates.try_openssl(&["s_client", "-connect", &target, "-tls1_2", "-ign_eof"], b"R\n");
    assert!(!shown.contains("hello from"), "{shown}");
}

#[test]
fn the_version_of_http_is_agreed_on_in_the_handshake() {
    let certificates = Certificates::new("tls-alpn");
    certificates.make("shop.test");
    let (_server, address) = start(&certificates.settings(&["shop.test"]));
    let target = address.to_string();
    let protocols = |wanted: &str| {
        certificates
            .try_openssl(&["s_client", "-connect", &target, "-alpn", wanted], b"")
            .1
    };
    assert!(protocols("http/1.1,h2").contains("ALPN protocol: h2"));
    assert!(protocols("http/1.1").contains("ALPN protocol: http/1.1"));
    assert!(protocols("spdy/1").contains("no application protocol"));
    // And it holds: this is how HTTP/2 begins.
    let arguments = ["s_client", "-connect", &target, "-alpn", "http/1.1", "-ign_eof"];
    let (_, shown) = certificates.try_openssl(&arguments, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(shown.contains("HTTP/1.1 400 Bad Request"), "{shown}");
}

#[test]
fn a_changed_certificate_is_used_and_a_broken_one_is_not() {
    let certificates = Certificates::new("tls-change");
    certificates.make("shop.test");
    let (server, address) = start(&certificates.settings(&["shop.test"]));
    let before = ca(&certificates.path("before.pem"));
    fs::copy(certificates.path("shop.test.pem"), &before).unwrap();
    assert_eq!(
        curl(address, "shop.test", &["--cacert", &before], "/a"),
        "hello from /a"
    );

    fs::write(certificates.path("shop.test.key"), "nothing").unwrap();
    let event = server.log.wait(
        "certificates not loaded anew: those of before are used on",
        |_| true,
    );
    let error = event["error"].as_str().unwrap();
    assert!(error.contains("shop.test.key"), "{error}");
    assert_eq!(
        curl(address, "shop.test", &["--cacert", &before], "/b"),
        "hello from /b"
    );

    // To open a pipe would be to wait for who writes to it.
    let key = certificates.path("shop.test.key");
    fs::remove_file(&key).unwrap();
    assert!(Command::new("mkfifo").arg(&key).status().unwrap().success());
    server.log.wait(
        "certificates not loaded anew: those of before are used on",
        |event| event["error"].as_str().unwrap().contains("no regular file"),
    );
    fs::remove_file(&key).unwrap();

    certificates.make("shop.test");
    server
        .log
        .wait("certificates loaded anew: their files have changed", |_| true);
    let now = ca(&certificates.path("shop.test.pem"));
    // The key may have been there before the certificate was: then it is looked at again.
    assert_eq!(
        curl(address, "shop.test", &["--cacert", &now], "/c"),
        "hello from /c"
    );
    let (is_well, _, _) = try_curl(address, "shop.test", &["--cacert", &before], "/d");
    assert!(!is_well, "the old certificate is shown");
}

#[test]
fn what_cannot_be_used_at_the_start_is_named() {
    let certificates = Certificates::new("tls-wrong");
    certificates.make("a.test");
    certificates.make("b.test");
    fs::copy(certificates.path("b.test.key"), certificates.path("a.test.key")).unwrap();
    let settings = certificates.settings(&["a.test"]);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let failed = Server::fail(&App::of_tests(), &settings);
    let text = failed.log.text();
    assert!(
        text.contains("a.test.key is not that of the certificate"),
        "{text}"
    );
    let failed = Server::fail(
        &App::of_tests(),
        &["tls.listen='127.0.0.1:0'", "tls.certificates='/nonexistent.pem'"],
    );
    let text = failed.log.text();
    assert!(
        text.contains("reading the certificate /nonexistent.pem: No such file or directory"),
        "{text}"
    );
    let failed = Server::fail(&App::of_tests(), &["tls.listen='127.0.0.1:0'"]);
    assert!(failed.log.text().contains("`tls.listen` needs a certificate"));
}

#[test]
fn http_in_the_clear_is_told_so_and_noise_is_cut() {
    let certificates = Certificates::new("tls-clear");
    certificates.make("shop.test");
    let mut settings = certificates.settings(&["shop.test"]);
    settings.push("limits.header_timeout='500 ms'".to_owned());
    let (_server, address) = start(&settings);
    let answer = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(bytes).unwrap();
        let mut answer = String::new();
        // A reset is an end, too.
        let _ = socket.read_to_string(&mut answer);
        answer
    };
    let clear = answer(b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    assert!(clear.starts_with("HTTP/1.1 400 "), "{clear}");
    assert!(
        clear.contains("The plain HTTP request was sent to HTTPS port"),
        "{clear}"
    );
    // The beginning of SSL 2, and noise.
    assert_eq!(answer(b"\x80\x2e\x01\x00\x02"), "");
    assert_eq!(answer(b"\xff\xff\xff"), "");
    // Nothing, and a handshake that does not go on: each ends in its time.
    assert_eq!(answer(b""), "");
    assert_eq!(answer(b"\x16\x03\x01\x02\x00\x01"), "");
}

#[test]
fn a_request_in_the_clear_is_redirected_and_browsers_are_told_to_stay() {
    let certificates = Certificates::new("tls-redirect");
    certificates.make("shop.test");
    let mut settings = certificates.settings(&["shop.test"]);
    settings.extend([
        "tls.redirect=true".to_owned(),
        "tls.hsts='max-age=31536000; includeSubDomains'".to_owned(),
    ]);
    let (server, address) = start(&settings);
    let answer = server.get("/a?b=c");
    assert_eq!(answer.status, 301);
    assert_eq!(answer.header("location"), Some("https://test/a?b=c"));
    assert_eq!(server.post("/a", b"x").status, 308);
    let pem = ca(&certificates.path("shop.test.pem"));
    let head = curl(address, "shop.test", &["--cacert", &pem, "-I"], "/");
    assert!(
        head.contains("strict-transport-security: max-age=31536000; includeSubDomains"),
        "{head}"
    );
    assert_eq!(server.get("/").header("strict-transport-security"), None);
    drop(server);
    // Where clients come to another port than is listened at.
    for (port, location) in [(443, "https://test/a?b=c"), (4433, "https://test:4433/a?b=c")] {
        let port = format!("tls.redirect_port={port}");
        let of_proxy = Server::start(&App::of_tests(), &["tls.redirect=true", &port]);
        assert_eq!(of_proxy.get("/a?b=c").header("location"), Some(location));
        settings.push(port);
        let (server, _) = start(&settings);
        assert_eq!(server.get("/a?b=c").header("location"), Some(location));
        settings.pop();
    }
}

#[test]
fn a_local_certificate_is_made_once_and_can_be_trusted() {
    let folder = Folder::new("tls-local");
    let app = App::of_tests()
        .with_env("XDG_DATA_HOME", folder.path().to_str().unwrap())
        .with_flag("--https");
    let mut first = None;
    for _ in 0..2 {
        let server = Server::start(&app, &["tls.listen='127.0.0.1:0'", "pool.web.workers=1"]);
        let authority = folder.path().join("hearth/local-ca.pem");
        let text = curl(secure(&server), "localhost", &["--cacert", &ca(&authority)], "/a");
        assert_eq!(text, "hello from /a");
        let made = fs::read(&authority).unwrap();
        assert_eq!(*first.get_or_insert_with(|| made.clone()), made);
        let resolved = server.log.wait("settings resolved", |_| true);
        assert!(resolved["reasons"].as_str().unwrap().contains("local-ca.pem"));
    }
}

#[test]
fn requests_over_tls_go_on_while_certificates_and_code_are_loaded_anew() {
    let certificates = Certificates::new("tls-reload");
    certificates.make("shop.test");
    let (server, address) = start(&certificates.settings(&["shop.test"]));
    let url = format!("https://127.0.0.1:{}/a", address.port());
    let mut load = Command::new("curl")
        .args([
            "-sSk",
            "--max-time",
            "60",
            "-w",
            "%{http_code}\n",
            "-o",
            "/dev/null",
            "--rate",
            "200/s",
        ])
        .arg(format!("{url}?[1-600]"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for times in 1..=3 {
        certificates.make("shop.test");
        server.signal(rustix::process::Signal::HUP);
        server.log.wait_for_count("reloaded", times);
    }
    let mut text = String::new();
    load.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(load.wait().unwrap().success());
    assert_eq!(text.lines().filter(|line| *line == "200").count(), 600, "{text}");
}

#[test]
fn check_shows_names_and_end_and_an_expired_certificate_is_said() {
    let certificates = Certificates::new("tls-expired");
    certificates.make("new.test");
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["old.test".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    let old = params.self_signed(&key).unwrap().pem();
    fs::write(certificates.path("old.test.pem"), old).unwrap();
    fs::write(certificates.path("old.test.key"), key.serialize_pem()).unwrap();
    let settings = certificates.settings(&["new.test", "old.test"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    let folder = Folder::with("tls-check", &[("public/index.php", "")]);
    command.arg("check").arg(folder.path());
    for setting in &settings {
        command.args(["--set", setting]);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("certificate: new.test *.new.test until 20"),
        "{text}"
    );
    assert!(
        text.contains("certificate: old.test until 2020-01-02 00:00:00 UTC"),
        "{text}"
    );
    assert!(text.contains("old.test.pem), which is over"), "{text}");
    let (server, _) = start(&settings);
    let event = server.log.wait("certificate has expired", |_| true);
    assert_eq!(event["ends"], "2020-01-02 00:00:00 UTC");
}

#[test]
fn big_answers_come_whole_by_each_version() {
    let certificates = Certificates::new("tls-big");
    certificates.make("shop.test");
    let folder = Folder::with("tls-files", &[("public/index.php", "")]);
    let bytes: Vec<u8> = (0..5_000_000_u32)
        .flat_map(|number| [number.to_le_bytes()[1]])
        .collect();
    fs::write(folder.path().join("public/big.bin"), &bytes).unwrap();
    let settings = certificates.settings(&["shop.test"]);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Server::start(&folder.app(), &settings);
    let pem = ca(&certificates.path("shop.test.pem"));
    for version in ["--http1.1", "--http2"] {
        let got = folder.path().join("got");
        let arguments = ["--cacert", &pem, version, "-o", got.to_str().unwrap()];
        curl(secure(&server), "shop.test", &arguments, "/big.bin");
        assert!(fs::read(&got).unwrap() == bytes, "{version}");
    }
}
