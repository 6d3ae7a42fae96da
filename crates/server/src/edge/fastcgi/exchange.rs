//! One connection of a web server: request after request, each from its first record to its last.
//!
//! A response goes out as it comes in; meanwhile the connection is read, so that a request that is given up frees its slot. Called by
//! `fastcgi` for what was accepted on a FastCGI listener. Runs in: server, on a reactor.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::answer;
use super::entry::Entry;
use super::records::{self, Begin, Completion, Kind, Malformed, Record};
use super::request::{self, Plan};
use super::stdin::{BrokenOff, Stdin};
use super::variables::{Unreadable, Variables};
use super::wire::{Aside, Lost, Wire};
use crate::config::Config;
use crate::dispatch::{DispatchError, Response, ResponseBody};
use crate::edge::connection::Shared;
use crate::edge::reply::body::Content;
use crate::edge::reply::{self, Ending, Refusal};
use crate::edge::{Backend, body};

/// A connection, and what its requests are answered with.
pub(super) struct Connection<'a, B: Backend, S> {
    pub(super) wire: Wire<S>,
    pub(super) shared: &'a Shared<B>,
    /// That of the connection's first moment: its limits hold to its end.
    pub(super) config: Arc<Config>,
    /// The last request was answered before it had been received.
    pub(super) is_unread: bool,
}

/// What comes behind a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Maybe another one.
    Next,
    /// The end of the connection.
    Close,
}

/// A request whose parameters have come in.
struct Begun {
    id: u16,
    keep: bool,
    params: BytesMut,
    /// There were more than may be; the rest was dropped.
    is_too_large: bool,
}

/// Why a request is not answered.
enum Failure {
    /// It is refused.
    Refused(Refusal),
    /// The web server has given it up, and may send another one.
    Aborted,
    /// The connection is over.
    Lost(Lost),
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<B: Backend, S: AsyncRead + AsyncWrite + Unpin + Send> Connection<'_, B, S> {
    /// Answers requests until there are no more.
    pub(super) async fn run(&mut self) -> Result<(), Lost> {
        while self.wire.is_asked(self.shared).await? {
            let patience = self.config.limits.header_timeout;
            let begun = match timeout(patience, self.begun()).await {
                Err(_elapsed) => return Err(Lost::Slow),
                Ok(begun) => begun?,
            };
            let then = match begun {
                Ok(begun) => self.answer(begun).await?,
                Err(then) => then,
            };
            self.wire.flush(&self.config.limits).await?;
            if then == Then::Close {
                break;
            }
        }
        Ok(())
    }

    /// The next request, or what comes behind records that are none.
    async fn begun(&mut self) -> Result<Result<Begun, Then>, Lost> {
        let record = self.wire.record().await?;
        if record.kind != Kind::Begin || record.id == 0 {
            self.wire.aside(record, None)?;
            return Ok(Err(Then::Next));
        }
        let Record { id, content, .. } = record;
        let Begin { role, keep } = Begin::read(&content)?;
        let then = if keep { Then::Next } else { Then::Close };
        if role != records::RESPONDER {
            records::put_end(&mut self.wire.output, id, Completion::UnknownRole);
            return Ok(Err(then));
        }
        let most = self.most_params();
        let (mut params, mut is_too_large) = (BytesMut::new(), false);
        loop {
            let record = self.wire.record().await?;
            if record.kind == Kind::Params && record.id == id {
                if record.content.is_empty() {
                    break;
                }
                is_too_large |= params.len() + record.content.len() > most;
                if !is_too_large {
                    params.extend_from_slice(&record.content);
                }
                continue;
            }
            match self.wire.aside(record, Some(id))? {
                Aside::Nothing => {}
                Aside::Aborted => {
                    records::put_end(&mut self.wire.output, id, Completion::Complete);
                    return Ok(Err(then));
                }
                Aside::Stdin(_) => return Err(Malformed::Order.into()),
            }
        }
        Ok(Ok(Begun {
            id,
            keep,
            params,
            is_too_large,
        }))
    }

