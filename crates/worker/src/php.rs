//! PHP as the rest of the worker sees it: the declarations of `sapi/sapi.h` and safe wrappers around them.
//!
//! What a callback does is the business of whoever implements [`Exchange`]; this file only carries calls across the
//! border. A callback that panics ends the process: nothing unwinds into C.
//!
//! Runs in: zygote | worker. Called by: `run`, `serve`, `zygote`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;

use ipc::ask::Ask;
use ipc::control::Ini;

use crate::touched::{Memory, Touched};

mod leak;
mod request;

pub(crate) use leak::{Find, Leak};
pub(crate) use request::{Param, Request, Str};

/// What PHP asks of the host while it serves one request. Nothing in here may call PHP.
pub(crate) trait Exchange {
    /// Appends to the response body. A short count: the client is gone.
    fn write(&mut self, bytes: &[u8]) -> usize;
    /// Pushes what was written towards the client. False: the client is gone.
    fn flush(&mut self) -> bool;
    /// Sends a response head; `lines` are `Name: value`. Status 1xx is an interim response.
    fn send_headers(&mut self, status: u16, reason: &[u8], lines: &[Str<'_>]) -> bool;
    /// Next bytes of the request body; 0 at its end.
    fn read_body(&mut self, buffer: &mut [u8]) -> usize;
    /// The response is complete; the script may go on.
    fn finish(&mut self);
    /// True once the client has gone.
    fn aborted(&mut self) -> bool;
    /// The request left this behind; see [`Php::find_leaks`].
    fn leak(&mut self, leak: &Leak<'_>);
    /// A line for the log; `level` is a syslog priority. No exchange: not within a request.
    fn log(exchange: Option<&mut Self>, level: i32, message: &[u8]);
    /// The application wants its code to be read anew.
    fn reload(&mut self) {}
    /// In a signal handler, so it must not allocate or lock: the request that the server's signal is about.
    fn asked() -> Asked {
        Asked::default()
    }
    /// In a signal handler, likewise: where PHP stands in `request`.
    fn stack(_request: u64, _text: &[u8]) {}
}

/// `sapi_asked`: what the server's last signal is about.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Its id; 0: none.
    pub(crate) request: u64,
    /// The limit that it has passed.
    pub(crate) limit_ms: u64,
}

/// Where a worker script stands when a call returns.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "C makes the values")]
pub(crate) enum State {
    /// It asks for a request.
    Waiting = 0,
    /// It is over.
    Ended = 1,
}

/// Why a worker script ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "C makes the values")]
pub(crate) enum End {
    /// It did not.
    None = 0,
    /// It ran to its end.
    Returned = 1,
    /// `exit()` outside of the handler.
    Exit = 2,
    /// An uncaught exception outside of the handler.
    Exception = 3,
    /// Fatal error, memory limit, time limit.
    Fatal = 4,
}

/// A class in PHP that the worker brings along. The texts live as long as the process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// In lower case.
    pub(crate) class_name: *const c_char,
    /// In the place of a file's name.
    pub(crate) name: *const c_char,
    /// Without `<?php`.
    pub(crate) code: *const c_char,
}

/// What of a warm-up came over to the script that serves: `sapi_warmth`, see `sapi.h` for each field.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Warmth {
    skipped: *const c_char,
    /// The script has ended over it.
    pub(crate) failed: bool,
    /// Classes that were loaded.
    pub(crate) classes: c_uint,
    /// Classes that were not found.
    pub(crate) missing: c_uint,
    /// Caches of functions that were put back.
    pub(crate) caches: c_uint,
    /// Caches of functions that were left empty.
    pub(crate) dropped: c_uint,
}

impl Warmth {
    /// Why nothing came over; `None`: it did.
    pub(crate) fn skipped(&self) -> Option<&'static str> {
        if self.skipped.is_null() {
            return None;
        }
        // SAFETY: a constant of the C side, which ends with a NUL.
        unsafe { CStr::from_ptr(self.skipped) }.to_str().ok()
    }
}

