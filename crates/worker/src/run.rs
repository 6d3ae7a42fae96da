//! `hearth-worker run SCRIPT`: requests without a server, for `.phpt` tests and for trying things out.
//!
//! Without `--resident` the script runs once, as one classic request; with it, the script boots as a worker script and
//! serves the given requests one after the other in this process. Response bodies go to stdout, log lines to stderr.
//!
//! The options of php-cli that `run-tests.php` uses are understood: `-d NAME=VALUE`, `-c PATH`, `-n`, `-f SCRIPT`, `--`.
//!
//! Runs in: a process of its own. Called by: `main`.

use std::ffi::{CString, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::php::{End, Exchange, Find, Leak, Param, Php, Request, State, Str};

const USAGE: &str = "\
usage: hearth-worker run [OPTION]… SCRIPT

  --resident [N]        boot SCRIPT as a worker script and serve N requests (default: the given ones, or 1)
  --request 'GET /x?y'  add a request; --header and --body that follow belong to it
  --header 'Name: v'    a header of the last request
  --body TEXT           its body; @FILE reads a file
  --leaks               say what each request leaves behind, with --resident; no values of the first
  --head                print status and headers of each response too
  --gone-after BYTES    the client of the last request leaves after so many body bytes
  -d NAME=VALUE         an ini setting
  -c PATH               php.ini, or the folder it is in
  -n                    no php.ini
";

/// Runs the command; `arguments` are those after `run`.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match Options::parse(arguments) {
        Ok(options) => execute(options).unwrap_or_else(|error| fail(&error)),
        Err(error) => fail(&format!("{error}\n\n{USAGE}")),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("hearth-worker: {message}");
    ExitCode::from(2)
}

fn execute(options: Options) -> Result<ExitCode, String> {
    let Options {
        script,
        ini,
        ini_path,
        resident,
        leaks,
        count,
        head,
        mut requests,
    } = options;
    let script =
        std::path::absolute(&script).map_err(|error| format!("the path of {}: {error}", script.display()))?;
    requests.resize_with(count.unwrap_or(1).max(requests.len()), Synthetic::default);

    // PHP keeps these two for its life, which is the process's.
    let ini: &'static CString = Box::leak(Box::new(c_string(ini)?));
    let ini_path = match ini_path {
        Some(path) => Some(&*Box::leak(
            c_string(path.into_os_string().into_vec())?.into_boxed_c_str(),
        )),
        None => None,
    };
    let mut php = Php::<Recorder>::boot(ini, ini_path).ok_or("PHP cannot start; the lines above say why")?;
    let status = if resident {
        serve_all(&mut php, &script, &requests, (head, leaks))?
    } else {
        let mut status = 0;
        for (number, request) in requests.iter().enumerate() {
            status = request.with(number, &script, head, |exchange, request| {
                php.run(exchange, request)
            });
        }
        status
    };
    php.stop();
    Ok(ExitCode::from(u8::try_from(status & 0xff).unwrap_or(u8::MAX)))
}

fn serve_all(
    php: &mut Php<Recorder>,
    script: &Path,
    requests: &[Synthetic],
    (head, leaks): (bool, bool),
) -> Result<i32, String> {
    let path = c_string(script.as_os_str().as_bytes().to_vec())?;
    let mut state = php.start(&path);
    for (number, request) in requests.iter().enumerate() {
        if state == State::Ended && number > 0 && php.serves_once() {
            state = php.start(&path);
        }
        if state == State::Waiting {
            if leaks {
                php.find_leaks(if number == 0 { Find::Process } else { Find::All });
            }
            state = request.with(number, script, head, |exchange, request| {
                php.serve(exchange, request)
            });
        }
    }
    if state == State::Waiting {
        php.drain();
    }
    let end = php.ended();
    // By exit(), with a script that is its request.
    if end == End::Returned || end == End::Exit && php.serves_once() {
        return Ok(0);
    }
    eprintln!("hearth-worker: the script ended: {end:?}");
    Ok(255)
}

fn c_string(bytes: Vec<u8>) -> Result<CString, String> {
    CString::new(bytes).map_err(|error| format!("an argument with a NUL byte: {error}"))
}

struct Options {
    script: PathBuf,
    ini: Vec<u8>,
    ini_path: Option<PathBuf>,
    resident: bool,
    leaks: bool,
    count: Option<usize>,
    head: bool,
    requests: Vec<Synthetic>,
}

