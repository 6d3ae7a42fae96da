//! Ends a connection whose request was answered before it was read.
//!
//! Closing a socket with unread bytes makes the kernel send a reset, which may overtake and destroy the response. So the write side
//! is closed first and what still arrives is thrown away, for a short time. Runs in: server, on a reactor.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long a client may go on sending what nobody wants.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes after which it is cut anyway.
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// Longest time for a word of farewell.
const FAREWELL: Duration = Duration::from_secs(1);

/// Tells a client over TLS that this is the end, and not somebody between who cuts the connection (RFC 8446 §6.1).
pub(super) async fn part(mut socket: impl AsyncWrite + Unpin) {
    let _ = timeout(FAREWELL, socket.shutdown()).await;
}

/// Sends `last` and closes the connection gently. Errors are the client's affair.
pub(super) async fn close(mut socket: impl AsyncRead + AsyncWrite + Unpin, last: &[u8]) {
    let _ = timeout(LINGER, async {
        if !last.is_empty() {
            socket.write_all(last).await?;
        }
        socket.shutdown().await?;
        let mut seen = 0;
        let mut sink = vec![0; 16 * 1024];
        while seen < LINGER_BYTES {
            match socket.read(&mut sink).await? {
                0 => break,
                n => seen += n,
            }
        }
        std::io::Result::Ok(())
    })
    .await;
}
