//! Files that are sent with a form, and what becomes of them where PHP has no room for temporary files.

use super::{Case, Group, compare};

pub(super) const FORM: &str = "application/x-www-form-urlencoded";
pub(super) const MULTIPART: &str = "multipart/form-data; boundary=XX";

/// A part of a multipart body: its head behind the disposition's `form-data`, and its bytes.
pub(super) fn part(head: &str, bytes: &str) -> String {
    format!("--XX\r\nContent-Disposition: form-data; {head}\r\n\r\n{bytes}\r\n")
}

pub(super) fn file(name: &str, filename: &str, bytes: &str) -> String {
    part(
        &format!("name=\"{name}\"; filename=\"{filename}\"\r\nContent-Type: text/x-parity"),
        bytes,
    )
}

fn post(name: &str, parts: &[String]) -> Case {
    let body = format!("{}--XX--\r\n", parts.concat());
    Case::post("dump/all", MULTIPART, body).named(name)
}

#[expect(clippy::too_many_lines, reason = "a list")]
pub(super) fn cases() -> Vec<Case> {
    let big = "b".repeat(70_000);
    let files = |count: usize| {
        (0..count)
            .map(|n| file(&format!("f{n}"), "n.txt", "x"))
            .collect::<Vec<_>>()
    };
    let fields = |count: usize| {
        (0..count)
            .map(|n| part(&format!("name=v{n}"), "x"))
            .collect::<Vec<_>>()
    };
    let odd_names = [
        "../../etc/passwd",
        "C:\\dir\\a.txt",
        "dir/b.txt",
        "a\\\"b.txt",
        "caf\u{e9}.txt",
        "a;b.txt",
        " c ",
        "d%20e",
    ];
    vec![
        post(
            "field and file",
            &[part("name=\"a\"", "1"), file("f", "a.txt", "content")],
        ),
        post(
            "arrays",
            &[
                file("f[]", "a", "1"),
                file("f[]", "b", "2"),
                file("g[x][y]", "c", "3"),
                part("name=\"h[]\"", "4"),
            ],
        ),
        post(
            "no file chosen",
            &[part(
                "name=\"f\"; filename=\"\"\r\nContent-Type: application/octet-stream",
                "",
            )],
        ),
        post("empty file", &[file("f", "empty.txt", "")]),
        post(
            "too large a file",
            &[file("f", "big.txt", &big), part("name=a", "after")],
        ),
        post(
            "MAX_FILE_SIZE",
            &[
                part("name=\"MAX_FILE_SIZE\"", "3"),
                file("f", "a.txt", "12345"),
                file("g", "b.txt", "12"),
            ],
        ),
        post("too many files", &files(6)),
        post("too many fields", &fields(60)),
        post("odd names", &odd_names.map(|name| file("f[]", name, "x"))),
        post(
            "no quotes",
            &[part("name=a; filename=b.txt", "x"), part("name=c", "d")],
        ),
        post("single quotes", &[part("name='a'; filename='b c.txt'", "x")]),
        post(
            "extended name",
            &[part("name=\"f\"; filename=\"a\"; filename*=UTF-8''%C3%A9", "x")],
        ),
        post(
            "no name",
            &[part("filename=\"a.txt\"", "x"), "--XX\r\n\r\nbare\r\n".to_owned()],
        ),
        post(
            "same name twice",
            &[file("f", "a", "1"), file("f", "b", "22"), part("name=f", "3")],
        ),
        post(
            "brackets",
            &[
                part("name=\"a[b\"", "1"),
                file("f[", "x", "1"),
                file("g]", "y", "2"),
                file("h[]x", "z", "3"),
            ],
        ),
        post(
            "dots and spaces",
            &[part("name=\"a.b c\"", "1"), file("f.g h", "x", "1")],
        ),
        post(
            "part headers",
            &[part(
                "name=a\r\nX-Other: y\r\nContent-Type: text/plain; charset=utf-8",
                "1",
            )],
        ),
        post("nothing", &[]),
        post(
            "beyond post_max_size",
            &(0..5).map(|_| file("f[]", "x", &big)).collect::<Vec<_>>(),
        ),
        Case::post("dump/all", MULTIPART, format!("{}--XX", file("f", "a", "12345"))).named("no end"),
        Case::post(
            "dump/all",
            MULTIPART,
            "--XX\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\nxxx",
        )
        .named("cut off"),
        Case::post("dump/all", MULTIPART, "nonsense").named("nonsense"),
        Case::post("dump/all", "multipart/form-data", part("name=a", "1")).named("no boundary"),
        Case::post("dump/all", "multipart/form-data", part("name=a", "1"))
            .named("no boundary")
            .shown(),
        Case::post(
            "dump/all",
            "multipart/form-data; boundary=\"XX\"; charset=x",
            format!("{}--XX--\r\n", file("f", "a", "1")),
        ),
        Case::post(
            "dump/all",
            "multipart/form-data; boundary=XX, other",
            format!("{}--XX--\r\n", file("f", "a", "1")),
        ),
        Case::post(
            "dump/all",
            "multipart/mixed; boundary=XX",
            format!("{}--XX--\r\n", file("f", "a", "1")),
        ),
        Case::post(
            "dump/move",
            MULTIPART,
            format!("{}--XX--\r\n", file("f", "a", "moved")),
        ),
        Case::new("dump/all", "PUT", "/m")
            .line(&format!("Content-Type: {MULTIPART}"))
            .named("multipart")
            .with_body(format!("{}--XX--\r\n", file("f", "a", "1"))),
    ]
}

