//! Requests whose every trace in PHP is compared.

use super::Case;
use super::uploads::{self, FORM, MULTIPART, file, part};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = targets();
    cases.extend(methods());
    cases.extend(headers());
    cases.extend(cookies());
    cases.extend(forms());
    cases.extend(bodies());
    cases.extend(uploads::cases());
    cases
}

/// With settings of their own.
pub(super) fn of_settings() -> Vec<Case> {
    let upload = format!(
        "{}{}--XX--\r\n",
        part("name=\"a\"", "1"),
        file("f", "a.txt", "content")
    );
    let mut cases = vec![
        Case::get("dump/all", "/?a=1;b=2&c=3"),
        Case::get("dump/all", "/?one+two+three").line("Cookie: c=1; a=2"),
        Case::post("dump/all", FORM, "a=1&b=2;c=3"),
        Case::post("dump/all", MULTIPART, upload),
        Case::get("dump/state", "/"),
        Case::get("dump/filter", "/?a=1;n=2"),
        Case::get("limit/after", "/"),
    ];
    let runs = [
        "header/after_output",
        "header/type_default_empty",
        "header/code_404",
        "output/nothing",
        "output/levels",
        "output/left_open",
        "output/flushed",
        "output/warning",
        "ending/fatal_after_output",
        "ending/throw_after_output",
        "ending/exit_in_buffer",
        "ending/shutdown_headers",
        "buffer/status_of_default",
        "buffer/none_left",
        "error/undefined_kinds",
        "error/previous",
        "error/assertion",
        "session/none",
        "session/look",
        "order/shutdown_with_buffers",
    ];
    cases.extend(runs.map(|run| Case::get(run, "/").shown()));
    cases
}

/// With `enable_post_data_reading = 0` and `zlib.output_compression = 1`.
pub(super) fn of_raw_bodies() -> Vec<Case> {
    let gzip = |run| Case::get(run, "/").line("Accept-Encoding: gzip").named("gzip");
    let upload = format!(
        "{}{}--XX--\r\n",
        part("name=\"a\"", "1"),
        file("f", "a.txt", "content")
    );
    vec![
        Case::get("dump/all", "/?a[b]=1&a[b][c]=2"),
        Case::post("dump/all", FORM, "a=1&b=2"),
        Case::post("dump/all", MULTIPART, upload),
        Case::post("dump/pieces", FORM, "0123456789"),
        Case::post("dump/digest", FORM, "x".repeat(200_000)),
        Case::post("dump/digest", FORM, "x".repeat(300_000)).named("beyond post_max_size"),
        gzip("output/pieces"),
        Case::get("output/flushed", "/").line("Accept-Encoding: deflate"),
        gzip("ending/exit_text"),
        gzip("ending/fatal_after_output"),
        gzip("header/code_204"),
        gzip("output/nothing"),
        // A length ends compression, until the end of the request.
        gzip("header/length").then(gzip("output/crc")),
    ]
}

fn targets() -> Vec<Case> {
    let targets = [
        "/",
        "/?",
        "/?a",
        "/?a=b=c&d=",
        "/?a=1&a=2&b[]=1&b[]=2&c[x]=1&c[y][z]=2",
        "/?a.b=1&c+d=2&e%20f=3&g[h=4&[i]=5&j]k=6",
        "/?n=%00&u=%C3%A9&l=%e9&p=%&q=%zz&r=+%2B",
        "/?&&a=1&;b=2&=c&d[]&e[][]=1&f[0]=x&f[5]=y&f[]=z",
        "/?q=a/b?c:d@e!$'()*,;",
        "/?a[b][c][d][e][f][g][h][i][j]=deep",
        "/?one+two%20three+a=b",
        "/some/path?and=query",
        "/double//slash///here",
        "/dot/./and/../up",
        "/enc%6fded/%2F/sl%61sh",
        "/sp%20ace/%C3%A9",
        "/caf\u{c3}\u{a9}?x=\u{c3}\u{a9}",
        "/trailing/",
        "/a;b=c/d,e",
        "/%25percent",
        "/index.php",
        "/index.php?x=1",
        "/index.php/path/info",
        "/index.php/p%20i/%C3%A9?x",
        "/no%00nul",
        "/%zz",
        "/../above",
    ];
    let mut cases: Vec<Case> = targets
        .iter()
        .map(|target| Case::get("dump/all", target))
        .collect();
    let scripts = [
        "/direct.php",
        "/direct.php?x=1",
        "/direct.php/path/info?x=1",
        "/direct.php/",
        "/direct.php/a//b/../c",
        "/sub/",
        "/sub/index.php",
        "/sub",
        "/no-such.php",
        "/no-such.php/path",
        "/no-such/index.php",
    ];
    cases.extend(scripts.map(|target| Case::get("dump/all", target).only_classic()));
    let many: Vec<String> = (0..60).map(|n| format!("v{n}={n}")).collect();
    cases.push(Case::get("dump/all", &format!("/?{}", many.join("&"))).named("too many variables"));
    let long = "l".repeat(8000);
    cases.push(Case::get("dump/all", &format!("/?long={long}")).named("long query"));
    cases.push(Case::get("dump/filter", "/?a=%3Cb%3E&n=42").line("Cookie: c=d"));
    cases.push(Case::get("dump/environment", "/?q=1"));
    cases.push(Case::get("dump/state", "/"));
    cases
}

