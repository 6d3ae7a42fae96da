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
 * Hearth has to trust what is said of the client: `addresses = ["unix"]` in [trusted_proxies], or the address of this
 * host.
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

/** Hearth is not there; it has nothing of the request. */
final class Away extends Failure
{
}

/** What the web server says of the request. */
final class Request
{
    /** Of the client's connection (RFC 9110 §7.6.1), or written anew. `Proxy` is no header (httpoxy). */
    private const NOT_PASSED = [
        'connection', 'content-length', 'content-type', 'expect', 'forwarded', 'host', 'keep-alive', 'proxy',
        'proxy-authorization', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings',
        'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-port', 'x-forwarded-proto',
    ];

    /** @var array<string, mixed> */
    private array $server;

    /** @param array<string, mixed> $server */
    public function __construct(array $server)
    {
        $this->server = $server;
    }

    public function value(string $name): string
    {
        $value = $this->server[$name] ?? '';

        // What would end a line cannot be in a header that came over HTTP.
        return is_string($value) ? str_replace(["\r", "\n", "\0"], '', $value) : '';
    }

    public function method(): string
    {
        return $this->value('REQUEST_METHOD') ?: 'GET';
    }

    /** Whether it may run twice (RFC 9110 §9.2.2). */
    public function isIdempotent(): bool
    {
        return in_array($this->method(), ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'], true);
    }

    public function head(Body $body, bool $isKept): string
    {
        $target = preg_replace_callback('~[^\x21-\x7e]~', static function (array $match): string {
            return rawurlencode($match[0]);
        }, $this->value('REQUEST_URI') ?: '/');
        $host = $this->value('HTTP_HOST') ?: ($this->value('SERVER_NAME') ?: 'localhost');
        $lines = [$this->method() . ' ' . $target . ' HTTP/1.1', 'host: ' . $host];
        if (!$isKept) {
            $lines[] = 'connection: close';
        }
        $lines = array_merge($lines, $this->headers(), $this->forwarded($host), $body->headers());

        return implode("\r\n", $lines) . "\r\n\r\n";
    }

    /** @return string[] */
    private function headers(): array
    {
        $hop = array_map('trim', explode(',', strtolower($this->value('HTTP_CONNECTION'))));
        $drop = array_flip(array_merge(self::NOT_PASSED, $hop));
        $lines = [];
        foreach ($this->server as $name => $value) {
            if (0 === strncmp((string) $name, 'HTTP_', 5) && is_string($value)) {
                $header = strtolower(strtr(substr($name, 5), '_', '-'));
                if (!isset($drop[$header])) {
                    $lines[] = $header . ': ' . $this->value($name);
                }
            }
        }
        $credentials = $this->value('REDIRECT_HTTP_AUTHORIZATION') ?: $this->credentials();
        if (!isset($this->server['HTTP_AUTHORIZATION']) && '' !== $credentials) {
            $lines[] = 'authorization: ' . $credentials;
        }

        return $lines;
    }

    /** Apache keeps them from CGI, unless told otherwise (`CGIPassAuth On`), or has them under another name. */
    private function credentials(): string
    {
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
        $keeps = '' !== setting('HEARTH_KEEP_FORWARDED');
        $values = [
            'FOR' => $this->value('REMOTE_ADDR'),
            'PROTO' => $isHttps ? 'https' : 'http',
            'HOST' => $host,
            'PORT' => $this->value('SERVER_PORT'),
        ];
        $lines = [];
        foreach ($values as $name => $value) {
            $received = $keeps ? $this->value('HTTP_X_FORWARDED_' . $name) : '';
            if ('' !== $received) {
                $value = 'FOR' === $name ? $received . ', ' . $value : $received;
            }
            if ('' !== $value) {
                $lines[] = 'x-forwarded-' . strtolower($name) . ': ' . $value;
            }
        }

        return $lines;
    }
}

/**
 * The body of a request: as it came, or written anew, if it is a form with files, which PHP has taken apart already:
 * php://input is empty then. With `enable_post_data_reading = 0` PHP leaves forms alone, and they pass as they came.
 */
final class Body
{
    private string $type;

    private string $boundary = '';

    private ?int $length = null;

    /** @var array<int, string|array{0: string, 1: int}> texts, and paths of files with their bytes */
    private array $pieces = [];

