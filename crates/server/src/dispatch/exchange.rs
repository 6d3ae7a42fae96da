//! Waits for the response and reads its head.

use std::future::poll_fn;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ipc::head::{BadHead, ResponseReader};
use ipc::layout::LANE_BYTES;

use super::lease::{Lease, Progress, Reading};
use super::relay::{self, Buffering};
use super::{DispatchError, Interim, Response, ResponseBody};

/// A head, and the first bytes of the body behind it.
struct Head {
    status: StatusCode,
    reason: Bytes,
    headers: HeaderMap,
    rest: Bytes,
}

/// The response of a queued exchange: whole if it fits into a lane, else as a stream that a task of its own keeps moving.
pub(super) async fn respond(
    lease: Lease,
    buffering: &Buffering,
    interim: Option<&Interim>,
) -> Result<Response, DispatchError> {
    let mut reading = poll_fn(|cx| lease.poll_published(cx)).await?;
    let (head, progress) = read_head(&lease, &mut reading, interim).await?;
    let worker = reading.worker.0;
    let Head {
        status,
        reason,
        headers,
        rest,
    } = head;
    // 503 with `Retry-After` is a page for maintenance: meant, not failed.
    let is_meant = status == StatusCode::SERVICE_UNAVAILABLE && headers.contains_key(RETRY_AFTER);
    if status.is_server_error() && !is_meant {
        lease.note_server_error(status.as_u16());
    }
    let body = if progress == Progress::Done && lease.waiting(&reading)? == 0 {
        lease.finish();
        ResponseBody::Whole(Some(rest))
    } else {
        ResponseBody::Stream(Box::pin(relay::start(lease, reading, rest, buffering.clone())))
    };
    Ok(Response {
        status,
        reason,
        headers,
        body,
        worker,
    })
}

/// Reads up to the end of the final head; those before it (1xx) go to `interim`.
async fn read_head(
    lease: &Lease,
    reading: &mut Reading,
    interim: Option<&Interim>,
) -> Result<(Head, Progress), DispatchError> {
    let mut bytes = Vec::new();
    loop {
        let progress = lease.progress()?;
        lease.read(reading, LANE_BYTES, &mut bytes)?;
        if progress == Progress::Running {
            lease.made_room(reading);
        }
        while let Some(len) = ResponseReader::expected_len(&bytes) {
            let len = len.map_err(|bad| lease.broken(reading.worker, bad.to_string()))?;
            let Some(head) = bytes.get(..len) else { break };
            let parsed = parse(head).map_err(|bad| refuse(lease, reading, bad))?;
            if parsed.0.is_informational() {
                if let Some(interim) = interim {
                    interim.put(parsed.0, parsed.2).await;
                }
                bytes.drain(..len);
                continue;
            }
            let (status, reason, headers) = parsed;
            let rest = Bytes::from(bytes).slice(len..);
            return Ok((
                Head {
                    status,
                    reason,
                    headers,
                    rest,
                },
                progress,
            ));
        }
        match progress {
            Progress::Running => more(lease, reading).await?,
            Progress::Done => {
                return Err(lease.broken(reading.worker, "the response ends within its head".to_owned()));
            }
            Progress::Dead => {
                return Err(DispatchError::WorkerDied {
                    worker: reading.worker.0,
                });
            }
        }
    }
}

/// Waits until there is something to read or the worker is done or dead.
pub(super) async fn more(lease: &Lease, reading: &Reading) -> Result<(), DispatchError> {
    use std::task::Poll;
    poll_fn(|cx| {
        // Before looking, so that what comes in meanwhile wakes again.
        lease.wake_me(cx);
        match (lease.progress(), lease.waiting(reading)) {
            (Err(failure), _) | (_, Err(failure)) => Poll::Ready(Err(failure)),
            (Ok(Progress::Running), Ok(0)) => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    })
    .await
}

/// What a script can say by `header()` is its own affair, and its worker may run another request by now; what it cannot say breaks
/// the protocol.
fn refuse(lease: &Lease, reading: &Reading, bad: BadHead) -> DispatchError {
    match bad {
        BadHead::Length => lease.broken(reading.worker, bad.to_string()),
        BadHead::Status(_) | BadHead::Header => DispatchError::BadResponse {
            worker: reading.worker.0,
            reason: bad.to_string(),
        },
    }
}

fn parse(head: &[u8]) -> Result<(StatusCode, Bytes, HeaderMap), BadHead> {
    let reader = ResponseReader::new(head)?;
    let status =
        StatusCode::from_u16(reader.status()).map_err(|_| BadHead::Status(reader.status().into()))?;
    let mut headers = HeaderMap::with_capacity(8);
    for header in reader.headers() {
        let (name, value) = header?;
        let name = HeaderName::from_bytes(name).map_err(|_| BadHead::Header)?;
        let value = HeaderValue::from_bytes(value).map_err(|_| BadHead::Header)?;
        headers.append(name, value);
    }
    let reason = match reader.reason() {
        b"" => Bytes::new(),
        reason => Bytes::copy_from_slice(reason),
    };
    Ok((status, reason, headers))
}
