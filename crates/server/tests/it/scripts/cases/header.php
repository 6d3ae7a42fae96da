<?php

/*
 * Everything header() and its relatives do to a response.
 */

declare(strict_types=1);

return [
    'replace' => static function (): void {
        header('X-One: 1');
        header('x-one: 2');
        header('X-Two: a');
        header('X-Two: b', false);
        echo 'ok';
    },
    'remove' => static function (): void {
        header('X-One: 1');
        header('X-Two: 2');
        header_remove('x-one');
        echo implode(',', preg_grep('/^x-/i', headers_list()));
    },
    'remove_all' => static function (): void {
        header('X-One: 1');
        header_remove();
        echo count(headers_list());
    },
    'status_by_code' => static function (): void {
        header('X-Gone: yes', true, 410);
        echo 'gone ', http_response_code();
    },
    'status_line' => static function (): void {
        header('HTTP/1.1 404 Not Here');
        echo 'not here';
    },
    'status_line_http10' => static function (): void {
        header('HTTP/1.0 403 Forbidden');
        echo 'forbidden';
    },
    'status_line_odd' => static function (): void {
        header('HTTP/1.1 299 Rather Odd');
        echo 'odd';
    },
    'status_line_bare' => static function (): void {
        header('HTTP/1.1 404');
        echo 'bare';
    },
    'status_line_200' => static function (): void {
        header('HTTP/1.1 200 Fine By Me');
        echo 'fine';
    },
    'status_header' => static function (): void {
        header('Status: 418 Teapot');
        echo 'teapot';
    },
    'status_header_and_code' => static function (): void {
        header('Status: 418 Teapot');
        http_response_code(503);
        echo http_response_code();
    },
    'code_404' => static fn () => print((string) http_response_code(404) . http_response_code()),
    'code_503' => static fn () => print((string) http_response_code(503)),
    'code_422' => static fn () => print((string) http_response_code(422)),
    'code_451' => static fn () => print((string) http_response_code(451)),
    'code_499' => static fn () => print((string) http_response_code(499)),
    'code_599' => static fn () => print((string) http_response_code(599)),
    'code_201' => static function (): void {
        http_response_code(201);
        header('Location: /made');
        echo 'made';
    },
    'code_204' => static function (): void {
        http_response_code(204);
        header('X-Empty: yes');
    },
    'code_204_with_body' => static function (): void {
        http_response_code(204);
        echo 'nobody reads this';
    },
    'code_304' => static function (): void {
        header('ETag: "a"');
        http_response_code(304);
    },
    'code_304_with_body' => static function (): void {
        header('HTTP/1.1 304 Not Modified');
        header('Content-Type: text/plain');
        echo 'nobody reads this';
    },
    'location' => static fn () => header('Location: /elsewhere?a=b'),
    'location_absolute' => static fn () => header('Location: https://example.org/x'),
    'location_301' => static fn () => header('Location: /moved', true, 301),
    'location_307' => static function (): void {
        http_response_code(307);
        header('Location: /kept');
        echo 'redirected with a body';
    },
    'location_then_200' => static function (): void {
        header('Location: /x');
        http_response_code(200);
        echo 'stays';
    },
    'www_authenticate' => static function (): void {
        header('WWW-Authenticate: Basic realm="parity"');
        echo http_response_code();
    },
    'type_text' => static fn () => header('Content-Type: text/plain') ?? print('text'),
    'type_lower' => static fn () => header('content-type:text/xml; charset=iso-8859-1') ?? print('xml'),
    'type_binary' => static fn () => header('Content-Type: image/png') ?? print("\x89PNG\r\n\0\xff"),
    'type_json' => static fn () => header('Content-Type: application/json') ?? print('{}'),
    'type_empty' => static fn () => header('Content-Type:') ?? print('none'),
    'type_removed' => static fn () => header_remove('Content-Type') ?? print('none'),
    'type_default_empty' => static function (): void {
        ini_set('default_mimetype', '');
        echo 'none';
        ini_restore('default_mimetype');
    },
    'cookies' => static function (): void {
        setcookie('plain', 'value');
        setcookie('spaced', 'a b;c=d,é%');
        setrawcookie('raw', 'a%20b');
        setcookie('gone', '');
        setcookie('full', 'x', [
            'path' => '/p',
            'domain' => 'example.org',
            'secure' => true,
            'httponly' => true,
            'samesite' => 'Strict',
        ]);
        setcookie('list[a]', '1');
        setcookie('list[b]', '2');
        echo 'ok';
    },
    'cookie_errors' => static function (): void {
        foreach ([['a b', '1'], ["a\n", '1'], ['', 'x']] as [$name, $value]) {
            try {
                echo var_export(setcookie($name, $value), true), "\n";
            } catch (Throwable $e) {
                echo $e::class, ': ', $e->getMessage(), "\n";
            }
        }
    },
    'newline' => static function (): void {
        header("X-Evil: a\r\nX-Injected: b");
        echo error_get_last()['message'] ?? 'no error';
    },
    'nul' => static function (): void {
        header("X-Nul: a\0b");
        echo error_get_last()['message'] ?? 'no error';
    },
    'forms' => static function (): void {
        header('X-Tight:bar');
        header('X-Wide:    bar   ');
        header('X-Empty:');
        header('X-Blank: ');
        header("X-Latin: caf\xe9");
        header('X-Utf: café');
        header('x-lower: l');
        header('X_Under: u');
        header('X-Colons: a:b:c');
        header("X-Tab:\tt");
        echo 'ok';
    },
    'no_colon' => static function (): void {
        header('Nonsense');
        header('X-Sense: yes');
        echo 'ok';
    },
    'after_output' => static function (): void {
        echo 'output';
        ob_flush();
        flush();
        header('X-Late: yes');
        http_response_code(500);
        echo error_get_last()['message'] ?? 'no error';
        echo headers_sent($file, $line) ? basename($file) . ':' . $line : 'unsent';
    },
    'callback' => static function (): void {
        header_register_callback(static function (): void {
            header('X-Callback: ran');
            http_response_code(202);
        });
        echo 'ok';
    },
    'large' => static function (): void {
        header('X-Large: ' . str_repeat('l', 16_000));
        echo 'ok';
    },
    'many' => static function (): void {
        for ($n = 0; $n < 100; ++$n) {
            header("X-Number-$n: $n");
        }
        echo 'ok';
    },
    'own' => static function (): void {
        header('Cache-Control: private, max-age=3');
        header('Last-Modified: Tue, 15 Nov 1994 12:45:26 GMT');
        header('Expires: Thu, 01 Dec 1994 16:00:00 GMT');
        header('ETag: W/"weak"');
        header('Vary: Accept');
        header('Vary: Cookie', false);
        header('Link: </a.css>; rel=preload', false);
        header('Link: </b.js>; rel=preload', false);
        header('Content-Language: de');
        header('Content-Encoding: x-own');
        header('Content-Disposition: attachment; filename="a.txt"');
        header('Accept-Ranges: bytes');
        header('Refresh: 5');
        echo 'ok';
    },
    'length' => static function (): void {
        header('Content-Length: 5');
        echo '12345';
    },
    'length_too_long_body' => static function (): void {
        header('Content-Length: 5');
        echo '123456789';
    },
    'length_head' => static function (): void {
        header('Content-Length: 12345');
    },
    'hsts' => static function (): void {
        header('Strict-Transport-Security: max-age=1');
        header('X-Frame-Options: DENY');
        header('Content-Security-Policy: default-src \'self\'; img-src *');
        header('Access-Control-Allow-Origin: *');
        echo 'ok';
    },
    'powered_by' => static function (): void {
        header_remove('X-Powered-By');
        echo 'ok';
    },
];