    public function __construct(Request $request)
    {
        $length = $request->value('CONTENT_LENGTH');
        if ('' === $length && '' !== $request->value('HTTP_TRANSFER_ENCODING')) {
            // It came in chunks, and the web server has not counted them: php-fpm has no body then.
            throw new Failure('this host passes on no body without a length', 411);
        }
        $this->type = $request->value('CONTENT_TYPE') ?: $request->value('HTTP_CONTENT_TYPE');
        $isTaken = 'POST' === $request->method() && 0 === stripos($this->type, 'multipart/form-data')
            && !in_array((string) ini_get('enable_post_data_reading'), ['', '0'], true);
        if ($isTaken) {
            $this->writeForm($_POST, $_FILES);
        } elseif ('' !== $length) {
            $this->add(['php://input', (int) $length]);
        }
    }

    /** @return string[] */
    public function headers(): array
    {
        $lines = '' === $this->type ? [] : ['content-type: ' . $this->type];

        return null === $this->length ? $lines : array_merge($lines, ['content-length: ' . $this->length]);
    }

    /** @return iterable<string> */
    public function parts(): iterable
    {
        foreach ($this->pieces as $piece) {
            if (is_string($piece)) {
                yield $piece;
                continue;
            }
            [$path, $left] = $piece;
            $file = '' === $path ? null : fopen($path, 'rb');
            while ($left > 0) {
                $most = min($left, 65536);
                $bytes = null === $file ? str_repeat("\0", $most) : (is_resource($file) ? fread($file, $most) : '');
                if (false === $bytes || '' === $bytes) {
                    throw new Failure('the body was not sent to its end', 400);
                }
                $left -= strlen($bytes);
                yield $bytes;
            }
        }
    }

    /** @param string|array{0: string, 1: int} $piece */
    private function add($piece): void
    {
        $this->pieces[] = $piece;
        $this->length += is_string($piece) ? strlen($piece) : $piece[1];
    }

    /**
     * @param array<int|string, mixed> $fields
     * @param array<int|string, mixed> $files
     */
    private function writeForm(array $fields, array $files): void
    {
        // PHP drops what is beyond its limits, and warns: the application behind must not get less than was sent.
        $warning = (string) (error_get_last()['message'] ?? '');
        $limits = '~Input variables exceeded|allowable file uploads|body parts limit|POST Content-Length~i';
        if (1 === preg_match($limits, $warning)) {
            throw new Failure('PHP on this host limits forms: ' . $warning, 413);
        }
        $this->boundary = 'hearth-' . bin2hex(random_bytes(16));
        $this->type = 'multipart/form-data; boundary=' . $this->boundary;
        $this->addFields($fields, '');
        $limit = is_string($fields['MAX_FILE_SIZE'] ?? null) ? (int) $fields['MAX_FILE_SIZE'] : 0;
        foreach ($files as $name => $file) {
            if (is_array($file)) {
                $this->addFiles((string) $name, $file, $limit);
            }
        }
        $this->add('--' . $this->boundary . "--\r\n");
    }

