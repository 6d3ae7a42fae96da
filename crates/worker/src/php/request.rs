//! A request as C reads it: `sapi_str`, `sapi_param` and `sapi_request` of `sapi/sapi.h`.
//!
//! Runs in: zygote | worker. Made by: `serve`, `warm`.

use std::ffi::{c_char, c_uint};
use std::marker::PhantomData;
use std::ptr;

/// Bytes with a length, borrowed from whoever fills a [`Request`].
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Str<'a> {
    bytes: *const c_char,
    len: usize,
    owner: PhantomData<&'a [u8]>,
}

impl<'a> Str<'a> {
    /// No value at all, which is not the same as an empty one.
    pub(crate) const ABSENT: Self = Self {
        bytes: ptr::null(),
        len: 0,
        owner: PhantomData,
    };

    /// The bytes before the NUL that ends `with_nul`; `None` if it does not end with one.
    pub(crate) fn new(with_nul: &'a [u8]) -> Option<Self> {
        let (last, bytes) = with_nul.split_last()?;
        (*last == 0).then_some(Self {
            bytes: bytes.as_ptr().cast(),
            len: bytes.len(),
            owner: PhantomData,
        })
    }

    /// The bytes, without the NUL.
    pub(crate) fn as_bytes(&self) -> &'a [u8] {
        if self.bytes.is_null() {
            return &[];
        }
        // SAFETY: `bytes` and `len` come from a slice that lives for 'a (new), or from C for the length of a call.
        unsafe { std::slice::from_raw_parts(self.bytes.cast(), self.len) }
    }
}

/// One CGI variable.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Param<'a> {
    /// For example `HTTP_HOST`.
    pub(crate) name: Str<'a>,
    /// Any bytes.
    pub(crate) value: Str<'a>,
}

/// `sapi_request`: see `sapi.h` for each field.
#[repr(C)]
pub(crate) struct Request<'a> {
    /// Request id, as in the log.
    pub(crate) id: u64,
    /// `REQUEST_METHOD`.
    pub(crate) method: Str<'a>,
    /// `REQUEST_URI`.
    pub(crate) uri: Str<'a>,
    /// `QUERY_STRING`.
    pub(crate) query: Str<'a>,
    /// `CONTENT_TYPE`.
    pub(crate) content_type: Str<'a>,
    /// `HTTP_COOKIE`.
    pub(crate) cookies: Str<'a>,
    /// `HTTP_AUTHORIZATION`.
    pub(crate) authorization: Str<'a>,
    /// `SCRIPT_FILENAME`.
    pub(crate) script: Str<'a>,
    /// Bytes of the body; -1 unknown.
    pub(crate) content_length: i64,
    /// 1001 for HTTP/1.1.
    pub(crate) proto_num: c_uint,
    params: *const Param<'a>,
    param_count: usize,
}

impl<'a> Request<'a> {
    /// A request with these parameters, everything else absent.
    pub(crate) fn new(id: u64, params: &'a [Param<'a>]) -> Self {
        Self {
            id,
            method: Str::ABSENT,
            uri: Str::ABSENT,
            query: Str::ABSENT,
            content_type: Str::ABSENT,
            cookies: Str::ABSENT,
            authorization: Str::ABSENT,
            script: Str::ABSENT,
            content_length: -1,
            proto_num: 1001,
            params: params.as_ptr(),
            param_count: params.len(),
        }
    }
}