impl Options {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut arguments = arguments.peekable();
        let mut script = None;
        let mut options = Self {
            script: PathBuf::new(),
            ini: Vec::new(),
            ini_path: None,
            resident: false,
            leaks: false,
            count: None,
            head: false,
            requests: vec![],
        };
        while let Some(argument) = arguments.next() {
            let name = argument.to_string_lossy().into_owned();
            match name.as_str() {
                "--resident" => {
                    options.resident = true;
                    options.count = arguments.peek().and_then(|count| count.to_str()?.parse().ok());
                    if options.count.is_some() {
                        arguments.next();
                    }
                }
                "--head" => options.head = true,
                "--leaks" => options.leaks = true,
                "-n" => options.ini_path = Some(PathBuf::from("/dev/null")),
                "-q" | "--" => {}
                "-f" | "-c" | "-d" | "--request" | "--header" | "--body" | "--gone-after" => {
                    let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
                    if name == "-f" {
                        script = Some(value);
                    } else {
                        options.set(&name, value)?;
                    }
                }
                _ if name.starts_with('-') => return Err(format!("{name} is no option")),
                _ => script = Some(argument),
            }
        }
        options.script = script.ok_or("SCRIPT is missing")?.into();
        Ok(options)
    }

    fn set(&mut self, name: &str, value: OsString) -> Result<(), String> {
        let request = match name {
            "-c" => {
                self.ini_path = Some(value.into());
                return Ok(());
            }
            "-d" => {
                self.ini.extend_from_slice(&ini_line(value.as_bytes()));
                return Ok(());
            }
            "--request" => {
                self.requests.push(Synthetic::parse(&value.to_string_lossy()));
                return Ok(());
            }
            _ => self
                .requests
                .last_mut()
                .ok_or_else(|| format!("{name} needs a --request before it"))?,
        };
        match name {
            "--header" => request.headers.push(value.into_vec()),
            "--gone-after" => request.gone_after = value.to_str().and_then(|count| count.parse().ok()),
            _ => {
                request.body = match value.as_bytes() {
                    [b'@', path @ ..] => std::fs::read(Path::new(std::ffi::OsStr::from_bytes(path)))
                        .map_err(|error| format!("reading {}: {error}", value.display()))?,
                    text => text.to_vec(),
                }
            }
        }
        Ok(())
    }
}

/// `a=/b` => `a="/b"`, as php-cli does it: such a value would not be read as one string.
fn ini_line(setting: &[u8]) -> Vec<u8> {
    let (name, value) = match setting.iter().position(|byte| *byte == b'=') {
        Some(at) => setting.split_at(at + 1),
        None => (setting, &b"=1"[..]),
    };
    let plain = value
        .first()
        .is_none_or(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'"' | b'\''));
    let quote: &[u8] = if plain { b"" } else { b"\"" };
    [name, quote, value, quote, b"\n"].concat()
}

/// A request made up from the command line.
struct Synthetic {
    method: String,
    uri: String,
    headers: Vec<Vec<u8>>,
    body: Vec<u8>,
    gone_after: Option<usize>,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self::parse("GET /")
    }
}

impl Synthetic {
    fn parse(line: &str) -> Self {
        let (method, uri) = line.split_once(' ').unwrap_or(("GET", line));
        Self {
            method: method.into(),
            uri: uri.into(),
            headers: vec![],
            body: vec![],
            gone_after: None,
        }
    }

    /// The CGI variables, as nginx with its stock `fastcgi_params` makes them and php-fpm shows them.
    fn variables(&self, script: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (path, query) = self.uri.split_once('?').unwrap_or((&self.uri, ""));
        let name = script.file_name().unwrap_or_default().as_bytes();
        let script_name = [b"/", name].concat();
        let path_info = path
            .as_bytes()
            .strip_prefix(script_name.as_slice())
            .unwrap_or_default();
        let content_type = self.header("content-type").unwrap_or_default();
        let root = script.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes();
        let length = if self.body.is_empty() {
            String::new()
        } else {
            self.body.len().to_string()
        };
        let mut list: Vec<(Vec<u8>, Vec<u8>)> = [
            ("SCRIPT_FILENAME", script.as_os_str().as_bytes()),
            ("REDIRECT_STATUS", b"200"),
            ("SERVER_NAME", b"localhost"),
            ("SERVER_PORT", b"80"),
            ("SERVER_ADDR", b"127.0.0.1"),
            ("REMOTE_PORT", b"40000"),
            ("REMOTE_ADDR", b"127.0.0.1"),
            ("SERVER_SOFTWARE", b"hearth"),
            ("GATEWAY_INTERFACE", b"CGI/1.1"),
            ("REQUEST_SCHEME", b"http"),
            ("SERVER_PROTOCOL", b"HTTP/1.1"),
            ("DOCUMENT_ROOT", root),
            ("DOCUMENT_URI", path.as_bytes()),
            ("REQUEST_URI", self.uri.as_bytes()),
            ("SCRIPT_NAME", &script_name),
            ("PATH_INFO", path_info),
            ("CONTENT_LENGTH", length.as_bytes()),
            ("CONTENT_TYPE", content_type),
            ("REQUEST_METHOD", self.method.as_bytes()),
            ("QUERY_STRING", query.as_bytes()),
        ]
        .into_iter()
        .map(|(name, value)| (terminated(name.as_bytes()), terminated(value)))
        .collect();
        for (name, value) in self.headers.iter().filter_map(|header| split_header(header)) {
            let name = name.iter().map(|byte| {
                if *byte == b'-' {
                    b'_'
                } else {
                    byte.to_ascii_uppercase()
                }
            });
            list.push((
                terminated(&b"HTTP_".iter().copied().chain(name).collect::<Vec<_>>()),
                terminated(value),
            ));
        }
        list
    }