    /// Bytes of parameters that a request may have.
    fn most_params(&self) -> usize {
        usize::try_from(self.config.limits.header_bytes.0).unwrap_or(usize::MAX)
    }

    async fn answer(&mut self, begun: Begun) -> Result<Then, Lost> {
        let id = begun.id;
        let mut entry = Entry::begin(self.shared.sites.log.clone());
        self.is_unread = true;
        let result = self.response(&begun, &mut entry).await;
        let end = match result {
            Ok(Some(response)) => self.relay(id, response, &mut entry).await,
            Ok(None) => Ok(()),
            Err(failure) => Err(failure),
        };
        match end {
            Ok(()) => answer::put_end(&mut self.wire.output, id),
            Err(Failure::Refused(refusal)) => self.refuse(id, &refusal, &mut entry),
            // The entry says so already.
            Err(Failure::Aborted) => records::put_end(&mut self.wire.output, id, Completion::Complete),
            Err(Failure::Lost(lost)) => {
                if matches!(lost, Lost::Stuck) {
                    entry.ending = Ending::WriteTimeout;
                }
                return Err(lost);
            }
        }
        let flushed = self.wire.flush(&self.config.limits).await;
        if flushed.is_err() {
            entry.ending = match flushed {
                Err(Lost::Stuck) => Ending::WriteTimeout,
                _ => Ending::ClientGone,
            };
        }
        flushed?;
        let is_last = !begun.keep || self.shared.is_leaving();
        Ok(if is_last { Then::Close } else { Then::Next })
    }

    /// The response of a worker; `None`: what there is to say has been said.
    async fn response(&mut self, begun: &Begun, entry: &mut Entry) -> Result<Option<Response>, Failure> {
        let size = begun.params.len();
        let limit = self.most_params();
        let too_large = || Refusal::Dispatch(DispatchError::HeadTooLarge { size, limit });
        if begun.is_too_large {
            return Err(too_large().into());
        }
        let variables = match Variables::read(&begun.params, request::limit(&self.config)) {
            Ok(variables) => variables,
            Err(Unreadable::Malformed(malformed)) => return Err(Lost::from(malformed).into()),
            Err(Unreadable::TooMany) => return Err(too_large().into()),
            Err(Unreadable::Nul) => return Err(Refusal::BadRequest("NUL in a parameter").into()),
        };
        entry.describe(&variables);
        let limit = request::admit(&variables, self.shared).await?;
        let announced = request::announced(&variables)?;
        let mut stdin = Stdin::new(&mut self.wire, begun.id, announced);
        let received = body::receive(&mut stdin, (announced, limit), &self.config).await;
        let (broken_off, ended) = stdin.end();
        self.is_unread = !ended;
        let received = match broken_off {
            Some(BrokenOff::Lost(lost)) => return Err(lost.into()),
            Some(BrokenOff::Aborted) => return Err(Failure::Aborted),
            Some(BrokenOff::TooShort) => {
                return Err(Refusal::BadRequest("the body is shorter than CONTENT_LENGTH").into());
            }
            None => received?,
        };
        match request::plan::<B>(variables, received, entry.id, &self.shared.sites).await? {
            Plan::Deny(path) => {
                self.deny(begun.id, &path, entry);
                Ok(None)
            }
            Plan::Ask {
                site,
                pool,
                request,
                note,
            } => {
                if let Some(note) = note {
                    answer::put_log(&mut self.wire.output, begun.id, note);
                }
                if let Some(router) = site.router(pool) {
                    entry.note_pool(router.pool());
                }
                let sending = self.shared.backend.send((&site.pools, pool), request);
                let response = self.unless_given_up(begun.id, sending).await?;
                let response = response.map_err(Refusal::Dispatch)?;
                entry.worker = Some(response.worker);
                Ok(Some(response))
            }
        }
    }

