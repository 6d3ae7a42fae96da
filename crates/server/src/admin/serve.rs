//! The server's side of the admin socket: connections and routes.
//! Runs in: server, on the main thread.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Ask, HEALTH, LEAKS, Outcome, READY, RELOAD, ROLLBACK, STATUS, STOP, UPGRADE};

/// Longest time from a question to its answer, and of a client to ask.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at a time; others wait in the listen queue.
const CONNECTIONS: usize = 16;
/// Longest order.
const ORDER_BYTES: usize = 64 * 1024;
/// Pause after an accept that failed, for lack of descriptors for instance.
pub(super) const REST: Duration = Duration::from_millis(200);
/// Answers each connection that `listener` accepts until then, to its end.
pub(super) async fn all(listener: UnixListener, asks: &mpsc::Sender<Ask>, until: CancellationToken) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
            return;
        };
        let stream = match until.run_until_cancelled(listener.accept()).await {
            None => break,
            Some(Ok((stream, _))) => stream,
            Some(Err(error)) => {
                warn!(%error, "accepting an admin connection failed");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let asks = asks.clone();
        connections.spawn(async move {
            let service = service_fn(async |request| Ok::<_, Infallible>(answer(request, &asks).await));
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                debug!(%error, "admin connection ended");
            }
            drop(seat);
        });
    }
    while connections.join_next().await.is_some() {}
}

/// What is answered: JSON.
pub(super) type Answer = Response<Full<Bytes>>;

/// The answer to any question or order.
pub(super) async fn answer(request: Request<Incoming>, asks: &mpsc::Sender<Ask>) -> Answer {
    let path = request.uri().path();
    match (request.method(), path) {
        (&Method::GET, HEALTH) => ask(asks, Ask::Health).await,
        (&Method::GET, READY) => ask_ready(asks).await,
        (&Method::GET, STATUS) => ask(asks, Ask::Status).await,
        (&Method::GET, LEAKS) => ask(asks, Ask::Leaks).await,
        (&Method::POST, RELOAD) => match body(request).await {
            Ok(order) => tell(asks, |reply| Ask::Reload(order, reply)).await,
            Err(why) => error(StatusCode::BAD_REQUEST, &why),
        },
        (&Method::POST, STOP) => match body(request).await {
            Ok(order) => tell(asks, |reply| Ask::Stop(order, reply)).await,
            Err(why) => error(StatusCode::BAD_REQUEST, &why),
        },
        (&Method::POST, UPGRADE) => tell(asks, Ask::Upgrade).await,
        (&Method::POST, ROLLBACK) => tell(asks, Ask::Rollback).await,
        (_, HEALTH | READY | STATUS | LEAKS) => only("GET"),
        (_, RELOAD | ROLLBACK | STOP | UPGRADE) => only("POST"),
        (_, path) => nothing_at(path),
    }
}

/// For machines the status says it all.
async fn ask_ready(asks: &mpsc::Sender<Ask>) -> Answer {
    match put(asks, Ask::Ready).await {
        Some(answer) if answer.ready => json(StatusCode::OK, &answer),
        Some(answer) => json(StatusCode::SERVICE_UNAVAILABLE, &answer),
        None => no_answer(),
    }
}

/// 404.
pub(super) fn nothing_at(path: &str) -> Answer {
    error(StatusCode::NOT_FOUND, &format!("there is no {path} here"))
}

async fn ask<T: Serialize>(
    asks: &mpsc::Sender<Ask>,
    question: impl FnOnce(oneshot::Sender<T>) -> Ask,
) -> Answer {
    match put(asks, question).await {
        Some(answer) => json(StatusCode::OK, &answer),
        None => no_answer(),
    }
}

/// The answer, if there is one in time.
async fn put<T>(asks: &mpsc::Sender<Ask>, question: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    let asked = async {
        asks.send(question(reply)).await.ok()?;
        answer.await.ok()
    };
    timeout(PATIENCE, asked).await.ok().flatten()
}

fn no_answer() -> Answer {
    error(
        StatusCode::SERVICE_UNAVAILABLE,
        "the server is stopping or does not answer",
    )
}

/// Waits until it is done.
async fn tell<T: Serialize>(
    asks: &mpsc::Sender<Ask>,
    order: impl FnOnce(oneshot::Sender<Outcome<T>>) -> Ask,
) -> Answer {
    let (reply, answer) = oneshot::channel();
    let asked = asks.send(order(reply)).await.ok();
    let answer = if asked.is_some() { answer.await.ok() } else { None };
    match answer {
        Some(Ok(done)) => json(StatusCode::OK, &done),
        Some(Err(why)) => error(StatusCode::CONFLICT, &why),
        None => error(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
    }
}

/// What an order says beyond its name; an empty body says nothing.
async fn body<T: DeserializeOwned + Default>(request: Request<Incoming>) -> Result<T, String> {
    let bytes = Limited::new(request.into_body(), ORDER_BYTES).collect().await;
    let bytes = bytes
        .map_err(|error| format!("reading the order: {error}"))?
        .to_bytes();
    if bytes.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("reading the order: {error}"))
}

fn only(method: &'static str) -> Answer {
    let mut refusal = error(
        StatusCode::METHOD_NOT_ALLOWED,
        &format!("only {method} is possible here"),
    );
    let allow = header::HeaderValue::from_static(method);
    refusal.headers_mut().insert(header::ALLOW, allow);
    refusal
}

/// A refusal, with its reason.
pub(super) fn error(status: StatusCode, text: &str) -> Answer {
    json(status, &serde_json::json!({ "error": text }))
}

fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let mut body = serde_json::to_vec(value).unwrap_or_default();
    body.push(b'\n');
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
