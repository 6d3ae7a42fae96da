//! What stands for the workers: a backend that answers itself.

use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use ipc::head::RequestReader;
use tokio_util::sync::CancellationToken;

use super::super::Backend;
use crate::config::ByteSize;
use crate::dispatch::{DispatchError, Request, RequestBody, Response, ResponseBody};

/// Answers with the variables it got, or as the target says.
#[derive(Clone)]
pub(super) struct Echo {
    /// Told of each request for `/wait`.
    pub(super) arrived: mpsc::Sender<()>,
    /// Cancelled when these are to be answered.
    pub(super) gate: CancellationToken,
}

impl Backend for Echo {
    type Pools = ();

    fn post_max_size(&self, ((), _): (&(), usize)) -> ByteSize {
        ByteSize(0)
    }

    async fn send(&self, ((), _): (&(), usize), request: Request) -> Result<Response, DispatchError> {
        let reader = RequestReader::new(&request.head).unwrap();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let vars: Vec<(String, String)> = reader.params().map(|p| (text(p.name), text(p.value))).collect();
        let uri = vars.iter().find(|(n, _)| n == "REQUEST_URI").unwrap().1.clone();
        let mut headers = HeaderMap::new();
        let mut status = StatusCode::OK;
        let whole = |s: &'static str| ResponseBody::Whole(Some(Bytes::from_static(s.as_bytes())));
        let mut body = match uri.as_str() {
            "/died" => return Err(DispatchError::WorkerDied { worker: 1 }),
            "/full" => return Err(DispatchError::QueueFull { pool: "web".into() }),
            "/late" => {
                return Err(DispatchError::RequestTimeout {
                    limit: Duration::from_secs(1),
                });
            }
            "/short" | "/long" => whole("hello"),
            "/nobody" => whole("not to be seen"),
            "/hops" => whole("hops"),
            "/stream" | "/stream-died" => stream(uri == "/stream-died"),
            _ => ResponseBody::Whole(Some(Bytes::from(describe(&vars, &request.body)))),
        };
        let put: &[(&'static str, &'static str)] = match uri.as_str() {
            "/short" => &[("content-length", "3")],
            "/long" => &[("content-length", "9")],
            "/hops" => &[
                ("connection", "x-y"),
                ("transfer-encoding", "gzip"),
                ("keep-alive", "1"),
                ("x-kept", "1"),
            ],
            _ => &[],
        };
        for (name, value) in put {
            headers.insert(*name, value.parse().unwrap());
        }
        if uri == "/nobody" {
            status = StatusCode::NO_CONTENT;
        }
        if uri == "/wait" {
            self.arrived.send(()).unwrap();
            self.gate.cancelled().await;
            body = whole("waited");
        }
        let reason = if uri == "/reason" {
            Bytes::from_static(b"Fine by me")
        } else {
            Bytes::new()
        };
        Ok(Response {
            status,
            reason,
            headers,
            body,
            worker: 7,
        })
    }
}

fn stream(dies: bool) -> ResponseBody {
    let mut frames = vec![Ok("one"), Ok("two")];
    if dies {
        frames.push(Err(DispatchError::WorkerDied { worker: 1 }));
    }
    ResponseBody::Stream(Box::pin(Frames(frames.into_iter())))
}

struct Frames(std::vec::IntoIter<Result<&'static str, DispatchError>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = DispatchError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DispatchError>>> {
        let next = self.get_mut().0.next();
        Poll::Ready(next.map(|r| r.map(|s| Frame::data(Bytes::from_static(s.as_bytes())))))
    }
}

fn describe(vars: &[(String, String)], body: &RequestBody) -> String {
    use std::fmt::Write;

    let mut out = String::new();
    for (name, value) in vars {
        out += &[name, "=", value, "\n"].concat();
    }
    match body {
        RequestBody::Empty => out.push_str("body: none\n"),
        RequestBody::Memory(parts) => {
            out += &["body: memory ", &String::from_utf8_lossy(&parts.concat()), "\n"].concat();
        }
        RequestBody::Spooled { file, len } => {
            let size = file.file().metadata().unwrap().len();
            writeln!(out, "body: spooled {size} of {len}").unwrap();
        }
    }
    out
}
