//! The floor of every comparison: hyper as the server uses it, one current-thread runtime a core, and no PHP.
//!
//! `bare_hyper ADDRESS [BODY [CONTENT-TYPE]]` answers every request with BODY. Called by `bench/run.py`; ended by a signal.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::thread;

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Connections on their way from the acceptor to a reactor.
const HANDOVER: usize = 1024;

#[derive(Clone)]
struct Answer {
    body: Bytes,
    content_type: HeaderValue,
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments
        .next()
        .context("usage: bare_hyper ADDRESS [BODY [CONTENT-TYPE]]")?
        .parse()
        .context("reading ADDRESS")?;
    let body = arguments.next().unwrap_or_else(|| "Hello, world!".to_owned());
    let content_type = arguments
        .next()
        .unwrap_or_else(|| "text/html; charset=UTF-8".to_owned());
    let answer = Answer {
        body: Bytes::from(body),
        content_type: HeaderValue::try_from(content_type).context("reading CONTENT-TYPE")?,
    };

    let mut reactors = Vec::new();
    for _ in 0..thread::available_parallelism()?.get() {
        let (sender, receiver) = mpsc::channel(HANDOVER);
        let answer = answer.clone();
        thread::spawn(move || reactor(receiver, &answer));
        reactors.push(sender);
    }
    runtime()?.block_on(accept(address, &reactors))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("building a runtime")
}

/// Gives each reactor the same number of connections.
async fn accept(address: SocketAddr, reactors: &[mpsc::Sender<std::net::TcpStream>]) -> anyhow::Result<()> {
    let listener = tokio::net::TcpSocket::new_v4()?;
    listener.set_reuseaddr(true)?;
    listener
        .bind(address)
        .with_context(|| format!("binding {address}"))?;
    let listener: TcpListener = listener.listen(4096)?;
    for reactor in reactors.iter().cycle() {
        let (socket, _) = listener.accept().await.context("accepting a connection")?;
        reactor
            .send(socket.into_std()?)
            .await
            .context("a reactor has ended")?;
    }
    Ok(())
}

fn reactor(mut connections: mpsc::Receiver<std::net::TcpStream>, answer: &Answer) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        while let Some(socket) = connections.recv().await {
            let socket = TcpStream::from_std(socket)?;
            socket.set_nodelay(true)?;
            tokio::spawn(serve(socket, answer.clone()));
        }
        Ok(())
    })
}

async fn serve(socket: TcpStream, answer: Answer) {
    let service = service_fn(move |_: Request<Incoming>| {
        let mut response = Response::new(Full::new(answer.body.clone()));
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, answer.content_type.clone());
        async { Ok::<_, Infallible>(response) }
    });
    // A client that leaves ends its connection with an error; nobody is interested.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .pipeline_flush(true)
        .serve_connection(TokioIo::new(socket), service)
        .await;
}
