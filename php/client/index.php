<?php

/*
 * Hearth's thin client: the index.php of a host with Apache or nginx and php-fpm that stays as it is, while Hearth
 * answers. It passes the request on to Hearth over HTTP, and the answer back as it comes. One file without
 * dependencies, for PHP 7.4 and later; see docs/behind-a-web-server.md.
 *
 * Copy it to the document root, in the place of the front controller. It is set up by the environment (php-fpm:
 * `env[HEARTH_ADDRESS]` in the pool; Apache: `SetEnv`; nginx: `fastcgi_param`), or in the list below:
 *
 *   HEARTH_ADDRESS          where Hearth listens: unix:///run/hearth/shop.sock or tcp://127.0.0.1:8080
 *   HEARTH_CONNECT_TIMEOUT  seconds until Hearth counts as away: 504; where nobody listens it is 502 at once
 *   HEARTH_READ_TIMEOUT     longest pause in seconds before and in the answer: 504. Longer than request_timeout
 *   HEARTH_FALLBACK         front controller that runs where Hearth is away, relative to this file; '': an error page
 *   HEARTH_KEEP_FORWARDED   1: the X-Forwarded-* of the request are passed on, since a proxy in front of this host
 *                           sets them; '': they are the client's invention
 *
 * Hearth has to trust what is said of the client: `trusted = ["unix"]` in [proxy], or the address of this host.
 */

declare(strict_types=1);

namespace Hearth\Client;

const SETTINGS = [
    'HEARTH_ADDRESS' => 'unix:///run/hearth/http.sock',
    'HEARTH_CONNECT_TIMEOUT' => '2',
    'HEARTH_READ_TIMEOUT' => '70',
    'HEARTH_FALLBACK' => '',
    'HEARTH_KEEP_FORWARDED' => '',
];

function setting(string $name): string
{
    // Apache renames it at an internal redirection, such as to the front controller.
    foreach ([$name, 'REDIRECT_' . $name] as $variable) {
        $value = getenv($variable);
        if (is_string($value) && '' !== $value) {
            return $value;
        }
    }

    return SETTINGS[$name];
}

/** The request cannot be passed on, or not be answered. Its code is the status that says so. */
class Failure extends \RuntimeException
{
}

/** Hearth is not there; nothing of the request has been sent. */
final class Away extends Failure
{
}

/** What is sent: head and body. */
final class Request
{
    /** Of the client's connection (RFC 9110 §7.6.1), or written anew. `Proxy` is no header (httpoxy). */
    private const NOT_PASSED = [
        'connection', 'content-length', 'expect', 'forwarded', 'host', 'keep-alive', 'proxy', 'proxy-authorization',
        'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings',
    ];

    private const FORWARDED = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-port', 'x-forwarded-proto'];

    /** @var array<string, mixed> */
    private $server;

    /** @param array<string, mixed> $server */
    public function __construct(array $server)
    {
        $this->server = $server;
    }

    public function withType(string $type): self
    {
        return new self(['CONTENT_TYPE' => $type, 'HTTP_CONTENT_TYPE' => $type] + $this->server);
    }

    public function method(): string
    {
        return $this->value('REQUEST_METHOD') ?: 'GET';
    }

    /** @param string[] $body the headers that describe the body */
    public function head(array $body): string
    {
        $target = preg_replace_callback('~[^\x21-\x7e]~', static function (array $match): string {
            return rawurlencode($match[0]);
        }, $this->value('REQUEST_URI') ?: '/');
        $host = $this->value('HTTP_HOST') ?: ($this->value('SERVER_NAME') ?: 'localhost');
        $lines = [$this->method() . ' ' . $target . ' HTTP/1.1', 'Host: ' . $host, 'Connection: close'];
        $lines = array_merge($lines, $this->headers(), $this->forwarded($host), $body);

        return implode("\r\n", $lines) . "\r\n\r\n";
    }

    public function value(string $name): string
    {
        $value = $this->server[$name] ?? '';

        // What would end a line cannot be in a header that came over HTTP.
        return is_string($value) ? str_replace(["\r", "\n", "\0"], '', $value) : '';
    }

