//! Certificates and settings that change while clients ask: no request fails, kept connections go on, and what is new holds.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use super::{Site, python};
use crate::harness::{Folder, Log};

/// How often it changes.
const TIMES: u32 = 4;

/// Clients that ask on and on, see `keep_asking.py`.
struct Asking {
    child: Child,
    /// A file with the number that is reached.
    last: PathBuf,
}

impl Asking {
    fn start(site: &Site, check: &str, bases: &[String]) -> Self {
        let last = site.folder.write("last", "1");
        let mut child = python::script("keep_asking.py")
            .arg(check)
            .arg(&last)
            .arg(site.authority())
            .args(bases)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("running python3");
        let log = Log::default();
        drop(log.follow(child.stdout.take().unwrap()));
        log.wait_for_line("asking");
        Self { child, last }
    }

    /// Nothing older is to be seen from now on.
    fn reached(&self, number: u32) {
        let new = self.last.with_extension("new");
        fs::write(&new, number.to_string()).unwrap();
        fs::rename(new, &self.last).unwrap();
    }

    /// Ends the clients, of which no request may have failed.
    fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "requests failed, see above");
    }
}

#[test]
fn certificates_change_under_clients() {
    let site = Site::start(&[
        "pool.web.mode=classic",
        "pool.web.script=public/index.php",
        "log.access=false",
    ]);
    let asking = Asking::start(&site, "certificates", &[site.encrypted()]);
    for number in 2..=TIMES {
        site.certificates.issue_for_host("shop.test", &number.to_string());
        let times = usize::try_from(number - 1).unwrap();
        let loaded = "certificates loaded anew: their files have changed";
        site.server.log.wait_for_count(loaded, times);
        asking.reached(number);
    }
    asking.end();
}

/// An application whose answer, its header and its compression tell of the settings with this number.
fn write_settings(folder: &Folder, number: u32) {
    let algorithms = if number % 2 == 1 { "\"gzip\"" } else { "" };
    folder.write(
        "hearth.toml",
        &format!(
            "[compression]\nalgorithms = [{algorithms}]\n[pool.web.ini]\nuser_agent = \"{number}\"\n\
             [[pool.web.rules]]\npath = \"*\"\nheaders = {{ X-Release = \"{number}\" }}\n"
        ),
    );
}

#[test]
fn settings_change_under_clients() {
    for mode in ["classic", "resident"] {
        let folder = Folder::with(
            "clients-app",
            &[
                ("respond.php", include_str!("respond.php")),
                ("worker.php", include_str!("worker.php")),
                ("public/index.php", include_str!("public/index.php")),
            ],
        );
        write_settings(&folder, 1);
        let script = if mode == "classic" {
            "public/index.php"
        } else {
            "worker.php"
        };
        let settings = [
            format!("pool.web.mode={mode}"),
            format!("pool.web.script={script}"),
            "log.access=false".to_owned(),
            "pool.web.boot_timeout='60 s'".to_owned(),
        ];
        let site = Site::of(&folder.app(), &settings.each_ref().map(String::as_str));
        let asking = Asking::start(&site, "releases", &[site.clear(), site.encrypted()]);
        for number in 2..=TIMES {
            write_settings(&folder, number);
            site.server.ask(&["reload"]);
            asking.reached(number);
        }
        asking.end();
    }
}
