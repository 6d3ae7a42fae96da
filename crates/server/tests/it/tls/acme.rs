//! Certificates from an authority: Let's Encrypt's own Pebble, in a process of the test.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::{ca, curl, secure};
use crate::harness::{App, Folder, Server};

const DAY: Duration = Duration::from_hours(24);
const NAMES: [&str; 2] = ["shop.test", "www.shop.test"];

/// An authority, with a DNS in which every name is that of this machine.
struct Pebble {
    child: Child,
    folder: Folder,
    address: SocketAddr,
    management: SocketAddr,
}

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pebble {
    /// One that looks for challenges at these ports.
    fn start(http: u16, tls: u16) -> Self {
        let folder = Folder::new("acme");
        let [address, management] = [(); 2].map(|()| free());
        let (certificate, key) = own_certificate();
        folder.write("ca.pem", &certificate[1]);
        folder.write("cert.pem", &certificate[0]);
        folder.write("key.pem", &key);
        let config = serde_json::json!({ "pebble": {
            "listenAddress": address, "managementListenAddress": management,
            "certificate": "cert.pem", "privateKey": "key.pem", "httpPort": http, "tlsPort": tls,
        }});
        folder.write("config.json", &config.to_string());
        let program = std::env::var("HEARTH_TEST_PEBBLE").expect("HEARTH_TEST_PEBBLE: `make it` sets it");
        let child = Command::new(program)
            .args([
                "-config",
                "config.json",
                "-dnsserver",
                &names_of_this_machine().to_string(),
            ])
            .current_dir(folder.path())
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "0")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("running pebble");
        let pebble = Self {
            child,
            folder,
            address,
            management,
        };
        for address in [address, management] {
            let deadline = Instant::now() + Duration::from_secs(20);
            while TcpStream::connect(address).is_err() {
                assert!(Instant::now() < deadline, "pebble does not listen");
                thread::yield_now();
            }
        }
        pebble
    }

    /// What its certificates are signed by, as a file.
    fn root(&self) -> String {
        let path = self.folder.path().join("root.pem");
        let output = Command::new("curl")
            .args(["-sSk", &format!("https://{}/roots/0", self.management)])
            .output()
            .unwrap();
        fs::write(&path, output.stdout).unwrap();
        ca(&path)
    }

    fn settings(&self, kept: &Folder, challenge: &str, (http, tls): (u16, u16)) -> Vec<String> {
        vec![
            format!("listen='127.0.0.1:{http}'"),
            format!("tls.listen='127.0.0.1:{tls}'"),
            format!("tls.acme.domains=['{}']", NAMES.join("','")),
            "tls.acme.contact='admin@shop.test'".to_owned(),
            "tls.acme.agree_to_terms=true".to_owned(),
            format!(
                "tls.acme.directory='https://localhost:{}/dir'",
                self.address.port()
            ),
            format!("tls.acme.ca='{}'", self.folder.path().join("ca.pem").display()),
            format!("tls.acme.folder='{}/state'", kept.path().display()),
            format!("tls.acme.challenge='{challenge}'"),
            "tls.redirect=true".to_owned(),
            "pool.web.workers=1".to_owned(),
        ]
    }
}

/// A port that nobody listens at, most likely.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn ports() -> (u16, u16) {
    (free().port(), free().port())
}

/// Of the authority's own server, and what signed it; its key.
fn own_certificate() -> ([String; 2], String) {
    let (key, own) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&own, &issuer).unwrap();
    ([certificate.pem(), root], own.serialize_pem())
}

/// Answers each question for an address (RFC 1035 §4.1) with 127.0.0.1, until the test ends.
fn names_of_this_machine() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((count, client)) = socket.recv_from(&mut buffer) {
            let message = &buffer[..count];
            let question = 12 + message[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
            let is_address = message[question - 4..question - 2] == [0, 1];
            let mut answer = message[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
            answer.extend(&message[12..question]);
            if is_address {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
                answer.extend(Ipv4Addr::LOCALHOST.octets());
            }
            let _ = socket.send_to(&answer, client);
        }
    });
    address
}