    /** @return string[] */
    private function headers(): array
    {
        $hop = array_map('trim', explode(',', strtolower($this->value('HTTP_CONNECTION'))));
        $lines = [];
        foreach ($this->server as $name => $value) {
            if (0 !== strncmp((string) $name, 'HTTP_', 5) || !is_string($value)) {
                continue;
            }
            $header = strtolower(strtr(substr((string) $name, 5), '_', '-'));
            $drop = in_array($header, self::NOT_PASSED, true) || in_array($header, self::FORWARDED, true);
            if (!$drop && !in_array($header, $hop, true)) {
                $lines[] = $header . ': ' . $this->value((string) $name);
            }
        }
        $type = $this->value('CONTENT_TYPE');
        if ('' !== $type && !isset($this->server['HTTP_CONTENT_TYPE'])) {
            $lines[] = 'content-type: ' . $type;
        }
        if (!isset($this->server['HTTP_AUTHORIZATION']) && '' !== ($credentials = $this->credentials())) {
            $lines[] = 'authorization: ' . $credentials;
        }

        return $lines;
    }

    /** Apache keeps them from CGI, unless told otherwise (`CGIPassAuth On`), or has them under another name. */
    private function credentials(): string
    {
        $redirected = $this->value('REDIRECT_HTTP_AUTHORIZATION');
        if ('' !== $redirected) {
            return $redirected;
        }
        if (isset($this->server['PHP_AUTH_DIGEST'])) {
            return 'Digest ' . $this->value('PHP_AUTH_DIGEST');
        }
        if (isset($this->server['PHP_AUTH_USER'])) {
            return 'Basic ' . base64_encode($this->value('PHP_AUTH_USER') . ':' . $this->value('PHP_AUTH_PW'));
        }

        return '';
    }

    /**
     * Who the client is, and what it asked this host for.
     *
     * @return string[]
     */
    private function forwarded(string $host): array
    {
        $https = strtolower($this->value('HTTPS'));
        $isHttps = ('' !== $https && 'off' !== $https) || 'https' === $this->value('REQUEST_SCHEME');
        $values = [
            'x-forwarded-for' => $this->value('REMOTE_ADDR'),
            'x-forwarded-proto' => $isHttps ? 'https' : 'http',
            'x-forwarded-host' => $host,
            'x-forwarded-port' => $this->value('SERVER_PORT'),
        ];
        $lines = [];
        foreach ($values as $name => $value) {
            $received = '' === setting('HEARTH_KEEP_FORWARDED')
                ? ''
                : $this->value('HTTP_' . strtoupper(strtr($name, '-', '_')));
            if ('' !== $received) {
                $value = 'x-forwarded-for' === $name ? $received . ', ' . $value : $received;
            }
            if ('' !== $value) {
                $lines[] = $name . ': ' . $value;
            }
        }

        return $lines;
    }
}

/**
 * The first bytes of a file.
 *
 * @return iterable<string>
 */
function read(string $path, int $left): iterable
{
    $file = fopen($path, 'rb');
    while ($left > 0 && is_resource($file)) {
        $bytes = (string) fread($file, min($left, 65536));
        if ('' === $bytes) {
            return;
        }
        $left -= strlen($bytes);
        yield $bytes;
    }
}

/** The body as the client sent it. */
final class RawBody
{
    /** @var int */
    private $length;

    public function __construct(Request $request)
    {
        $this->length = (int) $request->value('CONTENT_LENGTH');
    }

    /** @return string[] */
    public function headers(): array
    {
        return ['content-length: ' . $this->length];
    }

    /** @return iterable<string> */
    public function parts(): iterable
    {
        return read('php://input', $this->length);
    }
}

/**
 * A form with files, which PHP has taken apart already (php://input is empty then): written anew from what it made of
 * it. With `enable_post_data_reading = 0` PHP leaves it alone, so that it is passed on as it came.
 */
final class FormBody
{
    /** @var string */
    private $boundary;

    /** @var array<int, array{0: string, 1: string|null, 2: string, 3: int}> head, content or else path, its bytes */
    private $parts = [];