/// What PHP keeps in temporary files: uploads, and bodies of more than 16 KiB.
fn kept() -> Vec<Case> {
    let large = "c".repeat(50_000);
    vec![
        post(
            "between fields",
            &[
                part("name=a", "1"),
                file("f", "a.txt", "content"),
                part("name=b", "2"),
            ],
        ),
        post(
            "several",
            &[file("f[]", "a", "1"), file("f[]", "b", "22"), file("g", "c", "")],
        ),
        post(
            "larger than a page",
            &[file("f", "a", &large[..6000]), part("name=b", "2")],
        ),
        post(
            "two of a page",
            &[
                file("f", "a", &large[..3500]),
                file("g", "b", &large[..3500]),
                part("name=c", "3"),
            ],
        ),
        post("no file chosen", &[part("name=\"f\"; filename=\"\"", "")]),
        Case::post(
            "dump/move",
            MULTIPART,
            format!("{}--XX--\r\n", file("f", "a", "moved")),
        ),
        Case::post("dump/digest", FORM, format!("a={large}")),
        Case::post("dump/digest", "text/plain", large.clone()),
        Case::post("dump/all", FORM, "a=1"),
        post("at last", &[file("f", "a", "1")]),
    ]
}

#[test]
fn uploads_without_a_place_for_them_fail_as_under_php_fpm() {
    compare(&Group {
        ini: "upload_tmp_dir = {temporary}/missing\nsys_temp_dir = {temporary}/missing\n",
        ..Group::new("no_folder", kept())
    });
}

#[test]
fn uploads_go_where_php_fpm_has_them_if_their_folder_is_of_no_use() {
    // Nobody can make a file there.
    compare(&Group {
        ini: "upload_tmp_dir = /proc/self\n",
        ..Group::new("other_folder", kept())
    });
}

#[test]
fn uploads_that_find_the_disk_full_fail_as_under_php_fpm() {
    compare(&Group {
        ini: "upload_tmp_dir = {temporary}/small\nsys_temp_dir = {temporary}/small\n",
        small_disk: true,
        ..Group::new("full_disk", kept())
    });
}

/// PHP's sessions follow uploads, and may cancel them.
fn followed() -> Vec<Case> {
    let with = |case: Case, id: &str| case.line(&format!("Cookie: PHPSESSID={id}"));
    let upload = || {
        post(
            "followed",
            &[
                part("name=PHP_SESSION_UPLOAD_PROGRESS", "p"),
                file("f", "a", &"x".repeat(20_000)),
                file("g", "b", "2"),
            ],
        )
    };
    vec![
        with(Case::get("session/cancel_uploads", "/"), "cancels").then(with(upload(), "cancels")),
        with(
            Case::post(
                "dump/all",
                MULTIPART,
                format!("{}--XX--\r\n", file("f", "a", "1")),
            ),
            "unfollowed",
        ),
        with(upload(), "follows").then(with(Case::get("session/progress", "/"), "follows")),
        upload().then(Case::get("dump/state", "/")),
    ]
}

#[test]
fn uploads_are_followed_and_cancelled_by_sessions_as_under_php_fpm() {
    compare(&Group {
        ini: "session.upload_progress.enabled = 1\nsession.upload_progress.cleanup = 0\n",
        ..Group::new("progress", followed())
    });
}
