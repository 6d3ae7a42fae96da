//! One request and its response, whichever version of HTTP they came by.
//!
//! Called by hyper for `h1`. Runs in: server, on a reactor.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, request};
use http_body::Body;

use super::connection::{Client, Shared};
use super::params::{self, Source};
use super::record::Record;
use super::reply::{self, Ending, Refusal};
use super::reply_body::{Content, ReplyBody};
use super::route::{self, Route};
use super::{Backend, body, check, static_files};
use crate::dispatch::{Request, RequestBody};

/// Answers a request of HTTP/1.
pub(super) async fn handle<B: Backend>(
    request: http::Request<impl Body<Data = Bytes> + Unpin>,
    shared: &Shared<B>,
    client: &Arc<Client>,
) -> Result<http::Response<ReplyBody>, Infallible> {
    let (mut head, body) = request.into_parts();
    let mut record = Record::begin(Arc::clone(client), &mut head, !body.is_end_stream());
    let result = answer(&head, body, shared, &mut record).await;
    let mut closes = false;
    let mut response = match result {
        Ok(response) => {
            record.set(response.status(), Ending::Ok);
            response
        }
        Err(refusal) => {
            reply::report(record.id, &refusal);
            let (status, ending) = refusal.outcome();
            record.set(status, ending);
            closes = refusal.closes();
            reply::refused(record.id, &refusal, &head.method)
        }
    };
    if record.unread || closes {
        client.progress.set_linger();
    }
    // hyper is told of a stop only between two polls, maybe after this response.
    if record.unread || shared.is_leaving() || client.is_last_request() {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|content| ReplyBody::new(content, record)))
}

/// The response to a request whose head is `head`.
pub(super) async fn answer<B: Backend>(
    head: &request::Parts,
    body: impl Body<Data = Bytes> + Unpin,
    shared: &Shared<B>,
    record: &mut Record,
) -> Result<http::Response<Content>, Refusal> {
    check::head(head)?;
    if head.uri.path() == "*" {
        return Ok(reply::options(check::ALLOW_ANY));
    }
    let path = route::decode(head.uri.path())?;
    let announced = params::announced_length(&head.headers);
    let first = shared.sites.open().await.map_err(Refusal::Broken)?;
    if let Some(rate) = &first.config.rate {
        let client = record.addresses().client;
        let asked = shared.sites.clients.ask(rate, (head, &path), client);
        asked.map_err(Refusal::TooManyRequests)?;
    }
    let mut site = &*first;
    let (mut pool, mut router) = site.pick(head, &path);
    let mut route = router.route(&path, &shared.files, record.started)?;
    let (mut received, newer) = (RequestBody::Empty, OnceCell::new());
    if record.unread && matches!(route, Route::Script(_)) {
        // Boxed, as are files: their states would make the future of every request, which hyper moves, larger.
        received = Box::pin(body::receive(body, announced, &site.config))
            .await
            .map_err(|refusal| match refusal {
                Refusal::ClientGone if record.client.progress.malformed_body() => {
                    Refusal::BadRequest("framing of the body")
                }
                refusal => refusal,
            })?;
        record.unread = false;
        // The site may be another by now, and the pools of the first one may be gone.
        let now = shared.sites.open().await.map_err(Refusal::Broken)?;
        site = newer.get_or_init(|| now);
        (pool, router) = site.pick(head, &path);
        route = router.route(&path, &shared.files, record.started)?;
    }
    let script = match route {
        Route::File(file) => return Box::pin(static_files::serve(head, file)).await,
        Route::AddSlash(location) => return Ok(reply::moved(&location, head.uri.query())),
        Route::Script(script) => script,
    };
    let chunked = head.headers.contains_key(header::TRANSFER_ENCODING);
    let source = Source {
        id: record.id,
        head,
        script: &script,
        root: router.root(),
        addresses: record.addresses(),
        body: (announced.is_some() || chunked).then(|| received.len()),
    };
    let request = Request {
        id: record.id,
        head: params::encode(&source),
        body: received,
        idempotent: is_idempotent(head),
    };
    let response = shared
        .backend
        .send((&site.pools, pool), request)
        .await
        .map_err(Refusal::Dispatch)?;
    record.worker = Some(response.worker);
    Ok(reply::from_script(response, &head.method))
}

/// RFC 9110 §9.2.2; or its sender says so (draft-ietf-httpapi-idempotency-key-header).
fn is_idempotent(head: &request::Parts) -> bool {
    let by_method = matches!(
        head.method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
    );
    by_method || head.headers.contains_key("idempotency-key")
}