    /**
     * @param array<int|string, mixed> $fields
     * @param array<int|string, mixed> $files
     */
    public function __construct(array $fields, array $files)
    {
        $this->boundary = 'hearth-' . bin2hex(random_bytes(16));
        self::assertNothingWasDropped();
        $this->addFields($fields, '');
        $limit = is_string($fields['MAX_FILE_SIZE'] ?? null) ? (int) $fields['MAX_FILE_SIZE'] : 0;
        foreach ($files as $name => $file) {
            if (is_array($file)) {
                $this->addFiles((string) $name, $file, $limit);
            }
        }
    }

    /** @return string[] */
    public function headers(): array
    {
        $length = strlen($this->end());
        foreach ($this->parts as [$head, , , $size]) {
            $length += strlen($head) + $size + 2;
        }

        return ['content-length: ' . $length];
    }

    public function contentType(): string
    {
        return 'multipart/form-data; boundary=' . $this->boundary;
    }

    /** @return iterable<string> */
    public function parts(): iterable
    {
        foreach ($this->parts as [$head, $content, $path, $size]) {
            yield $head;
            if (null !== $content) {
                yield $content;
            } elseif ('' === $path) {
                // Longer than the form allows, which is all that is known of it.
                for ($left = $size; $left > 0; $left -= 65536) {
                    yield str_repeat("\0", min($left, 65536));
                }
            } else {
                yield from read($path, $size);
            }
            yield "\r\n";
        }
        yield $this->end();
    }

    private function end(): string
    {
        return '--' . $this->boundary . "--\r\n";
    }

    /** @param array<int|string, mixed> $fields */
    private function addFields(array $fields, string $prefix): void
    {
        foreach ($fields as $key => $value) {
            $name = '' === $prefix ? (string) $key : $prefix . '[' . $key . ']';
            if (is_array($value)) {
                $this->addFields($value, $name);
            } else {
                $this->add('name="' . self::quoted($name) . '"', '', (string) $value, '', strlen((string) $value));
            }
        }
    }

    /** @param array<string, mixed> $file an entry of $_FILES, or the same below one of its keys */
    private function addFiles(string $name, array $file, int $limit): void
    {
        if (is_array($file['error'] ?? null)) {
            foreach (array_keys($file['error']) as $key) {
                $below = array_map(static function ($all) use ($key) {
                    return $all[$key] ?? null;
                }, $file);
                $this->addFiles($name . '[' . $key . ']', $below, $limit);
            }

            return;
        }
        // The path in a folder that was uploaded; PHP 8.1.
        $shown = $file['full_path'] ?? $file['name'] ?? '';
        $disposition = 'name="' . self::quoted($name) . '"; filename="' . self::quoted((string) $shown) . '"';
        $type = (string) ($file['type'] ?? '') ?: 'application/octet-stream';
        switch ($file['error'] ?? \UPLOAD_ERR_NO_FILE) {
            case \UPLOAD_ERR_OK:
                $path = (string) $file['tmp_name'];
                $this->add($disposition, $type, null, $path, (int) filesize($path));
                break;
            case \UPLOAD_ERR_NO_FILE:
                $this->add('name="' . self::quoted($name) . '"; filename=""', $type, '', '', 0);
                break;
            case \UPLOAD_ERR_FORM_SIZE:
                $this->add($disposition, $type, null, '', $limit + 1);
                break;
            case \UPLOAD_ERR_INI_SIZE:
                throw new Failure("the file $name is larger than upload_max_filesize allows on this host", 413);
            case \UPLOAD_ERR_PARTIAL:
                throw new Failure("the file $name was not sent to its end", 400);
            default:
                throw new Failure("the file $name could not be stored on this host", 500);
        }
    }

    private function add(string $disposition, string $type, ?string $content, string $path, int $size): void
    {
        $head = '--' . $this->boundary . "\r\nContent-Disposition: form-data; " . $disposition . "\r\n"
            . ('' === $type ? '' : 'Content-Type: ' . str_replace(["\r", "\n"], '', $type) . "\r\n") . "\r\n";
        $this->parts[] = [$head, $content, $path, $size];
    }

    private static function quoted(string $text): string
    {
        return str_replace(['\\', '"', "\r", "\n"], ['\\\\', '\\"', '%0D', '%0A'], $text);
    }

