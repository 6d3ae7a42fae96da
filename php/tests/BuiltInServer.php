<?php

declare(strict_types=1);

namespace Hearth\Tests;

/**
 * PHP's own web server with one script, for what only a real response shows. Ends with the object.
 */
final class BuiltInServer
{
    /** @var resource */
    private $process;

    private readonly string $address;

    public function __construct(string $script)
    {
        $log = ['pipe', 'w'];
        $process = proc_open(
            [\PHP_BINARY, '-d', 'upload_max_filesize=8M', '-S', '127.0.0.1:0', $script],
            [1 => ['file', '/dev/null', 'w'], 2 => $log],
            $pipes,
        );
        if (false === $process) {
            throw new \RuntimeException('PHP\'s web server did not start.');
        }
        $this->process = $process;

        $line = (string) fgets($pipes[2]);
        if (1 !== preg_match('~\(http://(127\.0\.0\.1:\d+)\) started~', $line, $match)) {
            throw new \RuntimeException('PHP\'s web server did not start: ' . $line);
        }
        $this->address = $match[1];
    }

    public function __destruct()
    {
        proc_terminate($this->process);
        proc_close($this->process);
    }

    /**
     * @param list<string> $headers
     *
     * @return array{status: string, headers: list<string>, body: string}
     */
    public function request(string $method, string $target, array $headers = [], string $body = ''): array
    {
        $socket = stream_socket_client('tcp://' . $this->address, timeout: 10.0);
        if (false === $socket) {
            throw new \RuntimeException('No connection to ' . $this->address);
        }
        stream_set_timeout($socket, 10);
        $lines = ["$method $target HTTP/1.1", 'Host: example.org:8080', 'Connection: close', ...$headers];
        fwrite($socket, implode("\r\n", [...$lines, 'Content-Length: ' . strlen($body), '', $body]));
        [$head, $content] = explode("\r\n\r\n", (string) stream_get_contents($socket), 2) + [1 => ''];
        $headers = explode("\r\n", $head);

        return ['status' => array_shift($headers), 'headers' => $headers, 'body' => $content];
    }
}
