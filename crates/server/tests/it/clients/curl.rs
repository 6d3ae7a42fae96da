//! curl, with what scripts use it for.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Site;
use crate::bodies::sha256;

/// How each version is asked for, in the clear and over TLS, and what PHP sees then.
const VERSIONS: [(&str, &str, &str); 2] = [
    ("--http1.1", "--http1.1", "HTTP/1.1"),
    ("--http2-prior-knowledge", "--http2", "HTTP/2.0"),
];

/// One way to ask a site.
struct Curl<'a> {
    site: &'a Site,
    base: String,
    version: &'static str,
    protocol: &'static str,
}

impl Curl<'_> {
    fn in_each_way(test: impl Fn(&Curl<'_>)) {
        Site::in_each_mode(|site| {
            for (clear, encrypted, protocol) in VERSIONS {
                for (base, version) in [(site.clear(), clear), (site.encrypted(), encrypted)] {
                    test(&Curl {
                        site,
                        base,
                        version,
                        protocol,
                    });
                }
            }
        });
    }

    /// Whether curl may use a connection for a second request. curl 7.88 breaks those of prior knowledge then ("Fix for http2-prior-knowledge
    /// when reusing connections", curl 8.0.0).
    fn keeps_connections(&self) -> bool {
        self.version != "--http2-prior-knowledge"
    }

    fn run(&self, arguments: &[&str], targets: &[&str]) -> String {
        self.run_with(Stdio::null(), arguments, targets)
    }

    fn run_with(&self, input: Stdio, arguments: &[&str], targets: &[&str]) -> String {
        let output = Command::new("curl")
            .args(["-sS", "--fail", "--max-time", "60"])
            .args(["--cacert", &self.site.authority(), self.version])
            .args(arguments)
            .args(targets.iter().map(|target| [&self.base, *target].concat()))
            .current_dir(self.site.folder.path())
            .stdin(input)
            .output()
            .expect("running curl");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "curl {} {arguments:?}: {complaint}",
            self.version
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// What came of it, which a redirect may have led to `/echo`.
    fn echo(&self, arguments: &[&str], target: &str) -> Value {
        self.came(&self.run(arguments, &[target]))
    }

    fn came(&self, text: &str) -> Value {
        let came: Value = serde_json::from_str(text).unwrap();
        assert_eq!(came["protocol"], self.protocol);
        assert_eq!(came["secure"], self.base.starts_with("https:"));
        came
    }
}

#[test]
fn curl_sends_forms_files_and_streams() {
    Curl::in_each_way(|curl| {
        let content: Vec<u8> = (0..350_000_u32).flat_map(u32::to_le_bytes).collect();
        fs::write(curl.site.folder.file("big.bin"), &content).unwrap();
        let came = curl.echo(&["--data-urlencode", "name=Ada & Bob"], "/echo");
        assert_eq!(
            (&came["method"], &came["fields"]["name"]),
            (&"POST".into(), &"Ada & Bob".into())
        );
        let came = curl.echo(
            &["-F", "field=value", "-F", "file=@big.bin;type=image/png"],
            "/echo",
        );
        let file = &came["files"]["file"];
        assert_eq!(
            (&came["fields"]["field"], &file["type"]),
            (&"value".into(), &"image/png".into())
        );
        assert_eq!(file["sha256"], sha256(&content, 1));
        // With a length, and from a pipe without one.
        for source in ["big.bin", "-"] {
            let input = fs::File::open(curl.site.folder.file("big.bin")).unwrap();
            let came = curl.came(&curl.run_with(input.into(), &["-T", source], &["/echo"]));
            assert_eq!(came["method"], "PUT");
            assert_eq!(came["sha256"], sha256(&content, 1), "{source}");
        }
    });
}

#[test]
fn curl_keeps_cookies_follows_redirects_and_unpacks() {
    Curl::in_each_way(|curl| {
        let jar = ["-c", "jar", "-b", "jar"];
        for count in 1..=3 {
            assert_eq!(curl.run(&jar, &["/count"]), format!("{{\"count\":{count}}}"));
        }
        fs::remove_file(curl.site.folder.file("jar")).unwrap();
        for (status, method) in [(302, "GET"), (307, "POST")] {
            if !curl.keeps_connections() {
                break;
            }
            let came = curl.echo(&["-L", "-d", "a=b"], &format!("/leave?status={status}"));
            assert_eq!(came["method"], method);
            assert_eq!(came["query"]["from"], status.to_string());
        }
        let plain = curl.run(&[], &["/text"]);
        assert!(plain.ends_with("line 4999 of a text that is worth compressing\n"));
        for coding in ["gzip", "br", "zstd"] {
            let wanted = format!("Accept-Encoding: {coding}");
            let text = curl.run(
                &[
                    "--compressed",
                    "-H",
                    &wanted,
                    "-w",
                    "%{size_download} %header{content-encoding}",
                ],
                &["/text"],
            );
            let (text, said) = text.split_at(plain.len());
            assert!(text == plain, "{coding}");
            let (size, coded) = said.split_once(' ').unwrap();
            assert_eq!(coded, coding);
            assert!(
                size.parse::<usize>().unwrap() < plain.len() / 4,
                "{coding}: {size}"
            );
        }
    });
}

#[test]
fn curl_asks_many_at_once() {
    Curl::in_each_way(|curl| {
        if !curl.keeps_connections() {
            return;
        }
        let text = curl.run(
            &[
                "-Z",
                "--parallel-max",
                "50",
                "-o",
                "out-#1",
                "-w",
                "%{http_code} %{num_connects}\n",
            ],
            &["/echo?n=[1-300]"],
        );
        let all: Vec<(&str, u32)> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(status, connections)| (status, connections.parse().unwrap()))
            .collect();
        assert_eq!(
            all.iter().filter(|(status, _)| *status == "200").count(),
            300,
            "{text}"
        );
        for number in 1..=300 {
            let out = fs::read(curl.site.folder.file(&format!("out-{number}"))).unwrap();
            let came: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(came["query"]["n"], number.to_string());
        }
        let connections: u32 = all.iter().map(|(_, connections)| connections).sum();
        assert!(connections <= 50, "{connections}");
    });
}