    /** PHP drops what is beyond its limits, and warns: the application behind must not get less than was sent. */
    private static function assertNothingWasDropped(): void
    {
        $warning = (string) (error_get_last()['message'] ?? '');
        $limits = '~Input variables exceeded|allowable file uploads|body parts limit|POST Content-Length~i';
        if (1 === preg_match($limits, $warning)) {
            throw new Failure('PHP on this host limits forms: ' . $warning, 413);
        }
    }
}

/** The connection to Hearth, and what comes over it. */
final class Answer
{
    /** Headers that speak of the connection to Hearth, and those that this host writes itself. */
    private const NOT_PASSED = [
        'connection', 'keep-alive', 'proxy-connection', 'trailer', 'transfer-encoding', 'upgrade', 'date', 'server',
    ];

    /** Bytes of a line of the head. */
    private const LINE = 262144;

    /** @var resource */
    private $socket;

    /** @var bool whether a part of the answer may be on its way to the client */
    public $hasStarted = false;

    /** @param resource $socket */
    private function __construct($socket)
    {
        $this->socket = $socket;
    }

    public static function connect(): self
    {
        $address = setting('HEARTH_ADDRESS');
        $patience = (float) setting('HEARTH_CONNECT_TIMEOUT');
        $begin = microtime(true);
        $socket = @stream_socket_client($address, $code, $why, $patience);
        if (false === $socket) {
            $isSlow = 110 === $code || microtime(true) - $begin >= $patience;
            throw new Away("Hearth cannot be reached at $address: " . ($why ?: 'no answer'), $isSlow ? 504 : 502);
        }
        $read = (float) setting('HEARTH_READ_TIMEOUT');
        stream_set_timeout($socket, (int) $read, (int) (1e6 * ($read - (int) $read)));
        stream_set_chunk_size($socket, 65536);

        return new self($socket);
    }

    /** @param iterable<string> $parts */
    public function send(string $head, iterable $parts): void
    {
        $buffer = $head;
        foreach ($parts as $part) {
            $buffer .= $part;
            if (strlen($buffer) >= 65536) {
                if (!$this->write($buffer)) {
                    // It may have answered already, that the body is too large for instance.
                    return;
                }
                $buffer = '';
            }
        }
        $this->write($buffer);
    }

    /** Passes the answer on. */
    public function relay(string $method): void
    {
        do {
            [$version, $status, $reason] = $this->statusLine();
            $headers = $this->headers();
        } while ($status < 200 && 101 !== $status);
        $length = 0;
        $isChunked = false;
        header_remove();
        foreach ($headers as [$name, $value]) {
            $isChunked = $isChunked || ('transfer-encoding' === $name && 'chunked' === strtolower($value));
            if ('content-length' === $name) {
                $length = (int) $value;
            }
            if (!in_array($name, self::NOT_PASSED, true)) {
                header($name . ': ' . $value, false);
            }
        }
        // Behind `Location` and others, which change the status.
        header(rtrim("$version $status $reason"), true, $status);
        $this->hasStarted = true;
        if ('HEAD' === $method || 204 === $status || 304 === $status) {
            return;
        }
        if ($isChunked) {
            $this->relayChunks();
        } else {
            $this->relayBytes($length);
        }
    }

    private function write(string $bytes): bool
    {
        while ('' !== $bytes) {
            $written = @fwrite($this->socket, $bytes);
            if (false === $written || 0 === $written) {
                return false;
            }
            $bytes = substr($bytes, $written);
        }

        return true;
    }

    /** @return array{0: string, 1: int, 2: string} */
    private function statusLine(): array
    {
        $line = $this->line();
        if (1 !== preg_match('~^HTTP/1\.1 ([1-5]\d\d)(?: (.*))?$~', $line, $match)) {
            throw new Failure('what listens there does not speak HTTP', 502);
        }

        return ['HTTP/1.1', (int) $match[1], $match[2] ?? ''];
    }

    /** @return array<int, array{0: string, 1: string}> */
    private function headers(): array
    {
        $headers = [];
        while ('' !== $line = $this->line()) {
            $parts = explode(':', $line, 2);
            if (2 !== count($parts) || count($headers) > 1000) {
                throw new Failure('the head of the answer is invalid', 502);
            }
            $headers[] = [strtolower($parts[0]), trim($parts[1], " \t")];
        }

        return $headers;
    }

