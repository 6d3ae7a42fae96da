//! requests and httpx of Python, each driven by a script of its own; what they check is in `checks.py`.

use std::path::Path;
use std::process::Command;

use super::Site;

/// Debian's, for which the packages are.
pub(super) const PYTHON: &str = "/usr/bin/python3";

/// A script beside this file.
pub(super) fn script(name: &str) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients");
    let mut command = Command::new(PYTHON);
    // Nothing is written into the sources.
    command.arg("-B").arg(path.join(name));
    command
}

fn run(name: &str, arguments: &[&str]) {
    let output = script(name).args(arguments).output().expect("running python3");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {complaint}");
}

#[test]
fn requests_is_served() {
    Site::in_each_mode(|site| {
        let folder = site.folder.path().to_str().unwrap();
        run("with_requests.py", &[&site.clear(), folder]);
        run(
            "with_requests.py",
            &[&site.encrypted(), folder, &site.authority()],
        );
    });
}

#[test]
fn httpx_is_served_over_each_version() {
    Site::in_each_mode(|site| {
        let folder = site.folder.path().to_str().unwrap();
        for version in ["1.1", "2"] {
            run("with_httpx.py", &[version, &site.clear(), folder]);
            let encrypted = site.encrypted();
            run("with_httpx.py", &[version, &encrypted, folder, &site.authority()]);
        }
    });
}