fn methods() -> Vec<Case> {
    let mut cases: Vec<Case> = ["HEAD", "OPTIONS", "DELETE", "PUT", "PATCH", "PURGE"]
        .into_iter()
        .map(|method| Case::new("dump/all", method, "/m?x=1"))
        .collect();
    cases.extend(["POST", "PUT", "PATCH", "DELETE", "GET"].map(|method| {
        let case = Case::new("dump/all", method, "/m").line(&format!("Content-Type: {FORM}"));
        case.with_body("a=1&b=2")
    }));
    cases.push(
        Case::new("dump/all", "POST", "/")
            .line("Content-Length: 0")
            .named("empty"),
    );
    cases.push(Case::get("dump/all", "/").version("HTTP/1.0"));
    cases.push(
        Case::get("dump/all", "/")
            .version("HTTP/1.0")
            .host(None)
            .named("no host"),
    );
    cases.push(Case::get("dump/all", "http://parity.test/abs/path?q=1"));
    cases.push(Case::get("dump/all", "http://parity.test"));
    cases
}

#[expect(clippy::too_many_lines, reason = "a list")]
fn headers() -> Vec<Case> {
    let get = || Case::get("dump/all", "/");
    vec![
        get().host(Some("parity.test:8080")).named("host with a port"),
        get().host(Some("PARITY.test")).named("host in capitals"),
        get().host(Some("[::1]:80")).named("host of IPv6"),
        get().host(None).named("no host"),
        get().line("Host: second").named("two hosts"),
        get()
            .line("X-Twice: a")
            .line("Accept: text/html")
            .line("X-Twice: b")
            .named("repeated"),
        get()
            .line("Accept: a")
            .line("Accept: b")
            .line("accept: c")
            .named("repeated accept"),
        get()
            .line("X-Forwarded-For: 1.2.3.4")
            .line("X-Forwarded-For: 5.6.7.8")
            .named("forwarded"),
        get()
            .line("X-Forwarded-Proto: https")
            .line("X-Forwarded-Host: a.example")
            .line("Forwarded: for=1.2.3.4")
            .named("behind a proxy"),
        get().line("X_Under: u").line("X-Under: d").named("underscore"),
        get()
            .line("X-Empty:")
            .line("X-Blank:   ")
            .line("X-Wide:  a  b  ")
            .line("X-Tab: a\tb")
            .named("blank values"),
        get()
            .line("X-Latin: caf\u{e9}")
            .line("X-Utf: caf\u{c3}\u{a9}")
            .named("bytes above 127"),
        get()
            .line("x-lower: l")
            .line("X-UPPER: U")
            .line("X-mIxEd: m")
            .named("cases of letters"),
        get()
            .line("X-1: digit")
            .line("X.Dot: d")
            .line("X-Tilde~: t")
            .line("X!#$%&'*+^`|: t")
            .named("odd names"),
        get()
            .line("Content-Type: text/weird")
            .named("type without a body"),
        get()
            .line("Connection: keep-alive")
            .line("Keep-Alive: 5")
            .line("TE: trailers")
            .named("hop by hop"),
        get().line("Connection: close").named("close"),
        get()
            .line("Upgrade: websocket")
            .line("Connection: Upgrade")
            .named("upgrade"),
        get()
            .line("Range: bytes=0-1")
            .line("If-Range: \"a\"")
            .named("range"),
        get()
            .line("If-None-Match: \"a\"")
            .line("If-Modified-Since: Tue, 15 Nov 1994 12:45:26 GMT")
            .named("conditions"),
        get()
            .line("Accept-Encoding: gzip, br")
            .line("Accept-Language: de, en;q=0.5")
            .line("User-Agent: U/1 (x; y)")
            .named("what a browser accepts"),
        get()
            .line("Referer: http://r/?a=b")
            .line("Origin: null")
            .line("DNT: 1")
            .line("X-Requested-With: XMLHttpRequest")
            .named("where it comes from"),
        get()
            .line(&format!("X-Long: {}", "v".repeat(7000)))
            .named("long header"),
        get().line("Authorization: Basic dXNlcjpwYTpzcw==").named("basic"),
        get()
            .line("authorization: bAsIc dXNlcjpwYTpzcw==")
            .named("basic in other letters"),
        get()
            .line("Authorization: Basic dXNlcg==")
            .named("basic without a colon"),
        get()
            .line("Authorization: Basic OnB3")
            .named("basic without a user"),
        get().line("Authorization: Basic !!!").named("basic that is none"),
        get().line("Authorization: Basic").named("basic without more"),
        get().line("Authorization: Bearer abc.def").named("bearer"),
        get()
            .line("Authorization: Digest username=\"u\", realm=\"r\", nonce=\"n\"")
            .named("digest"),
        get()
            .line("Authorization: Basic YTpi")
            .line("Authorization: Basic Yzpk")
            .named("two authorizations"),
    ]
}

