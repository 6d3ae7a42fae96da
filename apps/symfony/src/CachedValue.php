<?php

declare(strict_types=1);

namespace App;

use Symfony\Contracts\Cache\CacheInterface;
use Symfony\Contracts\Cache\ItemInterface;

/**
 * A value that is slow to compute and kept for 30 s in the cache that all processes share, web and console.
 */
final class CachedValue
{
    private const KEY = 'cached_value';
    private const LIFETIME = 30;

    public function __construct(private readonly CacheInterface $cache)
    {
    }

    /** @return array{value: string, worker: int, time: int} */
    public function get(): array
    {
        return $this->cache->get(self::KEY, static function (ItemInterface $item): array {
            $item->expiresAfter(self::LIFETIME);
            usleep(300_000);

            return ['value' => bin2hex(random_bytes(4)), 'worker' => getmypid() ?: 0, 'time' => time()];
        });
    }

    public function forget(): void
    {
        $this->cache->delete(self::KEY);
    }
}
