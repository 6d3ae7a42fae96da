//! Cases about what outlives a request, or must not: two requests that the same worker answers, and ends after which nothing may be left.

use super::responses::names;
use super::{Case, Group, compare};

fn changing(run: &str) -> Case {
    Case::get(run, "/").line("X-Change: 1")
}

/// A request that changes something, and one that shows what is left of it.
fn pair(run: &str) -> Case {
    changing(run).then(Case::get(run, "/"))
}

fn upload(run: &str) -> Case {
    let body =
        "--XX\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\nuploaded\r\n--XX--\r\n";
    Case::post(run, "multipart/form-data; boundary=XX", body).line("X-Change: 1")
}

fn leaks() -> Vec<Case> {
    let mut names = names("leak");
    names.retain(|run| run != "leak/over" && run != "leak/input");
    let mut cases: Vec<Case> = names.iter().map(|run| pair(run)).collect();
    let form = Case::post("leak/input", "application/x-www-form-urlencoded", "a=1&b=2");
    cases.push(form.then(Case::get("leak/input", "/")));
    cases.push(upload("leak/input").then(Case::get("leak/input", "/")));
    // What one case changes shows in what another reads.
    for (change, show) in [
        ("leak/ini", "leak/ini_by_name"),
        ("leak/timezone", "header/cookies"),
        ("leak/multibyte", "output/bytes"),
        ("leak/session_settings", "session/none"),
        ("leak/session_variables", "session/none"),
        ("leak/handlers", "output/warning"),
        ("leak/umask", "file/default_mode"),
        ("leak/directory", "file/relative_paths"),
        ("exit/fiber_deep", "dump/state"),
        ("exit/buffer_callback", "dump/state"),
        ("exit/session_write", "dump/state"),
        ("error/memory_set_lower", "dump/state"),
        ("error/recursion", "dump/state"),
        ("order/all_and_fatal", "dump/state"),
        ("ending/finish", "dump/state"),
        ("buffer/implicit_flush", "buffer/sent_when_full"),
    ] {
        cases.push(changing(change).then(Case::get(show, "/")));
    }
    let visit = Case::get("leak/static_variable", "/");
    cases.push(visit.clone().then_times(20, visit));
    cases
}

fn files() -> Vec<Case> {
    let mut cases: Vec<Case> = ["tmpfile", "tmpfile_after_exit", "tmpfile_after_fatal", "tempnam"]
        .iter()
        .map(|name| pair(&format!("file/{name}")))
        .collect();
    for name in [
        "upload",
        "upload_then_exit",
        "upload_then_fatal",
        "upload_moved",
        "upload_copied",
    ] {
        let run = format!("file/{name}");
        cases.push(upload(&run).then(Case::get(&run, "/")));
    }
    let pairs = |run: &String| run.contains("upload") || run.contains("tmpfile") || run.contains("tempnam");
    let rest = names("file");
    cases.extend(
        rest.iter()
            .filter(|run| !pairs(run))
            .map(|run| Case::get(run, "/")),
    );
    cases
}

/// Each script of a file; errors shown.
fn shown(file: &str) -> Vec<Case> {
    let cases = names(file);
    cases.iter().map(|run| Case::get(run, "/").shown()).collect()
}

fn group(name: &'static str, cases: Vec<Case>) {
    compare(&Group {
        fresh: true,
        ..Group::new(name, cases)
    });
}

#[test]
fn nothing_of_a_request_is_left_for_the_next() {
    group("leaks", leaks());
}

#[test]
fn files_end_with_their_request_as_under_php_fpm() {
    group("files", files());
}

#[test]
fn what_follows_the_script_comes_in_the_order_of_php_fpm() {
    group("order", shown("order"));
}

#[test]
fn exit_ends_a_request_from_each_place_as_under_php_fpm() {
    group("exit", shown("exit"));
}

#[test]
fn output_buffers_do_what_they_do_under_php_fpm() {
    let mut cases = shown("buffer");
    cases.push(Case::get("buffer/gzip_by_ini", "/").line("Accept-Encoding: gzip"));
    group("buffers", cases);
}

#[test]
fn errors_end_a_request_as_under_php_fpm() {
    let mut cases = shown("error");
    cases.extend(names("error").iter().map(|run| Case::get(run, "/")));
    group("errors", cases);
}

#[test]
fn save_handlers_of_sessions_are_called_as_under_php_fpm() {
    group("handlers", shown("handler"));
}

#[test]
fn time_limits_end_a_request_as_under_php_fpm() {
    let mut cases = shown("limit");
    cases.retain(|case| !case.name().starts_with("limit/after"));
    cases[0] = cases[0].clone().then(Case::get("limit/after", "/"));
    group("limits", cases);
}