fn cookies() -> Vec<Case> {
    let values = [
        "a=b",
        "a=b; c=d",
        "a=b;c=d",
        "a=1; a=2",
        "a; b=; =c; ; d",
        "a=%20%2B+x; b=\"q; r\"",
        "l[x]=1; l[y]=2; l[]=3; l[]=4",
        "a.b=1; c d=2; e=f=g",
        "u=caf\u{c3}\u{a9}; l=caf\u{e9}",
        "__Host-a=1; __Secure-b=2; __Host%2Dc=3",
        "  a=b  ;   c=d  ",
        "",
    ];
    let mut cases: Vec<Case> = values
        .map(|value| {
            Case::get("dump/all", "/")
                .line(&format!("Cookie: {value}"))
                .named(value)
        })
        .into();
    let two = Case::get("dump/all", "/")
        .line("Cookie: a=1")
        .line("Cookie: b=2; a=3");
    cases.push(two.named("two cookie headers"));
    cases
}

fn forms() -> Vec<Case> {
    let bodies = [
        "a=1&b=2&a=3",
        "a[]=1&a[]=2&b[x][y]=z&b[x][]=w",
        "a=+%20%2B&b=%C3%A9&c=%00x&d=%&e=%g1",
        "a.b=1&c d=2&=3&e&&f=",
        "a=1;b=2",
        "a=1\r\nb=2\r\n",
        "",
        "a[b=1&c]d=2&e[f]g=3&h[][i]=4&h[][i]=5",
    ];
    let mut cases: Vec<Case> = bodies
        .map(|body| Case::post("dump/all", FORM, body).named(body))
        .into();
    let types = [
        "APPLICATION/X-WWW-FORM-URLENCODED",
        "application/x-www-form-urlencoded; charset=UTF-8",
        "application/x-www-form-urlencoded;charset=latin1",
        "application/x-www-form-urlencodedx",
        "text/plain",
        "application/json",
        "",
    ];
    cases.extend(types.map(|media_type| Case::post("dump/all", media_type, "{\"a\": 1}&b=2")));
    let many: Vec<String> = (0..60).map(|n| format!("v{n}={n}")).collect();
    cases.push(Case::post("dump/all", FORM, many.join("&")).named("too many variables"));
    cases.push(
        Case::post("dump/all", FORM, many.join("&"))
            .named("too many variables")
            .shown(),
    );
    cases
}

fn bodies() -> Vec<Case> {
    let large = |size: usize| "0123456789abcdef".repeat(size / 16);
    vec![
        Case::post("dump/digest", "application/octet-stream", large(200_000)),
        Case::post("dump/digest", "application/octet-stream", large(1_000_000)).named("beyond post_max_size"),
        Case::post("dump/digest", FORM, format!("a={}", large(200_000))),
        Case::post("dump/digest", FORM, format!("a={}", large(300_000))).named("form beyond post_max_size"),
        Case::post("dump/all", FORM, format!("a={}", large(300_000)))
            .named("beyond post_max_size")
            .shown(),
        Case::post("dump/pieces", "text/plain", "0123456789"),
        Case::post("dump/all", "text/plain", vec![0, 1, 255, b'\n', b'\r', 0]).named("bytes"),
        Case::new("dump/all", "POST", "/")
            .line(&format!("Content-Type: {FORM}"))
            .chunked(&["a=1&", "b=2"]),
        Case::new("dump/digest", "PUT", "/m").chunked(&[&large(50_000), "x", &large(100_000)]),
        Case::new("dump/all", "POST", "/")
            .chunked(&[])
            .named("chunked and empty"),
        Case::post("dump/all", FORM, "a=1")
            .line("Expect: 100-continue")
            .named("expect"),
        Case::get("dump/all", "/")
            .line("Expect: 100-continue")
            .named("expect without a body"),
        Case::post("dump/all", FORM, "a=1").version("HTTP/1.0"),
    ]
}