    private function line(): string
    {
        $line = @fgets($this->socket, self::LINE);
        if (false === $line || "\n" !== substr($line, -1)) {
            throw $this->failure();
        }

        return rtrim($line, "\r\n");
    }

    private function relayBytes(int $left): void
    {
        while ($left > 0) {
            $bytes = $this->read(min($left, 65536));
            $left -= strlen($bytes);
            echo $bytes;
            if ($left > 0) {
                flush();
            }
        }
    }

    private function relayChunks(): void
    {
        while (0 < $size = (int) hexdec(explode(';', $this->line(), 2)[0])) {
            $this->relayBytes($size);
            flush();
            $this->line();
        }
        do {
            $trailer = $this->line();
        } while ('' !== $trailer);
    }

    private function read(int $most): string
    {
        $bytes = @fread($this->socket, $most);
        if (false === $bytes || '' === $bytes) {
            throw $this->failure();
        }

        return $bytes;
    }

    private function failure(): Failure
    {
        if (stream_get_meta_data($this->socket)['timed_out']) {
            return new Failure('Hearth did not go on within HEARTH_READ_TIMEOUT', 504);
        }

        return new Failure('Hearth ended the connection in the midst of its answer', 502);
    }
}

/** An answer of this host's own. */
function show(int $status, string $message): void
{
    $title = $status . ' ' . ([
        400 => 'Bad Request',
        411 => 'Length Required',
        413 => 'Payload Too Large',
        502 => 'Bad Gateway',
        504 => 'Gateway Timeout',
    ][$status] ?? 'Internal Server Error');
    error_log("hearth client: $message");
    header_remove();
    header("HTTP/1.1 $title", true, $status);
    header('Content-Type: text/html; charset=utf-8');
    header('Cache-Control: no-store');
    echo "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>$title</title></head>\n<body>\n",
        "<h1>$title</h1>\n</body>\n</html>\n";
}

/**
 * The client must not take a part for the whole. PHP has no way to break an answer off but to end the process, which
 * php-fpm replaces.
 */
function breakOff(string $message): void
{
    error_log("hearth client: the answer broke off: $message");
    flush();
    if ('fpm-fcgi' === \PHP_SAPI && function_exists('posix_kill')) {
        posix_kill((int) getmypid(), 9);
    }
}

/** False: Hearth is away, nothing has been sent, and there is a fallback. */
function serve(): bool
{
    $request = new Request($_SERVER);
    $isForm = 'POST' === $request->method()
        && 0 === stripos($request->value('CONTENT_TYPE'), 'multipart/form-data')
        && '0' !== (string) ini_get('enable_post_data_reading')
        && '' !== (string) ini_get('enable_post_data_reading');
    $answer = null;
    try {
        if ('' === $request->value('CONTENT_LENGTH') && '' !== $request->value('HTTP_TRANSFER_ENCODING')) {
            // It came in chunks, and the web server has not counted them: php-fpm has no body then.
            throw new Failure('this host passes on no body without a length', 411);
        }
        $body = $isForm ? new FormBody($_POST, $_FILES) : new RawBody($request);
        if ($body instanceof FormBody) {
            $request = $request->withType($body->contentType());
        }
        $head = $request->head($body->headers());
        $answer = Answer::connect();
        // From here on the answer is Hearth's alone.
        ini_set('zlib.output_compression', '0');
        ini_set('default_mimetype', '');
        while (ob_get_level() > 0 && ob_end_clean()) {
        }
        set_time_limit(0);
        $answer->send($head, $body->parts());
        $answer->relay($request->method());
    } catch (Away $away) {
        if ('' !== setting('HEARTH_FALLBACK')) {
            error_log('hearth client: ' . $away->getMessage() . '; ' . setting('HEARTH_FALLBACK') . ' answers');

            return false;
        }
        show($away->getCode(), $away->getMessage());
    } catch (Failure $failure) {
        if (null !== $answer && $answer->hasStarted) {
            breakOff($failure->getMessage());
        } else {
            show($failure->getCode(), $failure->getMessage());
        }
    }

    return true;
}

if (!serve()) {
    $fallback = setting('HEARTH_FALLBACK');
    require '/' === $fallback[0] ? $fallback : __DIR__ . '/' . $fallback;
}
