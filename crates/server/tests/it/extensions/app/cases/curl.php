<?php

declare(strict_types=1);

function handle(string $path): CurlHandle
{
    // By name: the resolver has a thread of its own.
    $handle = curl_init('http://localhost:' . $_SERVER['SERVER_PORT'] . $path);
    curl_setopt_array($handle, [
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT => 20,
        CURLOPT_COOKIEFILE => '',
        CURLOPT_IPRESOLVE => CURL_IPRESOLVE_V4,
    ]);
    return $handle;
}

return [
    'use' => function (): void {
        $share = curl_share_init();
        curl_share_setopt($share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT);
        curl_share_setopt($share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE);
        curl_share_setopt($share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
        $first = handle('/file.txt');
        curl_setopt($first, CURLOPT_SHARE, $share);
        same("a file\n", curl_exec($first));
        same(1, curl_getinfo($first, CURLINFO_NUM_CONNECTS));
        $second = handle('/file.txt');
        curl_setopt($second, CURLOPT_SHARE, $share);
        same("a file\n", curl_exec($second));
        same(0, curl_getinfo($second, CURLINFO_NUM_CONNECTS));

        $multi = curl_multi_init();
        $handles = array_map(handle(...), ['/file.txt', '/file.txt?2', '/file.txt?3']);
        array_map(fn (CurlHandle $handle) => curl_multi_add_handle($multi, $handle), $handles);
        do {
            same(CURLM_OK, curl_multi_exec($multi, $running));
            curl_multi_select($multi);
        } while ($running);
        $status = fn (CurlHandle $handle): int => curl_getinfo($handle, CURLINFO_RESPONSE_CODE);
        same([200, 200, 200], array_map($status, $handles));

        // One that is under way when the request ends.
        $third = handle('/file.txt');
        curl_multi_add_handle($multi, $third);
        curl_multi_exec($multi, $running);
        Kept::keep($share, $first, $second, $multi, $third, ...$handles);
    },
];
