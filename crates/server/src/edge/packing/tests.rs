use std::collections::VecDeque;
use std::task::Waker;

use http::header::{HeaderName, HeaderValue};

use super::encoder::tests::unpack;
use http_body::Body;

use super::*;
use crate::dispatch::{DispatchError, ResponseBody};

/// A worker's stream: frames, and pauses in between.
struct Frames(VecDeque<Poll<Result<Bytes, DispatchError>>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = DispatchError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DispatchError>>> {
        match self.0.pop_front() {
            None => Poll::Ready(None),
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(next)) => Poll::Ready(Some(next.map(Frame::data))),
        }
    }
}

fn request(method: Method, accept: &'static str) -> request::Parts {
    let request = http::Request::builder()
        .method(method)
        .header(header::ACCEPT_ENCODING, accept);
    request.body(()).unwrap().into_parts().0
}

fn page(headers: &[(&'static str, &'static str)], content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    let all = [("content-type", "text/html; charset=UTF-8")]
        .iter()
        .chain(headers);
    for (name, value) in all {
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

fn text(len: usize) -> Bytes {
    (0..len / 8)
        .flat_map(|n| format!("{n:7} ").into_bytes())
        .collect()
}

fn encoding(response: &Response<Content>) -> Option<&str> {
    response
        .headers()
        .get(header::CONTENT_ENCODING)
        .map(|v| v.to_str().unwrap())
}

/// Request, response, the coding it gets, and whether it varies.
type Row = (request::Parts, Response<Content>, Option<&'static str>, bool);

#[test]
fn an_answer_is_compressed_only_if_all_are_for_it() {
    let settings = Compression::default();
    let whole = || Content::Whole(text(4096));
    let get = |accept| request(Method::GET, accept);
    let table: Vec<Row> = vec![
        (get("gzip"), page(&[], whole()), Some("gzip"), true),
        (get("br"), page(&[], whole()), Some("br"), true),
        (get("gzip, br, zstd"), page(&[], whole()), Some("zstd"), true),
        (get(""), page(&[], whole()), None, true),
        (get("gzip"), page(&[], Content::Whole(text(512))), None, false),
        (
            get("gzip"),
            page(&[("content-type", "image/png")], whole()),
            None,
            false,
        ),
        (
            get("gzip"),
            page(&[("content-type", "text/event-stream")], whole()),
            None,
            false,
        ),
        (
            get("gzip"),
            page(&[("content-encoding", "br")], whole()),
            Some("br"),
            false,
        ),
        (
            get("gzip"),
            page(&[("cache-control", "public, no-transform")], whole()),
            None,
            false,
        ),
        (
            get("gzip"),
            page(&[("content-range", "bytes 0-4095/5000")], whole()),
            None,
            false,
        ),
    ];
    for (head, response, expected, varies) in table {
        let shown = format!("{:?} {:?}", head.headers, response.headers());
        let answer = answer(&head, response, &settings);
        assert_eq!(encoding(&answer), expected, "{shown}");
        assert_eq!(answer.headers().contains_key(header::VARY), varies, "{shown}");
    }
    let mut partial = page(&[], whole());
    *partial.status_mut() = StatusCode::PARTIAL_CONTENT;
    assert_eq!(encoding(&answer(&get("gzip"), partial, &settings)), None);
    let off = Compression {
        algorithms: Vec::new(),
        ..Compression::default()
    };
    assert_eq!(encoding(&answer(&get("gzip"), page(&[], whole()), &off)), None);
}

#[test]
fn a_compressed_answer_has_the_headers_of_what_is_sent() {
    let settings = Compression::default();
    let headers = [
        ("etag", "\"a\""),
        ("content-length", "40000"),
        ("accept-ranges", "bytes"),
    ];
    let body = ResponseBody::Whole(None);
    for (method, content) in [
        (Method::GET, Content::Whole(text(40_000))),
        (Method::HEAD, Content::Discarded(body)),
    ] {
        let answer = answer(&request(method, "gzip"), page(&headers, content), &settings);
        let get = |name| answer.headers().get(name).map(|v| v.to_str().unwrap());
        assert_eq!(get("etag"), Some("W/\"a\""));
        assert_eq!(get("content-encoding"), Some("gzip"));
        assert_eq!((get("content-length"), get("accept-ranges")), (None, None));
    }
}

#[test]
fn a_long_answer_is_compressed_a_slice_at_a_turn() {
    let given = text(200_000);
    for coding in [Coding::Gzip, Coding::Zstd, Coding::Brotli] {
        let packer = Packer::new(Source::Whole, coding, &Compression::default()).unwrap();
        let mut packer = packer.after(given.clone());
        let mut cx = Context::from_waker(Waker::noop());
        let (mut out, mut rests) = (Vec::new(), 0);
        while !packer.is_end() {
            match packer.poll_frame(&mut cx) {
                Poll::Pending => rests += 1,
                Poll::Ready(frame) => {
                    out.extend_from_slice(&frame.unwrap().unwrap().into_data().unwrap());
                }
            }
        }
        assert!(rests >= given.len() / SLICE, "{coding}: {rests} rests");
        assert!(unpack(coding, &out) == given, "{coding}");
    }
}

/// What comes out of a stream until it ends.
async fn run(
    frames: Vec<Poll<Result<Bytes, DispatchError>>>,
    length: Option<u64>,
) -> Vec<Result<Bytes, String>> {
    let stream: Stream = Box::pin(Frames(frames.into()));
    let mut packer = Packer::new(
        Source::Stream(stream, length),
        Coding::Gzip,
        &Compression::default(),
    )
    .unwrap();
    let mut out = Vec::new();
    while !packer.is_end() {
        let next = std::future::poll_fn(|cx| packer.poll_frame(cx)).await;
        let Some(next) = next else { break };
        out.push(
            next.map(|frame| frame.into_data().unwrap())
                .map_err(|e| e.to_string()),
        );
        if out.last().is_some_and(Result::is_err) {
            break;
        }
    }
    out
}

#[tokio::test]
async fn what_a_script_says_before_a_pause_is_sent_at_once() {
    let part = |s: &'static str| Poll::Ready(Ok(Bytes::from_static(s.as_bytes())));
    // Twice: it is asked again when the pause is over.
    let pause = || [Poll::Pending, Poll::Pending];
    let mut frames = vec![part("a")];
    for text in ["b", "c"] {
        frames.extend(pause());
        frames.push(part(text));
    }
    let out = run(frames, None).await;
    let mut packed = Vec::new();
    for (next, expected) in out.into_iter().zip(["a", "ab", "abc"]) {
        packed.extend_from_slice(&next.unwrap());
        assert_eq!(unpack(Coding::Gzip, &packed), expected.as_bytes());
    }
}

#[tokio::test]
async fn an_announced_length_holds_for_what_is_compressed() {
    let part = |s: &'static str| Poll::Ready(Ok(Bytes::from_static(s.as_bytes())));
    let longer = run(vec![part("one"), part("two")], Some(4)).await;
    let packed: Vec<u8> = longer
        .into_iter()
        .flat_map(|next| next.unwrap().to_vec())
        .collect();
    assert_eq!(unpack(Coding::Gzip, &packed), b"onet");
    let shorter = run(vec![part("one")], Some(4)).await;
    assert!(
        shorter
            .last()
            .unwrap()
            .as_ref()
            .is_err_and(|e| e.contains("announced more"))
    );
}
