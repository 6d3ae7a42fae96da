use std::borrow::Cow;

use http::Request;
use ipc::head::RequestReader;

use super::*;

fn variables(request: &Request<()>, body: Option<u64>) -> (Vec<u8>, Vec<(String, String)>) {
    let (head, ()) = request.clone().into_parts();
    let script = Script {
        filename: Cow::Borrowed(b"/srv/a.php"),
        name: Cow::Borrowed(b"/a.php"),
        info: Cow::Borrowed(b"/x y"),
    };
    let (remote, server) = ("192.0.2.1:4711".parse().unwrap(), "192.0.2.2:80".parse().unwrap());
    let addresses = Addresses::of_tcp(remote, server, Scheme::Http);
    let id = RequestId(10);
    let source = Source {
        id,
        head: &head,
        script: &script,
        query: head.uri.query().unwrap_or_default(),
        root: b"/srv",
        addresses: &addresses,
        body,
    };
    let bytes = encode(&source);
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let vars = RequestReader::new(&bytes)
        .unwrap()
        .params()
        .map(|p| (text(p.name), text(p.value)))
        .collect();
    (bytes, vars)
}

#[test]
fn variables_and_their_order_are_those_of_php_fpm() {
    let request = Request::post("/a.php/x%20y?q=1")
        .header("host", "Example.test:8080")
        .header("authorization", "Basic dTpw")
        .header("accept", "*/*")
        .header("x-a", "1")
        .header("x-a", "2")
        .header("x_b", "3")
        .header("x.c", "4")
        .header("x~d", "5")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .header("proxy", "evil")
        .header("content-length", "3")
        .header("content-type", "text/x")
        .body(())
        .unwrap();
    let (bytes, vars) = variables(&request, Some(3));
    let software = format!("hearth/{} (like nginx)", env!("CARGO_PKG_VERSION"));
    let expected = [
        ("HTTP_CONTENT_TYPE", "text/x"),
        ("HTTP_CONTENT_LENGTH", "3"),
        ("HTTP_COOKIE", "a=1; b=2"),
        ("HTTP_X_A", "1, 2"),
        ("HTTP_ACCEPT", "*/*"),
        ("HTTP_AUTHORIZATION", "Basic dTpw"),
        ("HTTP_HOST", "Example.test:8080"),
        ("REDIRECT_STATUS", "200"),
        ("SERVER_NAME", "Example.test"),
        ("SERVER_PORT", "80"),
        ("SERVER_ADDR", "192.0.2.2"),
        ("REMOTE_USER", "u"),
        ("REMOTE_PORT", "4711"),
        ("REMOTE_ADDR", "192.0.2.1"),
        ("SERVER_SOFTWARE", &software),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("REQUEST_SCHEME", "http"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("DOCUMENT_ROOT", "/srv"),
        ("DOCUMENT_URI", "/a.php"),
        ("REQUEST_URI", "/a.php/x%20y?q=1"),
        ("SCRIPT_NAME", "/a.php"),
        ("CONTENT_LENGTH", "3"),
        ("CONTENT_TYPE", "text/x"),
        ("REQUEST_METHOD", "POST"),
        ("QUERY_STRING", "q=1"),
        ("SCRIPT_FILENAME", "/srv/a.php"),
        ("PATH_INFO", "/x y"),
        ("FCGI_ROLE", "RESPONDER"),
        ("HEARTH_REQUEST_ID", "0000000a"),
    ];
    let vars: Vec<(&str, &str)> = vars.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(vars, expected);
    let reader = RequestReader::new(&bytes).unwrap();
    assert_eq!(reader.known(Known::Cookie), Some(&b"a=1; b=2"[..]));
    assert_eq!(reader.known(Known::Authorization), Some(&b"Basic dTpw"[..]));
    assert_eq!(reader.known(Known::Script), Some(&b"/srv/a.php"[..]));
    assert_eq!(reader.known(Known::Method), Some(&b"POST"[..]));
}

#[test]
fn what_was_not_sent_is_empty_and_not_absent() {
    let (_, vars) = variables(&Request::get("/").body(()).unwrap(), None);
    let value = |name: &str| vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    for name in ["CONTENT_TYPE", "CONTENT_LENGTH", "QUERY_STRING", "REMOTE_USER"] {
        assert_eq!(value(name), Some(""), "{name}");
    }
    assert_eq!(value("HTTP_HOST"), None);
    assert_eq!(value("SERVER_NAME"), Some("192.0.2.2"));
}

#[test]
fn the_host_of_an_absolute_target_counts() {
    let request = Request::get("http://right:81/p?q")
        .header("host", "wrong")
        .body(())
        .unwrap();
    let (_, vars) = variables(&request, None);
    assert!(vars.contains(&("HTTP_HOST".into(), "right:81".into())));
    assert!(vars.contains(&("SERVER_NAME".into(), "right".into())));
    assert!(vars.contains(&("REQUEST_URI".into(), "/p?q".into())));
}

#[test]
fn numbers_are_written_in_decimal() {
    for n in [0, 7, 10, 4_294_967_296, u64::MAX] {
        assert_eq!(Decimal::new().write(n), n.to_string().as_bytes());
    }
}

#[test]
fn base64_is_read_and_garbage_is_nothing() {
    assert_eq!(base64(b"dXNlcjpwYXNz"), b"user:pass");
    assert_eq!(base64(b"dTpw=="), b"u:p");
    assert_eq!(base64(b"d!"), b"");
}
