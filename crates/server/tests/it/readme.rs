//! What README.md shows is so.

use std::fs;
use std::path::Path;

use crate::harness::{Folder, Server};

/// The file that the section makes, by its here-document.
fn script_of(section: &str) -> String {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let (_, section) = readme.split_once(section).unwrap();
    let (_, script) = section.split_once("<<'PHP'\n").unwrap();
    script.split_once("\nPHP\n").unwrap().0.to_owned()
}

#[test]
fn what_a_request_leaves_is_gone_with_isolation_and_stays_without() {
    let folder = Folder::with(
        "readme",
        &[("worker.php", &script_of("**Leave something behind.**"))],
    );
    for (isolation, expected) in [("request", ["1", "1", "1"]), ("none", ["1", "2", "3"])] {
        let settings = [
            "pool.web.mode=resident",
            "pool.web.script=worker.php",
            "pool.web.workers=1",
            &format!("pool.web.isolation={isolation}"),
        ];
        let server = Server::start(&folder.app(), &settings);
        let visits = expected.map(|_| server.get("/").text());
        assert_eq!(
            visits,
            expected.map(|visit| format!("Visit {visit}\n")),
            "{isolation}"
        );
    }
}
