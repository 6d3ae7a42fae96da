//! The beginning of an encrypted connection. Who does not speak TLS is told so. Called by `connection`. Runs in: server, on a reactor.

use std::future::poll_fn;
use std::io;

use rustls::server::Acceptor;
use tokio::io::AsyncWriteExt;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

use super::super::transport::Transport;
use super::{Tls, challenges, variables};

/// First byte of a handshake (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;

/// What came of it.
pub(in crate::edge) enum Handshake {
    /// The socket, and what is known of it.
    Done(Transport, Agreed),
    /// The client speaks HTTP in the clear.
    Plain(Transport),
    /// It is over: it failed, which is the client's affair, or all is said.
    Over(String),
}

/// What was agreed on.
pub(in crate::edge) struct Agreed {
    pub(in crate::edge) http2: bool,
    /// What PHP is told: names and values.
    pub(in crate::edge) variables: Vec<(&'static str, String)>,
}

/// Has `socket` encrypted.
pub(in crate::edge) async fn shake(mut socket: Transport, tls: &Tls, asks_clients: bool) -> Handshake {
    let first = loop {
        if let Some(first) = socket.before().first() {
            break *first;
        }
        match poll_fn(|cx| socket.poll_ahead(cx)).await {
            Ok(0) => return Handshake::Over("it ended without a word".to_owned()),
            Ok(_) => {}
            Err(error) => return Handshake::Over(error.to_string()),
        }
    };
    if first != HANDSHAKE {
        // A method begins with a capital letter.
        return if first.is_ascii_uppercase() {
            Handshake::Plain(socket)
        } else {
            Handshake::Over("it is no TLS".to_owned())
        };
    }
    match accept(socket, tls).await {
        Ok(Some(stream)) => {
            let (_, session) = stream.get_ref();
            let agreed = Agreed {
                http2: session.alpn_protocol() == Some(b"h2"),
                variables: variables::of(session, asks_clients),
            };
            Handshake::Done(Transport::encrypted(stream), agreed)
        }
        Ok(None) => Handshake::Over("an authority has looked for a challenge".to_owned()),
        Err(error) => Handshake::Over(error.to_string()),
    }
}

/// `None`: the handshake was all that was wanted.
async fn accept(socket: Transport, tls: &Tls) -> io::Result<Option<TlsStream<Transport>>> {
    let config = tls
        .now()
        .ok_or_else(|| io::Error::other("there is no certificate"))?;
    if !tls.challenges.has_handshakes() {
        return TlsAcceptor::from(config).accept(socket).await.map(Some);
    }
    let begun = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
    let hello = begun.client_hello();
    let is_challenge = hello
        .alpn()
        .is_some_and(|mut names| names.any(|name| name == challenges::ALPN));
    if !is_challenge {
        return begun.into_stream(config).await.map(Some);
    }
    let config = hello
        .server_name()
        .and_then(|name| tls.challenges.handshake(name));
    let config = config.ok_or_else(|| io::Error::other("no challenge is expected for this name"))?;
    let mut stream = begun.into_stream(config).await?;
    let _ = stream.shutdown().await;
    Ok(None)
}
