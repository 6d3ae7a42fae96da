//! ab, wrk and h2load: none of their requests fails, and the server has counted as many as they have.

use std::path::Path;
use std::process::Command;

use super::Site;

const REQUESTS: u64 = 1000;
const CLIENTS: u64 = 8;

/// What a program of these prints, once it has ended well.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("running {program}: {error}"));
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

/// The number behind `label`.
fn number(text: &str, label: &str) -> u64 {
    let rest = text
        .split_once(label)
        .unwrap_or_else(|| panic!("no {label:?}: {text}"))
        .1;
    let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next();
    digits
        .unwrap()
        .parse()
        .unwrap_or_else(|_| panic!("{label}: {text}"))
}

impl Site {
    /// Requests that workers have finished. They say so a moment after the answer.
    fn served(&self, at_least: u64) -> u64 {
        loop {
            let status = self.server.status();
            let served = status["pools"][0]["totals"]["requests"].as_u64().unwrap();
            if served >= at_least {
                return served;
            }
        }
    }

    /// Does something that makes [`REQUESTS`] requests, and holds it to that.
    fn count(&self, load: impl FnOnce()) {
        let before = self.served(0);
        load();
        assert_eq!(self.served(before + REQUESTS), before + REQUESTS);
    }
}

#[test]
fn apache_bench_has_no_failed_request() {
    Site::in_each_mode(|site| {
        let body = site.folder.write("body", "name=Ada");
        let form = [
            "-p",
            body.to_str().unwrap(),
            "-T",
            "application/x-www-form-urlencoded",
        ];
        let (requests, clients) = (REQUESTS.to_string(), CLIENTS.to_string());
        for base in [site.clear(), site.encrypted()] {
            for (is_kept, method) in [(true, &[][..]), (true, &form), (false, &[])] {
                let mut arguments = vec!["-q", "-n", &requests, "-c", &clients];
                arguments.extend(method);
                arguments.extend(is_kept.then_some("-k"));
                let url = format!("{base}/hello");
                arguments.push(&url);
                site.count(|| {
                    let text = run("ab", &arguments);
                    assert_eq!(number(&text, "Complete requests:"), REQUESTS);
                    assert_eq!(number(&text, "Failed requests:"), 0, "{text}");
                    assert!(!text.contains("Non-2xx responses"), "{text}");
                    assert_eq!(number(&text, "HTML transferred:"), REQUESTS * 5, "{text}");
                    if is_kept {
                        assert_eq!(number(&text, "Keep-Alive requests:"), REQUESTS, "{text}");
                    }
                });
            }
        }
    });
}

#[test]
fn wrk_has_no_failed_request() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/count.lua");
    let clients = CLIENTS.to_string();
    Site::in_each_mode(|site| {
        for base in [site.clear(), site.encrypted()] {
            let url = format!("{base}/hello");
            let before = site.served(0);
            let arguments = [
                "-d",
                "1s",
                "-t",
                "2",
                "-c",
                &clients,
                "-s",
                script.to_str().unwrap(),
                &url,
            ];
            let text = run("wrk", &arguments);
            assert!(text.contains("\nfailed 0\n"), "{text}");
            let requests = number(&text, "\nrequests ");
            assert!(requests > CLIENTS, "{text}");
            // At its end it leaves, with a request under way on each connection.
            let served = site.served(before + requests) - before;
            assert!(served <= requests + CLIENTS, "{served}: {text}");
        }
    });
}

#[test]
fn h2load_has_no_failed_request() {
    Site::in_each_mode(|site| {
        let body = site.folder.write("body", "name=Ada");
        let form = ["-d", body.to_str().unwrap()];
        let requests = REQUESTS.to_string();
        for base in [site.clear(), site.encrypted()] {
            for (version, protocol) in [
                (&["--h1"][..], "http/1.1"),
                (
                    &["-m", "16"],
                    if base.starts_with("https:") { "h2" } else { "h2c" },
                ),
            ] {
                for method in [&[][..], &form] {
                    let url = format!("{base}/hello");
                    let all = [&["-n", &requests, "-c", "4"], version, method, &[&url]].concat();
                    site.count(|| {
                        let text = run("h2load", &all);
                        assert!(text.contains(&format!("Application protocol: {protocol}\n")), "{text}");
                        let counts = format!(
                            "requests: {REQUESTS} total, {REQUESTS} started, {REQUESTS} done, {REQUESTS} succeeded, \
                             0 failed, 0 errored, 0 timeout"
                        );
                        assert!(text.contains(&counts), "{text}");
                        let statuses = format!("status codes: {REQUESTS} 2xx, 0 3xx, 0 4xx, 0 5xx");
                        assert!(text.contains(&statuses), "{text}");
                    });
                }
            }
        }
    });
}
