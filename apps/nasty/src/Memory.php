<?php

declare(strict_types=1);

namespace Nasty;

/** A stream wrapper: files that live in a static. */
final class Memory
{
    /** @var array<string, string> */
    public static array $files = [];
    /** @var resource|null */
    public $context;
    private string $path = '';
    private int $position = 0;

    public function stream_open(string $path, string $mode): bool
    {
        $this->path = $path;
        if (str_contains($mode, 'w')) {
            self::$files[$path] = '';
        }

        return isset(self::$files[$path]);
    }

    public function stream_write(string $data): int
    {
        self::$files[$this->path] .= $data;

        return strlen($data);
    }

    public function stream_read(int $count): string
    {
        $data = substr(self::$files[$this->path], $this->position, $count);
        $this->position += strlen($data);

        return $data;
    }

    public function stream_eof(): bool
    {
        return $this->position >= strlen(self::$files[$this->path]);
    }

    /** @return array<string, int> */
    public function stream_stat(): array
    {
        return ['size' => strlen(self::$files[$this->path])];
    }

    public function stream_set_option(): bool
    {
        return false;
    }

    public function stream_close(): void
    {
        self::$files['closed'] = $this->path;
    }
}