    fn header(&self, wanted: &str) -> Option<&[u8]> {
        let mut headers = self.headers.iter().filter_map(|header| split_header(header));
        headers
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()))
            .map(|(_, value)| value)
    }

    fn with<R>(
        &self,
        number: usize,
        script: &Path,
        head: bool,
        call: impl FnOnce(&mut Recorder, &Request<'_>) -> R,
    ) -> R {
        let variables = self.variables(script);
        let params: Vec<Param<'_>> = variables
            .iter()
            .filter_map(|(name, value)| {
                Some(Param {
                    name: Str::new(name)?,
                    value: Str::new(value)?,
                })
            })
            .collect();
        let find = |name: &str| {
            params
                .iter()
                .find(|param| param.name.as_bytes() == name.as_bytes())
                .map_or(Str::ABSENT, |param| param.value)
        };
        let mut request = Request::new(number as u64 + 1, &params);
        request.method = find("REQUEST_METHOD");
        request.uri = find("REQUEST_URI");
        request.query = find("QUERY_STRING");
        request.content_type = find("CONTENT_TYPE");
        request.cookies = find("HTTP_COOKIE");
        request.authorization = find("HTTP_AUTHORIZATION");
        request.script = find("SCRIPT_FILENAME");
        request.content_length = i64::try_from(self.body.len()).unwrap_or(i64::MAX);
        let mut recorder = Recorder {
            body: self.body.clone(),
            read: 0,
            head,
            left: self.gone_after.unwrap_or(usize::MAX),
        };
        let result = call(&mut recorder, &request);
        let _ = std::io::stdout().flush();
        result
    }
}

fn terminated(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().chain([0]).collect()
}

fn split_header(header: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = header.iter().position(|byte| *byte == b':')?;
    let (name, value) = header.split_at(at);
    Some((name, value.get(1..)?.trim_ascii()))
}

/// Prints what the script answers.
struct Recorder {
    body: Vec<u8>,
    read: usize,
    head: bool,
    left: usize,
}

impl Recorder {
    fn print(bytes: &[u8]) -> bool {
        std::io::stdout().write_all(bytes).is_ok()
    }
}

impl Exchange for Recorder {
    fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        Self::print(bytes.get(..taken).unwrap_or_default());
        taken
    }

    fn flush(&mut self) -> bool {
        std::io::stdout().flush().is_ok() && self.left > 0
    }

    fn send_headers(&mut self, status: u16, reason: &[u8], lines: &[Str<'_>]) -> bool {
        if self.head {
            let mut head = format!("Status: {status}").into_bytes();
            if !reason.is_empty() {
                head.push(b' ');
                head.extend_from_slice(reason);
            }
            for line in lines {
                head.push(b'\n');
                head.extend_from_slice(line.as_bytes());
            }
            head.extend_from_slice(b"\n\n");
            Self::print(&head);
        }
        self.left > 0
    }

    fn read_body(&mut self, buffer: &mut [u8]) -> usize {
        let rest = self.body.get(self.read..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        self.read += count;
        count
    }

    fn finish(&mut self) {}

    fn aborted(&mut self) -> bool {
        self.left == 0
    }

    fn leak(&mut self, leak: &Leak<'_>) {
        if let Some(kind) = leak.kind() {
            let text = |part: &Str<'_>| String::from_utf8_lossy(part.as_bytes()).into_owned();
            Self::print(format!("left: {kind:?} {} ({})\n", text(&leak.name), text(&leak.change)).as_bytes());
        }
    }

    fn log(_exchange: Option<&mut Self>, _level: i32, message: &[u8]) {
        let _ = std::io::stdout().flush();
        eprintln!("{}", String::from_utf8_lossy(message).trim_end());
    }
}
