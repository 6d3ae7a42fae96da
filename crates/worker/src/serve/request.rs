//! The request that C gets, from the bytes of its head.
//!
//! Runs in: worker, zygote (warm-up).

use ipc::head::{Known, RequestReader};

use crate::php::{Param, Request, Str};

/// Points a request at the variables in `head`, which has been checked by `Host::begin`. `params` is filled.
pub(crate) fn read<'r, 'head: 'r>(head: &'head [u8], params: &'r mut Vec<Param<'head>>) -> Request<'r> {
    let Some(reader) = RequestReader::new(head) else {
        return Request::new(0, &[]);
    };
    params.extend(reader.params_with_nul().filter_map(|param| {
        Some(Param {
            name: Str::new(param.name)?,
            value: Str::new(param.value)?,
        })
    }));
    let known = |which| {
        reader
            .known_with_nul(which)
            .and_then(Str::new)
            .unwrap_or(Str::ABSENT)
    };
    let mut request = Request::new(reader.id(), params);
    request.method = known(Known::Method);
    request.uri = known(Known::Uri);
    request.query = known(Known::Query);
    request.content_type = known(Known::ContentType);
    request.cookies = known(Known::Cookie);
    request.authorization = known(Known::Authorization);
    request.script = known(Known::Script);
    // Known to the byte: the server has the whole body before it queues the request.
    request.content_length = reader
        .body()
        .map_or(0, |(_, len)| i64::try_from(len).unwrap_or(i64::MAX));
    request.proto_num = match known(Known::Protocol).as_bytes() {
        b"HTTP/1.0" => 1000,
        protocol if protocol.starts_with(b"HTTP/2") => 2000,
        _ => 1001,
    };
    request
}

/// Empties `params` for the next request, and keeps its memory: the standard library collects a vector into itself where the
/// types allow it.
pub(super) fn recycle(mut params: Vec<Param<'_>>) -> Vec<Param<'static>> {
    params.clear();
    params
        .into_iter()
        .map(|_| Param {
            name: Str::ABSENT,
            value: Str::ABSENT,
        })
        .collect()
}
