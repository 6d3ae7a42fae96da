//! Scripts whose every trace in the response is compared. Their names say what they do; see `scripts/cases/`.

use super::Case;

/// Cases of one file of scripts, by the names of its functions.
pub(super) fn names(file: &str) -> Vec<String> {
    let path = format!("{}/tests/it/scripts/cases/{file}.php", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let keys = text
        .lines()
        .filter_map(|line| line.strip_prefix("    '")?.split_once("' => static"));
    keys.map(|(name, _)| format!("{file}/{name}")).collect()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for file in ["header", "output", "ending"] {
        let names = names(file);
        assert!(names.len() > 10, "{file}: {names:?}");
        cases.extend(names.iter().map(|run| Case::get(run, "/")));
    }
    for run in ["header/location", "header/code_201", "header/location_301"] {
        cases.push(Case::post(run, "text/plain", "x"));
        cases.push(Case::get(run, "/").version("HTTP/1.0"));
    }
    for run in [
        "header/replace",
        "header/length",
        "header/length_head",
        "output/large",
        "ending/exit_text",
        "header/type_json",
    ] {
        cases.push(Case::new(run, "HEAD", "/"));
    }
    for run in [
        "output/warning",
        "output/deprecated",
        "ending/fatal",
        "ending/fatal_after_output",
        "ending/throw",
        "ending/memory",
        "ending/parse_error",
        "ending/type_error",
        "ending/missing_require",
        "ending/user_error",
        "ending/throw_after_output",
        "ending/shutdown_throws",
        "ending/throw_after_status",
        "ending/undefined_function",
        "header/newline",
    ] {
        cases.push(Case::get(run, "/").shown());
    }
    cases.push(
        Case::get("output/zlib", "/")
            .line("Accept-Encoding: gzip")
            .named("gzip"),
    );
    cases.push(
        Case::get("header/own", "/")
            .line("If-None-Match: W/\"weak\"")
            .line("If-Modified-Since: Tue, 15 Nov 1994 12:45:26 GMT")
            .named("conditions"),
    );
    cases.push(
        Case::get("header/length", "/")
            .line("Range: bytes=1-2")
            .named("range"),
    );
    cases.extend(sessions());
    cases
}

fn sessions() -> Vec<Case> {
    let with = |run: &str, id: &str| {
        Case::get(run, "/")
            .line(&format!("Cookie: PHPSESSID={id}"))
            .named(id)
    };
    // A session lives from one to the next.
    let life = [
        "count",
        "count",
        "count",
        "look",
        "exit",
        "look",
        "fatal",
        "look",
        "twice",
        "destroy",
        "look",
        "after_output",
    ];
    let life = life.iter().fold(with("session/none", "abc"), |case, name| {
        case.then(with(&format!("session/{name}"), "abc"))
    });
    vec![
        Case::get("session/given_id", "/"),
        Case::get("session/none", "/"),
        life,
        with("session/count", "other").then(with("session/look", "another")),
        with("session/count", "../../x").named("an id that is none"),
        Case::get("session/public", "/"),
        Case::get("session/params", "/"),
        with("session/none", "abc"),
    ]
}
