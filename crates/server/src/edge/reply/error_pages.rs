//! Pages of the site's own for errors.
//!
//! A page is a file, read when the site is made, or the path of a URL, which is answered as if it had been asked for. Whatever it is,
//! status and headers stay those of the error. A page that fails is replaced by the server's own. Called by `exchange`. Runs in:
//! server, on a reactor.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode, request};
use tracing::warn;

use super::body::Content;
use crate::config::{ErrorPage, PAGE_BYTES, Pool};
use crate::dispatch::{Request, RequestBody, RequestId};
use crate::edge::connection::Shared;
use crate::edge::exchange::file_asked;
use crate::edge::files::shelf;
use crate::edge::params::{self, Source};
use crate::edge::record::Record;
use crate::edge::reply::{self, Refusal};
use crate::edge::site::Site;
use crate::edge::site::route::{self, Route, Router};
use crate::edge::{Backend, files};
use crate::rights::Rights;

/// The pages of a pool.
#[derive(Debug, Default)]
pub(in crate::edge) struct Pages {
    pages: Vec<(String, Page)>,
    intercepts: bool,
}

/// A page.
#[derive(Debug)]
pub(super) enum Page {
    /// Its text, and its type. `{status}`, `{reason}` and `{id}` stand for what they say.
    Text(String, HeaderValue),
    /// What is to be asked for; `{status}` is the status.
    Path(String),
}

impl Pages {
    pub(in crate::edge) fn new(pool: &Pool) -> Self {
        let (pages, rights) = (pool.error_pages.clone(), pool.rights.clone());
        let read_all = move || {
            let page = |(status, page)| Some((status, read(&page, &rights)?));
            pages.into_iter().filter_map(page).collect()
        };
        let pages = if pool.error_pages.is_empty() {
            Vec::new()
        } else {
            pool.rights.lend(&pool.dir, read_all).unwrap_or_else(|error| {
                warn!(pool = pool.name, %error, "error pages not read");
                Vec::new()
            })
        };
        Self {
            pages,
            intercepts: pool.intercept_errors,
        }
    }

    pub(in crate::edge) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// That of the status itself, else that of its class.
    pub(super) fn find(&self, status: StatusCode) -> Option<&Page> {
        let named = |name: &str| self.pages.iter().find(|(of, _)| of == name);
        let class = if status.is_server_error() { "5xx" } else { "4xx" };
        named(status.as_str())
            .or_else(|| named(class))
            .map(|(_, page)| page)
    }

    /// Whether a script's answer is replaced. Not that of 401: it says how to log in.
    pub(in crate::edge) fn intercepts(&self, status: StatusCode) -> bool {
        let error = status.is_client_error() || status.is_server_error();
        self.intercepts && error && status != StatusCode::UNAUTHORIZED && self.find(status).is_some()
    }
}

/// On a thread with these rights.
fn read(page: &ErrorPage, rights: &Rights) -> Option<Page> {
    let path = match page {
        ErrorPage::Path(path) => return Some(Page::Path(path.clone())),
        ErrorPage::File(path) => path,
    };
    let kind = mime_guess::from_path(path).first_raw().unwrap_or("text/html");
    let kind = if kind.starts_with("text/") {
        HeaderValue::try_from(format!("{kind}; charset=utf-8")).ok()?
    } else {
        HeaderValue::from_static(kind)
    };
    match shelf::read_text(path, PAGE_BYTES, rights) {
        Ok(text) => Some(Page::Text(text, kind)),
        Err(error) => {
            warn!(path = %path.display(), %error, "error page not read");
            None
        }
    }
}

/// A pool of a site.
pub(in crate::edge) struct Place<P> {
    pub(in crate::edge) site: Arc<Site<P>>,
    pub(in crate::edge) pool: usize,
}

/// The text of a page.
fn text_of(page: &str, status: StatusCode, id: RequestId) -> Bytes {
    let filled = page
        .replace("{status}", status.as_str())
        .replace("{reason}", status.canonical_reason().unwrap_or("Error"))
        .replace("{id}", &id.to_string());
    Bytes::from(filled)
}

/// The site's own page for an error in place of `plain`, if it has one that works.
pub(in crate::edge) async fn stand_in<B: Backend>(
    (head, record): (&request::Parts, &Record),
    refusal: &Refusal,
    (shared, place): (&Shared<B>, Place<B::Pools>),
    plain: http::Response<Content>,
) -> http::Response<Content> {
    let status = plain.status();
    // To whoever writes the code its own page says more.
    let broken = matches!(refusal, Refusal::Broken(_));
    let router = place.site.router(place.pool).filter(|_| !broken);
    let Some((router, page)) = router.and_then(|router| Some((router, router.pages().find(status)?))) else {
        return plain;
    };
    let found = match page {
        Page::Text(text, kind) => {
            let mut response = http::Response::new(Content::Whole(text_of(text, status, record.id)));
            response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
            Some(response)
        }
        Page::Path(target) => {
            let target = target.replace("{status}", status.as_str());
            // No worker is asked to excuse the workers.
            let scripts = !matches!(refusal, Refusal::Dispatch(_));
            by_path((head, record, scripts), &target, (shared, &place, router)).await
        }
    };
    let Some(found) = found else { return plain };
    reply::paged(plain, found, &head.method)
}

/// What a GET of `target` is answered with, by `scripts` too if they may. `None`: no page.
async fn by_path<B: Backend>(
    (head, record, scripts): (&request::Parts, &Record, bool),
    target: &str,
    (shared, place, router): (&Shared<B>, &Place<B::Pools>, &Router),
) -> Option<http::Response<Content>> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = route::decode(path).ok()?;
    let mut head = head.clone();
    head.method = Method::GET;
    for name in [
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::TRANSFER_ENCODING,
        header::RANGE,
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        header::IF_MODIFIED_SINCE,
        header::IF_UNMODIFIED_SINCE,
    ] {
        head.headers.remove(name);
    }
    let script = match router.route(&path, &shared.files, record.started).ok()? {
        Route::File(file) => {
            let asked = file_asked(&head, (&shared.sites.files, &place.site), router, (None, false));
            return files::serve(&asked, file).await.ok();
        }
        Route::Script(script) if scripts => script,
        Route::Script(_) | Route::AddSlash(_) => return None,
    };
    let id = RequestId::next();
    let source = Source {
        id,
        head: &head,
        script: &script,
        query,
        root: router.root(),
        addresses: record.addresses(),
        body: None,
    };
    let request = Request {
        id,
        head: params::encode(&source),
        body: RequestBody::Empty,
        idempotent: true,
        interim: None,
    };
    let response = shared
        .backend
        .send((&place.site.pools, place.pool), request)
        .await
        .ok()?;
    Some(reply::from_script(response, &Method::GET))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_status_goes_before_that_of_its_class() {
        let page = |name: &str| (name.to_owned(), Page::Path(format!("/{name}")));
        let pages = Pages {
            pages: vec![page("4xx"), page("404"), page("5xx")],
            intercepts: true,
        };
        let found = |status: u16| match pages.find(StatusCode::from_u16(status).unwrap()) {
            Some(Page::Path(path)) => path.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (found(404), found(403), found(502)),
            ("/404".into(), "/4xx".into(), "/5xx".into())
        );
        for (status, intercepted) in [(200, false), (302, false), (401, false), (404, true), (500, true)] {
            assert_eq!(
                pages.intercepts(StatusCode::from_u16(status).unwrap()),
                intercepted,
                "{status}"
            );
        }
    }
}
