//! Processes that a script forks are no workers. The script is in `children/`.

use std::path::Path;

use crate::harness::{App, Server};

#[test]
fn a_child_of_a_script_ends_with_its_request_and_says_nothing() {
    let app = App::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/children"));
    let ways: [&[&str]; 4] = [
        &["pool.web.mode=classic"],
        &["pool.web.mode=resident", "pool.web.isolation=none"],
        &["pool.web.mode=resident", "pool.web.isolation_method=auto"],
        &["pool.web.mode=resident", "pool.web.isolation_method=fork"],
    ];
    for way in ways {
        let common = [
            "pool.web.script=worker.php",
            "pool.web.workers=1",
            "pool.web.warmup=none",
            "pool.web.ini.ffi.enable=\"true\"",
        ];
        let settings: Vec<&str> = way.iter().copied().chain(common).collect();
        let server = Server::start(&app, &settings);
        for _ in 0..3 {
            for (query, code) in [("", 0), ("?exit", 7), ("?flush", 0), ("?flush&exit", 7)] {
                let answer = server.get(&format!("/{query}"));
                assert_eq!(
                    answer.text(),
                    format!("before, the child ended with {code} 0"),
                    "{way:?} {query}"
                );
            }
        }
        assert_eq!(
            server.log.count("worker ready"),
            1,
            "{way:?}: a worker was replaced"
        );
    }
}
