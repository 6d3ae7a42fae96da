//! One request and its response, whichever version of HTTP they came by.
//!
//! Called by hyper for `http1`, by `http2::stream`. Runs in: server, on a reactor.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderName, Version, request};
use http_body::Body;

use super::connection::{Client, Shared};
use super::files::accel;
use super::files::sendfile::Outbox;
use super::files::shelf::Files;
use super::params::{self, Source};
use super::record::Record;
use super::reply::body::{Content, ReplyBody};
use super::reply::error_pages::{self, Place};
use super::reply::{self, Ending, Refusal};
use super::site::route::{self, Route, Router, Script};
use super::site::rules::{self, Dress, Turn};
use super::site::{self, Site};
use super::tls::policy;
use super::{Backend, body, check, files, packing};
use crate::dispatch::{Request, RequestBody, Response};

/// Answers a request of HTTP/1.
pub(super) async fn handle<B: Backend>(
    request: http::Request<impl Body<Data = Bytes> + Unpin>,
    shared: &Shared<B>,
    client: &Arc<Client>,
) -> Result<http::Response<ReplyBody>, Infallible> {
    let (mut head, body) = request.into_parts();
    let mut record = Record::begin(Arc::clone(client), &mut head, !body.is_end_stream());
    // RFC 9110 §15.2: HTTP/1.0 has none.
    record.interim = (head.version == Version::HTTP_11).then(|| Arc::clone(client.progress.interim()));
    let mut response = respond(&head, body, shared, &mut record).await;
    // `wire` sends them when hyper flushes, which it does before it looks here again.
    client.progress.interim().taken().await;
    if record.unread {
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

/// The response to a request whose head is `head`: the answer, or a page for a refusal.
pub(super) async fn respond<B: Backend>(
    head: &request::Parts,
    body: impl Body<Data = Bytes> + Unpin,
    shared: &Shared<B>,
    record: &mut Record,
) -> http::Response<Content> {
    let mut manners = Manners::default();
    let result = answer((head, body), shared, record, &mut manners).await;
    let mut response = match result {
        Ok(response) => {
            record.set(response.status(), Ending::Ok);
            response
        }
        Err(refusal) => {
            reply::report(record.id, &refusal);
            let (status, ending) = refusal.outcome();
            record.set(status, ending);
            record.unread |= refusal.closes();
            let mut plain = reply::refused(record.id, &refusal, &head.method);
            if let Refusal::Broken(why) = &refusal {
                reply::as_json_if_wanted(&mut plain, head, why);
            }
            match manners.place.take() {
                Some(place) => {
                    Box::pin(error_pages::stand_in(
                        (head, record),
                        &refusal,
                        (shared, place),
                        plain,
                    ))
                    .await
                }
                None => plain,
            }
        }
    };
    manners.dress.put_on(response.status(), response.headers_mut());
    policy::insist(
        &record.client.config,
        record.addresses().scheme,
        response.headers_mut(),
    );
    response
}

/// What rules and settings of a site say of an answer, whatever it is.
struct Manners<P> {
    dress: Dress,
    /// Where error pages are; set where there are any.
    place: Option<Place<P>>,
}

impl<P> Default for Manners<P> {
    fn default() -> Self {
        Self {
            dress: Dress::default(),
            place: None,
        }
    }
}

impl<P> Manners<P> {
    fn keep(&mut self, site: &Arc<Site<P>>, (pool, router): (usize, &Router)) {
        self.place = (!router.pages().is_empty()).then(|| Place {
            site: Arc::clone(site),
            pool,
        });
    }
}

async fn answer<B: Backend>(
    (head, body): (&request::Parts, impl Body<Data = Bytes> + Unpin),
    shared: &Shared<B>,
    record: &mut Record,
    manners: &mut Manners<B::Pools>,
) -> Result<http::Response<Content>, Refusal> {
    check::head(head)?;
    check::count(&head.headers, record.client.config.limits.header_count)?;
    if head.uri.path() == "*" {
        return Ok(reply::options(check::ALLOW_ANY));
    }
    let asked = route::decode(head.uri.path())?;
    let announced = params::announced_length(&head.headers);
    let first = admitted((head, &asked), shared, record).await?;
    let mut site = &*first;
    if let Some(answer) = policy::aside(
        (head, &asked),
        (&shared.sites.tls, &site.config),
        record.addresses(),
    ) {
        return Ok(answer);
    }
    let (mut pool, mut router) = site.pick(head, &asked);
    manners.keep(&first, (pool, router));
    let turned = match ruled(head, &asked, router, &mut manners.dress)? {
        Ok(turned) => turned,
        Err(elsewhere) => return Ok(elsewhere),
    };
    let path = turned.path.as_deref().unwrap_or(&asked);
    let mut route = router.route(path, &shared.files, record.started)?;
    let (mut received, newer) = (RequestBody::Empty, OnceCell::new());
    if record.unread && matches!(route, Route::Script(_)) {
        // Boxed, as are files: their states would make the future of every request, which hyper moves, larger.
        let limit = body::limit(&shared.backend, site, pool);
        let result = Box::pin(body::receive(body, (announced, limit), &site.config)).await;
        received = result.map_err(|refusal| named(refusal, record))?;
        record.unread = false;
        // The site may be another by now, and the pools of the first one may be gone.
        let now = shared.sites.open().await.map_err(Refusal::Broken)?;
        site = newer.get_or_init(|| now);
        (pool, router) = site.pick(head, &asked);
        route = router.route(path, &shared.files, record.started)?;
    }
    let script = match route {
        Route::File(file) => {
            let outbox = (record.client.outbox.as_ref(), turned.unpacked);
            let asked = file_asked(head, (&shared.sites.files, site), router, outbox);
            return Box::pin(files::serve(&asked, file)).await;
        }
        Route::AddSlash(location) => return Ok(reply::moved(&location, head.uri.query())),
        Route::Script(script) => script,
    };
    let query = turned.query.as_deref().or(head.uri.query());
    let mut request = asking(
        (head, record),
        (&script, router.root()),
        query,
        (announced, received),
    );
    request.idempotent |= site.believes_keys(pool) && head.headers.contains_key("idempotency-key");
    record.note_pool(router.pool());
    let sent = shared.backend.send((&site.pools, pool), request).await;
    let response = sent.map_err(Refusal::Dispatch)?;
    record.worker = Some(response.worker);
    let sent = (head, response, turned.unpacked);
    from_script(sent, (&shared.sites.files, site), router, record).await
}

/// What the worker gets: the CGI variables, and the body with the length that was `announced`.
fn asking(
    (head, record): (&request::Parts, &Record),
    (script, root): (&Script<'_>, &[u8]),
    query: Option<&str>,
    (announced, body): (Option<u64>, RequestBody),
) -> Request {
    let chunked = head.headers.contains_key(header::TRANSFER_ENCODING);
    let source = Source {
        id: record.id,
        head,
        script,
        query: query.unwrap_or_default(),
        root,
        addresses: record.addresses(),
        body: (announced.is_some() || chunked).then(|| body.len()),
    };
    Request {
        id: record.id,
        head: params::encode(&source),
        body,
        idempotent: check::is_idempotent(head.method.as_str().as_bytes()),
        interim: record.interim.clone(),
    }
}

/// The site, if the client may ask it now.
async fn admitted<B: Backend>(
    (head, path): (&request::Parts, &[u8]),
    shared: &Shared<B>,
    record: &Record,
) -> Result<Arc<Site<B::Pools>>, Refusal> {
    let site = shared.sites.open().await.map_err(Refusal::Broken)?;
    if let Some(rate) = &site.config.rate {
        let client = record.addresses().client;
        let header = |name: &HeaderName| head.headers.get(name).map(HeaderValue::as_bytes);
        let asked = shared.sites.clients.ask(rate, (path, header), client);
        asked.map_err(Refusal::TooManyRequests)?;
    }
    Ok(site)
}

/// A body that ends because its framing is wrong looks like one whose client has gone.
fn named(refusal: Refusal, record: &Record) -> Refusal {
    match refusal {
        Refusal::ClientGone if record.client.progress.malformed_body() => {
            Refusal::BadRequest("framing of the body")
        }
        refusal => refusal,
    }
}

/// What is made of a script's answer.
async fn from_script<P>(
    (head, mut response, unpacked): (&request::Parts, Response, bool),
    (files, site): (&Files, &Site<P>),
    router: &Router,
    record: &Record,
) -> Result<http::Response<Content>, Refusal> {
    let internal = (router.internal(), router.rights());
    if let Some(wanted) = accel::take(&mut response.headers, internal, record.client.is_trusted) {
        let outbox = (record.client.outbox.as_ref(), unpacked);
        let asked = file_asked(head, (files, site), router, outbox);
        return Box::pin(accel::send((wanted, response), asked, record)).await;
    }
    if router.pages().intercepts(response.status) {
        record.discard(response.body);
        return Err(Refusal::Script(response.status));
    }
    let response = reply::from_script(response, &head.method);
    if unpacked {
        return Ok(response);
    }
    Ok(packing::answer(head, response, &site.config.compression))
}

/// What rules have made of a request.
#[derive(Default)]
struct Turned {
    path: Option<Vec<u8>>,
    query: Option<String>,
    unpacked: bool,
}

/// Asks the rules. The inner error is a response that ends the matter.
fn ruled(
    head: &request::Parts,
    path: &[u8],
    router: &Router,
    dress: &mut Dress,
) -> Result<Result<Turned, http::Response<Content>>, Refusal> {
    if router.rules().is_empty() {
        return Ok(Ok(Turned::default()));
    }
    let ruling = rules::apply(
        router.rules(),
        &rules::Asked {
            host: &site::host(head),
            path,
            query: head.uri.query(),
            exists: &|| router.exists(path),
        },
    )?;
    *dress = ruling.dress;
    let mut turned = Turned {
        unpacked: ruling.unpacked,
        ..Turned::default()
    };
    match ruling.turn {
        None => {}
        Some(Turn::Refused(status)) => return Err(Refusal::Denied(status)),
        Some(Turn::Away(location, status)) => return Ok(Err(reply::redirection(&location, status))),
        Some(Turn::Path(path, query)) => (turned.path, turned.query) = (Some(path), Some(query)),
    }
    Ok(Ok(turned))
}

/// What is asked of a file.
pub(super) fn file_asked<'a, P>(
    head: &'a request::Parts,
    (files, site): (&'a Files, &'a Site<P>),
    router: &'a Router,
    (outbox, unpacked): (Option<&'a Arc<Outbox>>, bool),
) -> files::Asked<'a> {
    files::Asked {
        method: &head.method,
        headers: &head.headers,
        files,
        rights: router.rights(),
        compression: &site.config.compression,
        packing: !unpacked,
        siblings: true,
        outbox,
        source: false,
        kind: None,
    }
}