    /** @param array<int|string, mixed> $fields */
    private function addFields(array $fields, string $prefix): void
    {
        foreach ($fields as $key => $value) {
            $name = '' === $prefix ? (string) $key : $prefix . '[' . $key . ']';
            if (is_array($value)) {
                $this->addFields($value, $name);
            } else {
                $this->addPart($name, '', (string) $value);
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
        $shown = (string) ($file['full_path'] ?? $file['name'] ?? '');
        $type = str_replace(["\r", "\n"], '', (string) ($file['type'] ?? '')) ?: 'application/octet-stream';
        $more = '"; filename="' . self::quoted($shown) . "\"\r\nContent-Type: " . $type;
        switch ($file['error'] ?? \UPLOAD_ERR_NO_FILE) {
            case \UPLOAD_ERR_OK:
                $path = (string) $file['tmp_name'];
                $this->addPart($name, $more, [$path, (int) filesize($path)]);
                break;
            case \UPLOAD_ERR_NO_FILE:
                $this->addPart($name, "\"; filename=\"\"\r\nContent-Type: " . $type, '');
                break;
            case \UPLOAD_ERR_FORM_SIZE:
                // Longer than the form allows, which is all that is known of it.
                $this->addPart($name, $more, ['', $limit + 1]);
                break;
            case \UPLOAD_ERR_INI_SIZE:
                throw new Failure("the file $name is larger than upload_max_filesize allows on this host", 413);
            case \UPLOAD_ERR_PARTIAL:
                throw new Failure("the file $name was not sent to its end", 400);
            default:
                throw new Failure("the file $name could not be stored on this host", 500);
        }
    }

    /** @param string|array{0: string, 1: int} $content */
    private function addPart(string $name, string $more, $content): void
    {
        $this->add('--' . $this->boundary . "\r\nContent-Disposition: form-data; name=\"" . self::quoted($name)
            . ('' === $more ? '"' : $more) . "\r\n\r\n");
        $this->add($content);
        $this->add("\r\n");
    }

    private static function quoted(string $text): string
    {
        return str_replace(['\\', '"', "\r", "\n"], ['\\\\', '\\"', '%0D', '%0A'], $text);
    }
}

/** A connection to Hearth, and the answer that comes over it. It is kept for the next request of this process. */
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

    /** Whether it has carried answers to earlier requests. */
    private bool $isUsed;

    /** Whether all of the request was taken. If not, Hearth may have answered: that it is too large for instance. */
    private bool $isWhole = false;

    /** @var string|false|null the first line of the answer, until it is looked at */
    private $ahead = null;

    /** Whether the next request may follow on this connection. */
    private bool $isFree = false;

    /** Whether a part of the answer may be on its way to the client. */
    public bool $hasStarted = false;

    private function __construct(bool $isKept)
    {
        $address = setting('HEARTH_ADDRESS');
        $patience = (float) setting('HEARTH_CONNECT_TIMEOUT');
        $begin = microtime(true);
        $flags = \STREAM_CLIENT_CONNECT | ($isKept ? \STREAM_CLIENT_PERSISTENT : 0);
        // PHP takes none that Hearth has closed.
        $socket = @stream_socket_client($address, $code, $why, $patience, $flags);
        if (false === $socket) {
            $isSlow = 110 === $code || microtime(true) - $begin >= $patience;
            throw new Away("Hearth cannot be reached at $address: " . ($why ?: 'no answer'), $isSlow ? 504 : 502);
        }
        $read = (float) setting('HEARTH_READ_TIMEOUT');
        stream_set_timeout($socket, (int) $read, (int) (1e6 * ($read - (int) $read)));
        stream_set_chunk_size($socket, 65536);
        $this->socket = $socket;
        $this->isUsed = ftell($socket) > 0;
        // However this process fares: nobody is to get the rest of this answer as theirs.
        register_shutdown_function(function (): void {
            if (!$this->isFree) {
                $this->close();
            }
        });
    }

    /** Sends the request; once more over a new connection, if the kept one has ended and it may be. */
    public static function to(Request $request, Body $body): self
    {
        // Over TCP, the news that Hearth has closed a connection may still be on its way.
        $isKept = $request->isIdempotent() || 0 === strncmp(setting('HEARTH_ADDRESS'), 'unix:', 5);
        $head = $request->head($body, $isKept);
        while (true) {
            $answer = new self($isKept);
            $answer->isWhole = $answer->send($head, $body->parts());
            // What was not sent as a whole has not run: Hearth waits for the end of a request.
            $mayRepeat = $answer->isUsed && (!$answer->isWhole || $request->isIdempotent());
            if ($answer->begins() || !$mayRepeat) {
                return $answer;
            }
            $answer->close();
        }
    }

    /** Passes the answer on. */
    public function relay(string $method): void
    {
        do {
            [$status, $reason, $headers] = $this->head();
        } while ($status < 200);
        [$length, $isChunked, $isLast] = ['', false, false];
        header_remove();
        foreach ($headers as [$name, $value]) {
            $isChunked = $isChunked || ('transfer-encoding' === $name && 'chunked' === strtolower($value));
            $isLast = $isLast || ('connection' === $name && 'close' === strtolower($value));
            $length = 'content-length' === $name ? $value : $length;
            if (!in_array($name, self::NOT_PASSED, true)) {
                header($name . ': ' . $value, false);
            }
        }
        $hasBody = 'HEAD' !== $method && 204 !== $status && 304 !== $status;
        if ($hasBody && !$isChunked && 1 !== preg_match('~^\d{1,18}$~D', $length)) {
            throw new Failure('the answer does not say how long it is', 502);
        }
        // Behind `Location` and others, which change the status.
        header(rtrim("HTTP/1.1 $status $reason"), true, $status);
        $this->hasStarted = true;
        if ($hasBody) {
            $isChunked ? $this->relayChunks() : $this->relayBytes((int) $length);
        }
        $this->isFree = $this->isWhole && !$isLast && 0 === stream_get_meta_data($this->socket)['unread_bytes'];
    }

    private function close(): void
    {
        if (is_resource($this->socket)) {
            fclose($this->socket);
        }
    }

    /** @param iterable<string> $parts */
    private function send(string $head, iterable $parts): bool
    {
        $buffer = $head;
        foreach ($parts as $part) {
            if (strlen($buffer) >= 65536) {
                if (strlen($buffer) !== @fwrite($this->socket, $buffer)) {
                    return false;
                }
                $buffer = '';
            }
            $buffer .= $part;
        }

        return strlen($buffer) === @fwrite($this->socket, $buffer);
    }

    /** Waits for the answer. False: the connection has ended instead. */
    private function begins(): bool
    {
        $this->ahead = @fgets($this->socket, self::LINE);

        return false !== $this->ahead || stream_get_meta_data($this->socket)['timed_out'];
    }

    /** @return array{0: int, 1: string, 2: array<int, array{0: string, 1: string}>} status, its text, headers */
    private function head(): array
    {
        if (1 !== preg_match('~^HTTP/1\.1 ([1-5]\d\d)(?: (.*))?$~', $this->line(), $match)) {
            throw new Failure('what listens there does not speak HTTP', 502);
        }
        $headers = [];
        while ('' !== $line = $this->line()) {
            $parts = explode(':', $line, 2);
            if (2 !== count($parts) || count($headers) > 1000) {
                throw new Failure('the head of the answer is invalid', 502);
            }
            $headers[] = [strtolower($parts[0]), trim($parts[1], " \t")];
        }

        return [(int) $match[1], $match[2] ?? '', $headers];
    }

    private function line(): string
    {
        [$line, $this->ahead] = [$this->ahead ?? @fgets($this->socket, self::LINE), null];
        if (false === $line || "\n" !== substr($line, -1)) {
            throw $this->failure();
        }

        return rtrim($line, "\r\n");
    }

    private function relayBytes(int $left): void
    {
        while ($left > 0) {
            $bytes = @fread($this->socket, min($left, 65536));
            if (false === $bytes || '' === $bytes) {
                throw $this->failure();
            }
            $left -= strlen($bytes);
            echo $bytes;
            if ($left > 0) {
                flush();
            }
        }
    }

    private function relayChunks(): void
    {
        do {
            $line = explode(';', $this->line(), 2)[0];
            if (1 !== preg_match('~^[\da-f]{1,15}\s*$~iD', $line)) {
                throw new Failure('a chunk of the answer does not say how long it is', 502);
            }
            $size = (int) hexdec(rtrim($line));
            $this->relayBytes($size);
            flush();
            while ('' !== $this->line()) {
                if ($size > 0) {
                    throw new Failure('a chunk of the answer is longer than it says', 502);
                }
            }
        } while ($size > 0);
    }

    private function failure(): Failure
    {
        if (stream_get_meta_data($this->socket)['timed_out']) {
            return new Failure('Hearth did not go on within HEARTH_READ_TIMEOUT', 504);
        }

        return new Failure('Hearth ended the connection without an answer, or in the midst of it', 502);
    }
}

/** An answer of this host's own. */
function show(int $status, string $message): void
{
    $titles = [400 => 'Bad Request', 411 => 'Length Required', 413 => 'Payload Too Large', 502 => 'Bad Gateway'];
    $title = $status . ' ' . (($titles + [504 => 'Gateway Timeout'])[$status] ?? 'Internal Server Error');
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

/** False: Hearth is away, it has nothing of the request, and there is a fallback. */
function serve(): bool
{
    $answer = null;
    try {
        $request = new Request($_SERVER);
        $answer = Answer::to($request, new Body($request));
        // From here on the answer is Hearth's alone.
        ini_set('zlib.output_compression', '0');
        ini_set('default_mimetype', '');
        while (ob_get_level() > 0 && ob_end_clean()) {
        }
        set_time_limit(0);
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