#[repr(C)]
struct Host {
    write: unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> usize,
    flush: unsafe extern "C" fn(*mut c_void) -> bool,
    send_headers: unsafe extern "C" fn(*mut c_void, c_int, Str<'_>, *const Str<'_>, usize) -> bool,
    read_body: unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> usize,
    finish: unsafe extern "C" fn(*mut c_void),
    aborted: unsafe extern "C" fn(*mut c_void) -> bool,
    leak: unsafe extern "C" fn(*mut c_void, *const Leak<'_>),
    log: unsafe extern "C" fn(*mut c_void, c_int, *const c_char, usize),
    reload: unsafe extern "C" fn(*mut c_void),
    asked: unsafe extern "C" fn(*mut Asked),
    stack: unsafe extern "C" fn(u64, *const c_char, usize),
}

unsafe extern "C" {
    fn sapi_boot(host: *const Host, ini: *const c_char, ini_path: *const c_char) -> bool;
    fn sapi_lock_setting(name: *const c_char) -> bool;
    fn sapi_has_setting(name: *const c_char) -> bool;
    fn sapi_compiles(script: *const c_char) -> bool;
    fn sapi_ini_loaded() -> *const c_char;
    fn sapi_ini_scanned() -> *const c_char;
    fn sapi_ini_value(name: *const c_char) -> *const c_char;
    fn sapi_stay_in_directory();
    fn sapi_keep_front_controllers(sources: *const Source, count: usize);
    fn sapi_start(script: *const c_char) -> State;
    fn sapi_once() -> bool;
    fn sapi_is_front_controller() -> bool;
    fn sapi_serve(exchange: *mut c_void, request: *const Request<'_>) -> State;
    fn sapi_find_leaks(which: Find);
    fn sapi_remember();
    fn sapi_compare(exchange: *mut c_void);
    fn sapi_run(exchange: *mut c_void, request: *const Request<'_>) -> c_int;
    fn sapi_seal();
    fn sapi_free_memory(ranges: *mut Memory, capacity: usize) -> usize;
    fn sapi_seal_problem() -> *const c_char;
    fn sapi_rewind();
    fn sapi_watch(ranges: *const Memory, count: usize);
    fn sapi_take_touched() -> *mut Touched;
    fn sapi_ended() -> End;
    fn sapi_exit_status() -> c_int;
    fn sapi_errors_are_500();
    fn sapi_tell_reads();
    fn sapi_after_fork();
    fn sapi_warm(on: bool);
    fn sapi_leave() -> State;
    fn sapi_warmed() -> Warmth;
    fn sapi_jit() -> bool;
    fn sapi_set_host(host: *const Host);
    fn sapi_answer(look: c_int, end: c_int);
    fn sapi_depute(process: c_int);
    fn sapi_php_version() -> *const c_char;
    fn sapi_post_max_size() -> i64;
    fn sapi_stop();
}

/// The table of callbacks for one kind of exchange.
struct Callbacks<E>(PhantomData<E>);

impl<E: Exchange> Callbacks<E> {
    const HOST: Host = Host {
        write: Self::write,
        flush: Self::flush,
        send_headers: Self::send_headers,
        read_body: Self::read_body,
        finish: Self::finish,
        aborted: Self::aborted,
        leak: Self::leak,
        log: Self::log,
        reload: Self::reload,
        asked: Self::asked,
        stack: Self::stack,
    };

    /// # Safety
    /// `exchange` is what [`Php::serve`] or [`Php::run`] handed down: an exclusive reference that lives until they return.
    unsafe fn of<'a>(exchange: *mut c_void) -> Option<&'a mut E> {
        // SAFETY: as the caller promises; null outside of a request.
        unsafe { exchange.cast::<E>().as_mut() }
    }

    unsafe extern "C" fn write(exchange: *mut c_void, bytes: *const c_char, len: usize) -> usize {
        // SAFETY: C passes on the exchange it was given.
        let exchange = unsafe { Self::of(exchange) };
        // SAFETY: C hands over `len` readable bytes for the length of the call.
        let bytes = unsafe { slice(bytes, len) };
        exchange.map_or(0, |exchange| exchange.write(bytes))
    }

    unsafe extern "C" fn reload(exchange: *mut c_void) {
        // SAFETY: C passes on the exchange it was given.
        if let Some(exchange) = unsafe { Self::of(exchange) } {
            exchange.reload();
        }
    }

    unsafe extern "C" fn asked(asked: *mut Asked) {
        // SAFETY: C hands over a variable of its own.
        unsafe { asked.write(E::asked()) }
    }

    unsafe extern "C" fn stack(request: u64, text: *const c_char, len: usize) {
        // SAFETY: C hands over `len` readable bytes for the length of the call.
        E::stack(request, unsafe { slice(text, len) });
    }

    unsafe extern "C" fn flush(exchange: *mut c_void) -> bool {
        // SAFETY: C passes on the exchange it was given.
        unsafe { Self::of(exchange) }.is_some_and(Exchange::flush)
    }

    unsafe extern "C" fn send_headers(
        exchange: *mut c_void,
        status: c_int,
        reason: Str<'_>,
        lines: *const Str<'_>,
        count: usize,
    ) -> bool {
        // SAFETY: C passes on the exchange it was given.
        let exchange = unsafe { Self::of(exchange) };
        // SAFETY: C hands over `count` lines for the length of the call.
        let lines = unsafe { std::slice::from_raw_parts(lines, count) };
        let status = u16::try_from(status).unwrap_or(500);
        exchange.is_some_and(|exchange| exchange.send_headers(status, reason.as_bytes(), lines))
    }

    unsafe extern "C" fn read_body(exchange: *mut c_void, buffer: *mut c_char, capacity: usize) -> usize {
        // SAFETY: C passes on the exchange it was given.
        let exchange = unsafe { Self::of(exchange) };
        // SAFETY: the buffer is PHP's, `capacity` bytes long, and nobody else touches it during the call; bytes of any
        // value are fine in it.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), capacity) };
        exchange.map_or(0, |exchange| exchange.read_body(buffer))
    }

    unsafe extern "C" fn finish(exchange: *mut c_void) {
        // SAFETY: C passes on the exchange it was given.
        if let Some(exchange) = unsafe { Self::of(exchange) } {
            exchange.finish();
        }
    }

    unsafe extern "C" fn aborted(exchange: *mut c_void) -> bool {
        // SAFETY: C passes on the exchange it was given.
        unsafe { Self::of(exchange) }.is_some_and(Exchange::aborted)
    }

    unsafe extern "C" fn leak(exchange: *mut c_void, leak: *const Leak<'_>) {
        // SAFETY: C passes on the exchange it was given.
        let exchange = unsafe { Self::of(exchange) };
        // SAFETY: C hands over a leak for the length of the call.
        if let (Some(exchange), Some(leak)) = (exchange, unsafe { leak.as_ref() }) {
            exchange.leak(leak);
        }
    }

    unsafe extern "C" fn log(exchange: *mut c_void, level: c_int, message: *const c_char, len: usize) {
        // SAFETY: C passes on the exchange it was given.
        let exchange = unsafe { Self::of(exchange) };
        // SAFETY: C hands over `len` readable bytes for the length of the call.
        E::log(exchange, level, unsafe { slice(message, len) });
    }
}

/// # Safety
/// `len` bytes at `bytes` are readable for as long as the result is used.
unsafe fn slice<'a>(bytes: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(bytes.cast(), len) }
}

/// PHP, booted in this process. There is one at most; it stays on the thread that booted it.
pub(crate) struct Php<E> {
    exchange: PhantomData<*mut E>,
}

#[allow(clippy::unused_self, reason = "having a Php is the proof that PHP is booted")]
impl<E: Exchange + 'static> Php<E> {
    /// Starts the engine. `ini` holds `name=value` lines that override the ini files; `ini_path` is a php.ini or a
    /// folder. `None` if PHP cannot start: the reason went to [`Exchange::log`] or stderr.
    pub(crate) fn boot(ini: &'static CStr, ini_path: Option<&'static CStr>) -> Option<Self> {
        let ini_path = ini_path.map_or(ptr::null(), CStr::as_ptr);
        let host: &'static Host = &Callbacks::<E>::HOST;
        // SAFETY: all three live for the rest of the process, and the callbacks match `sapi_host` (sapi.h).
        unsafe { sapi_boot(host, ini.as_ptr(), ini_path) }.then_some(Self {
            exchange: PhantomData,
        })
    }

    /// Makes the setting `name` one that no script changes. False: there is none of that name.
    pub(crate) fn lock_setting(&mut self, name: &CStr) -> bool {
        // SAFETY: PHP is booted; the string lives until the call returns.
        unsafe { sapi_lock_setting(name.as_ptr()) }
    }

    /// Whether PHP and its extensions have a setting of that name.
    pub(crate) fn has_setting(&self, name: &CStr) -> bool {
        // SAFETY: PHP is booted; the string lives until the call returns.
        unsafe { sapi_has_setting(name.as_ptr()) }
    }

    /// Whether PHP can compile the script; what is wrong goes to [`Exchange::log`]. None of it runs.
    pub(crate) fn compiles(&mut self, script: &CStr) -> bool {
        // SAFETY: PHP is booted and runs no script; the string lives until the call returns.
        unsafe { sapi_compiles(script.as_ptr()) }
    }

    /// The ini files that PHP has read, and what they say of errors, before a script changes that, and of bodies.
    pub(crate) fn ini(&self) -> Ini {
        let text = |text: *const c_char| -> Option<String> {
            // SAFETY: null, or a string of PHP's that no script runs to change.
            let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?;
            Some(text.to_string_lossy().into_owned()).filter(|text| !text.is_empty())
        };
        // SAFETY: PHP is booted; the name lives until the call returns.
        let value = |name: &CStr| text(unsafe { sapi_ini_value(name.as_ptr()) });
        let is_on = |value: Option<String>| {
            let words = ["on", "yes", "true", "stdout"];
            value.is_some_and(|value| {
                value.parse::<i64>() == Ok(1) || words.iter().any(|word| value.eq_ignore_ascii_case(word))
            })
        };
        // SAFETY: PHP is booted.
        let loaded = text(unsafe { sapi_ini_loaded() });
        // SAFETY: as above.
        let scanned = text(unsafe { sapi_ini_scanned() }).unwrap_or_default();
        let scanned = scanned.split(',').map(str::trim).filter(|file| !file.is_empty());
        Ini {
            loaded,
            scanned: scanned.map(str::to_owned).collect(),
            display_errors: is_on(value(c"display_errors")),
            log_errors: is_on(value(c"log_errors")),
            error_log: value(c"error_log"),
            // SAFETY: PHP is booted.
            post_max_size: u64::try_from(unsafe { sapi_post_max_size() }).unwrap_or(0),
        }
    }

    /// Fatal errors have status 500, also where PHP shows them in the response.
    pub(crate) fn errors_are_500(&mut self) {
        // SAFETY: PHP is booted; sets a flag.
        unsafe { sapi_errors_are_500() }
    }

    /// Scripts do not change to their own folder.
    pub(crate) fn stay_in_directory(&mut self) {
        // SAFETY: PHP is booted; sets a flag.
        unsafe { sapi_stay_in_directory() }
    }

    /// Logs each read of a request's variables while a script boots, which makes PHP slower.
    pub(crate) fn tell_reads(&mut self) {
        // SAFETY: PHP is booted and runs no script; C installs handlers that live as long as the process.
        unsafe { sapi_tell_reads() }
    }

    /// Scripts may wait for their request as a front controller does that knows nothing of Hearth.
    pub(crate) fn keep_front_controllers(&mut self, sources: &'static [Source]) {
        // SAFETY: PHP is booted and runs no script; the slice and what it points to live as long as the process.
        unsafe { sapi_keep_front_controllers(sources.as_ptr(), sources.len()) }
    }

    /// Runs the worker script up to its first `hearth_handle_request()`, or to `hearth_request()`.
    pub(crate) fn start(&mut self, script: &CStr) -> State {
        // SAFETY: PHP is booted; the string lives until the call returns.
        unsafe { sapi_start(script.as_ptr()) }
    }

    /// Whether the script has called `hearth_request()`: it serves one request and ends with it.
    pub(crate) fn serves_once(&self) -> bool {
        // SAFETY: PHP is booted; reads one variable.
        unsafe { sapi_once() }
    }

    /// Whether it waits for that request as a front controller, and knows nothing of `hearth_request()`.
    pub(crate) fn is_front_controller(&self) -> bool {
        // SAFETY: PHP is booted; reads one variable.
        unsafe { sapi_is_front_controller() }
    }

    /// Has the waiting worker script serve one request.
    pub(crate) fn serve(&mut self, exchange: &mut E, request: &Request<'_>) -> State {
        // SAFETY: PHP is booted; both references live until the call returns, and C keeps neither.
        unsafe { sapi_serve(ptr::from_mut(exchange).cast(), request) }
    }

    /// The next [`Self::serve`] tells [`Exchange::leak`] what its request leaves behind.
    pub(crate) fn find_leaks(&mut self, which: Find) {
        // SAFETY: sets one variable.
        unsafe { sapi_find_leaks(which) }
    }

    /// Remembers what there is, for [`Self::compare`].
    pub(crate) fn remember(&mut self) {
        // SAFETY: PHP is booted; without a waiting script nothing happens.
        unsafe { sapi_remember() }
    }

    /// Tells [`Exchange::leak`] what requests have left behind since [`Self::remember`].
    pub(crate) fn compare(&mut self, exchange: &mut E) {
        // SAFETY: as above; the reference lives until the call returns, and C does not keep it.
        unsafe { sapi_compare(ptr::from_mut(exchange).cast()) }
    }

    /// Tells the waiting worker script that there are no more requests, and lets it end.
    pub(crate) fn drain(&mut self) -> State {
        // SAFETY: PHP is booted; null is the contract's word for "no more".
        unsafe { sapi_serve(ptr::null_mut(), ptr::null()) }
    }

    /// Runs the script of `request` from the top, as php-fpm does. Its exit status.
    pub(crate) fn run(&mut self, exchange: &mut E, request: &Request<'_>) -> i32 {
        // SAFETY: PHP is booted; both references live until the call returns, and C keeps neither.
        unsafe { sapi_run(ptr::from_mut(exchange).cast(), request) }
    }

    /// True: the scripts from here on only warm. False: the next one serves.
    pub(crate) fn warm(&mut self, on: bool) {
        // SAFETY: PHP is booted.
        unsafe { sapi_warm(on) }
    }

    /// Ends the waiting worker script and its PHP request; another may be started then.
    pub(crate) fn leave(&mut self) -> State {
        // SAFETY: PHP is booted.
        unsafe { sapi_leave() }
    }

    /// What the script that serves got of the warm-up.
    pub(crate) fn warmed(&self) -> Warmth {
        // SAFETY: copies a few numbers; the text is a constant.
        unsafe { sapi_warmed() }
    }

    /// Whether PHP compiles hot code.
    pub(crate) fn has_jit(&self) -> bool {
        // SAFETY: PHP is booted; reads settings.
        unsafe { sapi_jit() }
    }

    /// Another kind of exchange from here on. Not to be called within a request.
    pub(crate) fn with_exchange<F: Exchange + 'static>(self) -> Php<F> {
        let host: &'static Host = &Callbacks::<F>::HOST;
        // SAFETY: the table lives for the rest of the process, and its callbacks match `sapi_host` (sapi.h).
        unsafe { sapi_set_host(host) };
        Php {
            exchange: PhantomData,
        }
    }

