//! The differences between Hearth and nginx + php-fpm that are permitted, in each mode: all that are not in every answer (those
//! are left out in `answer.rs`). Their reasons are in `docs/parity.md`, which has a row for each.

use super::Mode::{self, Classic, FastCgiResident, Forked, Isolated, NoIsolation, Once};

const ALL: &[Mode] = Mode::ALL;
const RESIDENT: &[Mode] = &[Isolated, Forked, Once, NoIsolation, FastCgiResident];

const NO_ISOLATION: &[Mode] = &[NoIsolation];

/// Without isolation: what a request changes in these is seen by the next.
const LEFT: &[&str] = &[
    "header/length GET / (gzip), then",
    "leak/after_exit ",
    "leak/after_throw ",
    "leak/autoloader ",
    "leak/class_constant_of_constant ",
    "leak/constant ",
    "leak/declarations ",
    "leak/descriptors ",
    "leak/environment ",
    "leak/global ",
    "leak/include_path ",
    "leak/ini ",
    "leak/ini_by_name ",
    "leak/intl_locale ",
    "leak/last_errors ",
    "leak/libxml ",
    "leak/locale ",
    "leak/multibyte ",
    "leak/numbers ",
    "leak/objects ",
    "leak/scale_and_token ",
    "leak/session_handler ",
    "leak/session_settings ",
    "leak/sqlite ",
    "leak/static_property ",
    "leak/static_variable ",
    "leak/stream_wrappers ",
    "leak/timezone ",
];

/// Without isolation: these objects live as long as the worker.
const DESTROYED_LATE: &[&str] = &[
    "error/fatal_in_destructor_at_end ",
    "error/throw_in_destructor_at_end ",
    "error/throw_in_two_destructors ",
    "exit/destructor_at_end ",
    "exit/shutdown_then_destructor ",
    "limit/in_destructor ",
    "order/all ",
    "order/all_and_exit ",
    "order/all_and_throw ",
    "order/destructor_",
    "order/fiber_suspended ",
    "order/generator_finally ",
    "order/objects_",
];

struct Permitted {
    modes: &'static [Mode],
    /// Starts of names of cases.
    cases: &'static [&'static str],
    /// Names of headers, first words of lines of the body, or one of `status`, `trace`, `body`.
    what: &'static [&'static str],
    /// The row of `docs/parity.md`.
    row: &'static str,
}

const PERMITTED: &[Permitted] = &[
    Permitted {
        modes: ALL,
        cases: &["dump/all GET / (repeated"],
        what: &[
            "server.HTTP_X_TWICE",
            "headers.X-Twice",
            "server.HTTP_ACCEPT",
            "headers.Accept",
        ],
        row: "a header sent twice",
    },
    Permitted {
        modes: ALL,
        cases: &["dump/all GET / (forwarded)"],
        what: &["server.HTTP_X_FORWARDED_FOR", "headers.X-Forwarded-For"],
        row: "a header sent twice",
    },
    Permitted {
        modes: ALL,
        cases: &["dump/all GET / (two cookie headers)"],
        what: &["server.HTTP_COOKIE", "headers.Cookie", "cookie.a"],
        row: "a header sent twice",
    },
    Permitted {
        modes: ALL,
        cases: &["dump/all GET / (HTTP/1.0) (no host)", "dump/all GET / (host "],
        what: &["server.SERVER_NAME"],
        row: "`SERVER_NAME`",
    },
    Permitted {
        modes: ALL,
        cases: &[
            "dump/all GET / (HTTP/1.0) (no host)",
            "dump/all GET / (host in capitals)",
        ],
        what: &["server.HTTP_HOST", "headers.Host", "headers"],
        row: "`HTTP_HOST`",
    },
    Permitted {
        modes: ALL,
        cases: &["dump/all GET /sub"],
        what: &["location"],
        row: "`Location` of a folder without its slash",
    },
    Permitted {
        modes: ALL,
        cases: &["header/no_colon "],
        what: &["nonsense"],
        row: "a line without a colon, `header('Nonsense')`",
    },
    Permitted {
        modes: ALL,
        cases: &[
            "header/replace HEAD",
            "output/large HEAD",
            "ending/exit_text HEAD",
            "header/type_json HEAD",
        ],
        what: &["content-length"],
        row: "what `HEAD` has for a length",
    },
    Permitted {
        modes: ALL,
        cases: &["order/header_callback_prints "],
        what: &["body"],
        row: "output of a callback of `header_register_callback()`",
    },
    Permitted {
        modes: RESIDENT,
        cases: &[""],
        what: &["trace"],
        row: "stack traces",
    },
    Permitted {
        modes: RESIDENT,
        cases: &[
            "file/relative_paths ",
            "file/include_relative ",
            "file/directory_in_shutdown ",
            "leak/directory ",
        ],
        what: &["body"],
        row: "working directory",
    },
    Permitted {
        modes: RESIDENT,
        cases: &["leak/include_once "],
        what: &["body"],
        row: "`get_included_files()`",
    },
    Permitted {
        modes: &[Isolated, Forked, Once, FastCgiResident],
        cases: &["leak/last_error_of_posix ", "leak/text_domain "],
        what: &["body"],
        row: "`posix_get_last_error()`, `textdomain()`",
    },
    Permitted {
        modes: &[Isolated, Forked, Once, FastCgiResident],
        cases: &["leak/worker "],
        what: &["body"],
        row: "`getmypid()`",
    },
    Permitted {
        modes: NO_ISOLATION,
        cases: LEFT,
        what: &["body", "content-type", "content-encoding", "vary"],
        row: "classes, functions, statics, globals, `ini_set()`, `putenv()`, error and exception handlers",
    },
    Permitted {
        modes: NO_ISOLATION,
        cases: DESTROYED_LATE,
        what: &["body", "status", "x-destructor"],
        row: "destructors of what globals and statics hold",
    },
];

/// What of an answer must be equal.
pub(super) fn strip(answer: &str, case: &str, mode: Mode) -> String {
    let what: Vec<&str> = PERMITTED
        .iter()
        .filter(|permitted| permitted.modes.contains(&mode))
        .filter(|permitted| permitted.cases.iter().any(|start| case.starts_with(start)))
        .flat_map(|permitted| permitted.what)
        .copied()
        .collect();
    let mut in_trace = false;
    let kept = answer.lines().filter(|line| {
        let body = line
            .strip_prefix('|')
            .map(|rest| rest.strip_prefix(' ').unwrap_or(rest));
        in_trace = body.is_some_and(|body| body.starts_with("#0 ") || in_trace && body.starts_with('#'));
        let name = match body {
            Some(_) if in_trace && what.contains(&"trace") => return false,
            Some(_) if what.contains(&"body") => return false,
            Some(body) => body.split(' ').next(),
            None if line.starts_with("< ") => Some("status"),
            None => line.split(':').next(),
        };
        !name.is_some_and(|name| what.contains(&name))
    });
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// Nothing of this case is permitted to differ, in classic mode.
pub(super) fn nothing(case: &str) -> bool {
    !PERMITTED.iter().any(|permitted| {
        permitted.modes.contains(&Classic) && permitted.cases.iter().any(|start| case.starts_with(start))
    })
}

#[test]
fn each_permitted_difference_has_its_reason_in_the_documentation() {
    let page = include_str!("../../../../../docs/parity.md");
    for permitted in PERMITTED {
        assert!(
            page.contains(&format!("\n| {} |", permitted.row)),
            "docs/parity.md: no row {:?}",
            permitted.row
        );
    }
}