fn serve(settings: &[String]) -> Server {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Server::start(&App::of_tests(), &settings)
}

#[test]
fn a_certificate_comes_by_each_challenge_and_is_kept() {
    for challenge in ["http-01", "tls-alpn-01"] {
        let ports = ports();
        let pebble = Pebble::start(ports.0, ports.1);
        let kept = Folder::new("acme-kept");
        let settings = pebble.settings(&kept, challenge, ports);
        let server = serve(&settings);
        server.log.wait("certificate received", |_| true);
        server
            .log
            .wait("certificates loaded anew: their files have changed", |_| true);
        let root = pebble.root();
        for name in NAMES {
            assert_eq!(
                curl(secure(&server), name, &["--cacert", &root], "/a"),
                "hello from /a"
            );
        }
        let state = kept.path().join("state");
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&state), 0o700);
        let mut files = 0;
        for entry in fs::read_dir(&state).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600);
            files += 1;
        }
        assert_eq!(files, 2, "the account and the certificate");
        drop(server);
        // What is kept is used, and nothing asked for.
        let server = serve(&settings);
        assert_eq!(
            curl(secure(&server), NAMES[0], &["--cacert", &root], "/b"),
            "hello from /b"
        );
        assert_eq!(server.log.count("asking for a certificate"), 0);
    }
}

#[test]
fn a_certificate_is_renewed_when_a_third_of_its_time_is_left() {
    let ports = ports();
    let pebble = Pebble::start(ports.0, ports.1);
    let kept = Folder::new("acme-old");
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(NAMES.map(str::to_owned)).unwrap();
    let now = SystemTime::now();
    params.not_before = (now - 61 * DAY).into();
    params.not_after = (now + 29 * DAY).into();
    let old = params.self_signed(&key).unwrap().pem();
    fs::create_dir(kept.path().join("state")).unwrap();
    let file = kept.path().join("state/shop.test.pem");
    fs::write(&file, format!("{old}{}", key.serialize_pem())).unwrap();
    let server = serve(&pebble.settings(&kept, "http-01", ports));
    server
        .log
        .wait("certificates loaded anew: their files have changed", |_| true);
    assert!(!fs::read_to_string(&file).unwrap().contains(&old));
    let root = pebble.root();
    assert_eq!(
        curl(secure(&server), NAMES[1], &["--cacert", &root], "/a"),
        "hello from /a"
    );
}

#[test]
fn an_authority_that_refuses_is_quoted_and_nothing_stops() {
    let ports = ports();
    // It looks where nobody is.
    let pebble = Pebble::start(free().port(), free().port());
    let kept = Folder::new("acme-refused");
    let server = serve(&pebble.settings(&kept, "http-01", ports));
    let event = server.log.wait("no certificate from the authority", |_| true);
    let error = event["error"].as_str().unwrap();
    assert!(
        error.contains("shop.test") && error.contains("refused"),
        "{error}"
    );
    assert_eq!(event["again"], "1 min");
    // One that nobody trusts, so that there is a connection.
    assert_eq!(curl(secure(&server), NAMES[0], &["-k"], "/a"), "hello from /a");
    drop(pebble);
    assert_eq!(curl(secure(&server), NAMES[0], &["-k"], "/b"), "hello from /b");
}

#[test]
fn no_authority_is_asked_for_what_cannot_be_kept() {
    let settings = [
        format!("tls.listen='{}'", free()),
        "tls.acme.domains='shop.test'".to_owned(),
        "tls.acme.agree_to_terms=true".to_owned(),
        format!("tls.acme.directory='https://{}/dir'", free()),
        // Where nobody makes a file, root neither.
        "tls.acme.folder='/proc/self/fdinfo'".to_owned(),
        "pool.web.workers=1".to_owned(),
    ];
    let server = serve(&settings);
    let event = server.log.wait("no certificate from the authority", |_| true);
    let error = event["error"].as_str().unwrap();
    assert!(
        error.starts_with("writing in /proc/self/fdinfo (tls.acme.folder)"),
        "{error}"
    );
}
