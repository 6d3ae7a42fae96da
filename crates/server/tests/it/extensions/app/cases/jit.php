<?php

declare(strict_types=1);

/** Hot: compiled while it runs. */
function collatz(int $limit): int
{
    $longest = 0;
    for ($start = 1; $start < $limit; $start++) {
        for ($steps = 0, $n = $start; $n !== 1; $steps++) {
            $n = $n % 2 === 0 ? intdiv($n, 2) : 3 * $n + 1;
        }
        $longest = max($longest, $steps);
    }
    return $longest;
}

return [
    'use' => function (): void {
        $status = opcache_get_status(false);
        same(true, $status['opcache_enabled']);
        same(true, $status['jit']['on']);
        same(true, opcache_is_script_cached(__FILE__));
        same(178, collatz(1000));
        same(true, $status['jit']['buffer_free'] < $status['jit']['buffer_size']);
        eval('final class OfThisRequest { public static int $count = 0; }');
        same(1, ++OfThisRequest::$count);
    },
];