    /// Waits, and reads what the web server has to say meanwhile.
    async fn unless_given_up<T>(&mut self, id: u16, wait: impl Future<Output = T>) -> Result<T, Failure> {
        let mut wait = pin!(wait);
        poll_fn(|cx| {
            if let Poll::Ready(done) = wait.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            self.wire.poll_end(cx, id).map(|end| match end {
                Ok(()) => Err(Failure::Aborted),
                Err(lost) => Err(lost.into()),
            })
        })
        .await
    }

    /// Passes a worker's response on, but for its end.
    async fn relay(&mut self, id: u16, response: Response, entry: &mut Entry) -> Result<(), Failure> {
        let Response {
            status,
            reason,
            mut headers,
            mut body,
            ..
        } = response;
        reply::drop_hop_by_hop(&mut headers);
        let has_body = entry.takes_body(status);
        let whole = match &mut body {
            ResponseBody::Whole(bytes) if has_body => Some(bytes.take().unwrap_or_default()),
            _ => None,
        };
        if let Some(bytes) = &whole
            && !headers.contains_key(header::CONTENT_LENGTH)
        {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        }
        entry.status = status;
        let mut first = answer::head(status, &reason, &headers);
        if let Some(bytes) = whole {
            entry.bytes += bytes.len() as u64;
            first.extend_from_slice(&bytes);
        }
        answer::put(&mut self.wire.output, id, &first);
        while let Some(frame) = self.unless_given_up(id, body.frame()).await? {
            match frame.map(http_body::Frame::into_data) {
                Ok(Ok(data)) if has_body => {
                    entry.bytes += data.len() as u64;
                    answer::put(&mut self.wire.output, id, &data);
                    if !body.is_end_stream() {
                        self.wire.flush(&self.config.limits).await?;
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    // Whoever waits for the rest must not take this for the end.
                    entry.ending = reply::dispatch_outcome(&error).1;
                    answer::put_log(&mut self.wire.output, id, &Note(entry, &error).to_string());
                    self.wire.flush(&self.config.limits).await?;
                    return Err(Lost::Cut.into());
                }
            }
        }
        entry.ending = Ending::Ok;
        Ok(())
    }

    /// Answers for the server itself.
    fn refuse(&mut self, id: u16, refusal: &Refusal, entry: &mut Entry) {
        reply::report(entry.id, refusal);
        (entry.status, entry.ending) = refusal.outcome();
        let (head, content) = reply::refused(entry.id, refusal, &entry.method()).into_parts();
        let mut headers = head.headers;
        headers.remove(header::SERVER);
        headers.remove(header::CONNECTION);
        let out = &mut self.wire.output;
        let why: &dyn fmt::Display = match refusal {
            Refusal::Dispatch(error) => error,
            Refusal::BadRequest(why) => why,
            _ => &entry.status.canonical_reason().unwrap_or_default(),
        };
        answer::put_log(out, id, &Note(entry, why).to_string());
        answer::put(out, id, &answer::head(entry.status, b"", &headers));
        if let Content::Whole(page) = content {
            entry.bytes = page.len() as u64;
            answer::put(out, id, &page);
        }
        answer::put_end(out, id);
    }

    /// php-fpm's answer for a file that is no script.
    fn deny(&mut self, id: u16, path: &[u8], entry: &mut Entry) {
        const PAGE: &[u8] = b"Access denied.\n";
        (entry.status, entry.ending) = (StatusCode::FORBIDDEN, Ending::Refused);
        let path = String::from_utf8_lossy(path);
        let line = format!("Access to the script '{path}' has been denied (see fastcgi.limit_extensions)");
        let html = HeaderValue::from_static("text/html; charset=UTF-8");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, html)]);
        let out = &mut self.wire.output;
        answer::put_log(out, id, &line);
        answer::put(out, id, &answer::head(entry.status, b"", &headers));
        if entry.takes_body(entry.status) {
            entry.bytes = PAGE.len() as u64;
            answer::put(out, id, PAGE);
        }
    }
}

/// A line for the web server's log: which request of ours, and why it is not answered as asked.
struct Note<'a>(&'a Entry, &'a dyn fmt::Display);

impl fmt::Display for Note<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hearth: request {} ({}): {}", self.0.id, self.0.ending, self.1)
    }
}
