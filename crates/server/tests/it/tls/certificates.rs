//! Certificates, made by openssl.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::harness::Folder;

/// What `openssl req` is told to make a key, and to sign with it.
const ELLIPTIC: &[&str] = &[
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
];
const RSA: &[&str] = &["-newkey", "rsa:2048", "-nodes"];
const OF_ITSELF: [&str; 3] = ["-x509", "-days", "2"];

/// Certificates of a test.
pub(crate) struct Certificates {
    folder: Folder,
    new_key: &'static [&'static str],
}

impl Certificates {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            folder: Folder::new(name),
            new_key: ELLIPTIC,
        }
    }

    /// The same with keys of RSA.
    pub(super) fn of_rsa(name: &str) -> Self {
        Self {
            new_key: RSA,
            ..Self::new(name)
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    pub(crate) fn openssl(&self, arguments: &[&str]) -> String {
        let (is_well, text) = self.try_openssl(arguments, b"");
        assert!(is_well, "openssl {arguments:?}: {text}");
        text
    }

    /// What openssl says, and whether it is content.
    pub(super) fn try_openssl(&self, arguments: &[&str], input: &[u8]) -> (bool, String) {
        let mut child = Command::new("openssl")
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("running openssl");
        // It may have ended by then.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    /// `NAME.pem` and `NAME.key`, for the host `NAME`.
    pub(crate) fn make(&self, name: &str) {
        let (pem, key) = (format!("{name}.pem"), format!("{name}.key"));
        let (subject, names) = (
            format!("/CN={name}"),
            format!("subjectAltName=DNS:{name},DNS:*.{name}"),
        );
        self.sign(
            &[&OF_ITSELF[..], &["-subj", &subject, "-addext", &names]].concat(),
            (&key, &pem),
        );
    }

    /// Has `openssl req` make a key and what goes with it.
    fn sign(&self, asked: &[&str], (key, out): (&str, &str)) {
        self.openssl(&[&["req"], self.new_key, asked, &["-keyout", key, "-out", out]].concat());
    }

    /// An authority of this subject: `ca.pem`, `ca.key`.
    pub(crate) fn make_authority(&self, subject: &str) {
        let usage = "keyUsage=critical,keyCertSign,cRLSign";
        self.sign(
            &[&OF_ITSELF[..], &["-subj", subject, "-addext", usage]].concat(),
            ("ca.key", "ca.pem"),
        );
    }

    /// `NAME.pem` and `NAME.key`, of that authority; `extensions` are lines of openssl's settings.
    pub(super) fn issue(&self, name: &str, subject: &str, serial: &str, extensions: &str) {
        let [pem, key, request, settings] =
            ["pem", "key", "csr", "ext"].map(|ending| format!("{name}.{ending}"));
        self.sign(&["-subj", subject], (&key, &request));
        fs::write(self.path(&settings), extensions).unwrap();
        let authority = ["-CA", "ca.pem", "-CAkey", "ca.key", "-days", "90"];
        let wanted = [
            "-in",
            &request,
            "-set_serial",
            serial,
            "-extfile",
            &settings,
            "-out",
            &pem,
        ];
        self.openssl(&[&["x509", "-req"], &authority[..], &wanted].concat());
    }

    /// As [`Self::issue`], for the host `NAME` and 127.0.0.1.
    pub(crate) fn issue_for_host(&self, name: &str, serial: &str) {
        let extensions = format!(
            "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n\
             subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\nsubjectAltName=DNS:{name},IP:127.0.0.1\n\
             crlDistributionPoints=URI:http://crl.{name}/ca.crl\n"
        );
        self.issue(name, &format!("/CN={name}"), serial, &extensions);
    }

    pub(crate) fn settings(&self, names: &[&str]) -> Vec<String> {
        let list = |ending: &str| {
            let all = names
                .iter()
                .map(|name| format!("'{}'", self.path(&format!("{name}.{ending}")).display()));
            all.collect::<Vec<_>>().join(",")
        };
        vec![
            "tls.listen='127.0.0.1:0'".to_owned(),
            format!("tls.certificates=[{}]", list("pem")),
            format!("tls.keys=[{}]", list("key")),
            "pool.web.workers=2".to_owned(),
        ]
    }
}
