use super::*;

fn answer(headers: &[(&'static str, &'static str)]) -> Response {
    let headers = headers
        .iter()
        .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
        .collect();
    let body = ResponseBody::Whole(Some(Bytes::from_static(b"hello")));
    Response {
        status: StatusCode::OK,
        reason: Bytes::new(),
        headers,
        body,
        worker: 0,
    }
}

#[test]
fn headers_of_the_connection_stay_behind() {
    let given = [
        ("connection", "close"),
        ("upgrade", "h2c"),
        ("te", "x"),
        ("x-powered-by", "PHP/8.2"),
    ];
    let response = from_script(answer(&given), &Method::GET);
    let mut names: Vec<&str> = response.headers().keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["server", "x-powered-by"]);
}

#[test]
fn a_length_that_is_none_is_dropped() {
    for given in [
        &[("content-length", "x")][..],
        &[("content-length", "+5")],
        &[("content-length", "-5")],
        &[("content-length", "")],
        &[("content-length", "5, 5")],
        &[("content-length", "5"), ("content-length", "6")],
    ] {
        let response = from_script(answer(given), &Method::GET);
        assert!(!response.headers().contains_key("content-length"), "{given:?}");
        assert!(matches!(response.body(), Content::Whole(_)));
    }
    let short = from_script(answer(&[("content-length", "2")]), &Method::GET);
    assert!(matches!(short.body(), Content::Whole(bytes) if bytes.len() == 2));
    let long = from_script(answer(&[("content-length", "9")]), &Method::GET);
    assert!(matches!(long.body(), Content::TooShort(Some(_))));
}

#[test]
fn a_status_that_has_no_content_gets_none() {
    for status in [204, 205, 304] {
        let mut given = answer(&[("content-type", "text/plain")]);
        given.status = StatusCode::from_u16(status).unwrap();
        let response = from_script(given, &Method::GET);
        assert!(matches!(response.body(), Content::Discarded(_)), "{status}");
    }
    for (status, length) in [(204, None), (205, None), (304, Some("5"))] {
        let mut given = answer(&[("content-length", "5")]);
        given.status = StatusCode::from_u16(status).unwrap();
        let response = from_script(given, &Method::GET);
        let found = response.headers().get(header::CONTENT_LENGTH);
        assert_eq!(found.map(|value| value.to_str().unwrap()), length, "{status}");
    }
}

#[test]
fn the_page_of_an_error_shows_the_id_alone() {
    let bytes = raw(
        RequestId(0xabc),
        &Refusal::Dispatch(DispatchError::WorkerDied { worker: 3 }),
    );
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{text}");
    assert!(text.contains("00000abc") && !text.contains("worker"), "{text}");
}

#[test]
fn a_status_without_a_usual_text_gets_none() {
    let mut unusual = answer(&[]);
    unusual.status = StatusCode::from_u16(499).unwrap();
    let response = from_script(unusual, &Method::GET);
    let reason = response.extensions().get::<hyper::ext::ReasonPhrase>().unwrap();
    assert_eq!(reason.as_bytes(), b"");
}