    /// Makes what the worker script has booted the state that every request starts from. It must be waiting.
    pub(crate) fn seal(&mut self) {
        // SAFETY: PHP is booted and waits for a request.
        unsafe { sapi_seal() }
    }

    /// Pieces of memory that hold nothing, in no order, but for the first one: the unused part of PHP's stack.
    pub(crate) fn free_memory(&self) -> Vec<Range<usize>> {
        let mut ranges = vec![Memory::NONE; 4096];
        // SAFETY: C fills at most as many entries as it is told there are.
        let count = unsafe { sapi_free_memory(ranges.as_mut_ptr(), ranges.len()) };
        ranges.iter().take(count).map(Memory::addresses).collect()
    }

    /// What could not be sealed; requests are dearer then.
    pub(crate) fn seal_problem(&self) -> Option<&'static str> {
        // SAFETY: reads the heap's description.
        let problem = unsafe { sapi_seal_problem() };
        if problem.is_null() {
            return None;
        }
        // SAFETY: a string literal.
        let problem = unsafe { CStr::from_ptr(problem) };
        problem.to_str().ok()
    }

    /// Puts back the SAPI's own variables.
    pub(crate) fn rewind(&mut self) {
        // SAFETY: PHP was sealed, and its memory has been put back.
        unsafe { sapi_rewind() }
    }

    /// Has calls that change the process watched. `image` must stay where it is as long as the process lives.
    pub(crate) fn watch(&mut self, image: &'static [Memory], last_boot_fd: i32) {
        // SAFETY: the slice is static.
        unsafe { sapi_watch(image.as_ptr(), image.len()) };
        // SAFETY: stops the watching, which PHP has not begun.
        let touched = unsafe { sapi_take_touched() };
        // SAFETY: one variable of C, which is not otherwise borrowed.
        let touched = unsafe { &mut *touched };
        touched.last_boot_fd = last_boot_fd;
    }

    /// What the last request touched.
    pub(crate) fn touched(&mut self) -> &Touched {
        // SAFETY: PHP stands still.
        let touched = unsafe { sapi_take_touched() };
        // SAFETY: one variable of C, which only requests write to: none runs while `self` is borrowed.
        unsafe { &*touched }
    }

    /// Why the last call returned [`State::Ended`].
    pub(crate) fn ended(&self) -> End {
        // SAFETY: reads one variable.
        unsafe { sapi_ended() }
    }

    /// The exit status of the worker script, once it has ended.
    pub(crate) fn exit_status(&self) -> i32 {
        // SAFETY: reads one variable.
        unsafe { sapi_exit_status() }
    }

    /// To be called once in a worker, first thing after the fork.
    #[allow(dead_code, reason = "for the zygote's workers; `run` does not fork")]
    pub(crate) fn after_fork(&mut self) {
        // SAFETY: PHP is booted and this process has one thread.
        unsafe { sapi_after_fork() }
    }

    /// In a worker: takes the signals by which the server asks about a request.
    pub(crate) fn answer_signals(&mut self) {
        // SAFETY: installs handlers for two signals that nobody else has, and their stack.
        unsafe { sapi_answer(Ask::Look.signal(), Ask::End.signal()) }
    }

    /// Ends the engine.
    pub(crate) fn stop(self) {
        // SAFETY: PHP is booted, and is not used any more: `self` is gone.
        unsafe { sapi_stop() }
    }
}

/// Signals about a request go to `child` from here on, which runs it in this process's place; `None`: no more.
pub(crate) fn depute(child: Option<rustix::process::Pid>) {
    // SAFETY: sets one variable of C, in one store.
    unsafe { sapi_depute(child.map_or(0, |pid| pid.as_raw_nonzero().get())) }
}

/// For example `8.2.36`.
#[allow(dead_code, reason = "for the log of the zygote")]
pub(crate) fn version() -> &'static str {
    // SAFETY: reads what the engine says of itself; needs no boot.
    let version = unsafe { sapi_php_version() };
    // SAFETY: a NUL-terminated string that lives as long as the process.
    let version = unsafe { CStr::from_ptr(version) };
    version.to_str().unwrap_or("unknown")
}
