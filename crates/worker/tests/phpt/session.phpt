--TEST--
A session belongs to one request
--INI--
session.use_cookies=0
session.cache_limiter=
session.use_strict_mode=0
output_buffering=4096
--ARGS--
--resident 4
--FILE--
<?php
require __DIR__ . '/worker.inc';

ini_set('session.save_path', __DIR__);
serve(function () {
    echo json_encode([session_status() === PHP_SESSION_NONE, session_id(), isset($_SESSION)]), ' ';
    session_id('hearthphptsession00000001');
    session_start();
    $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
    echo $_SESSION['n'], "\n";
    if ($_SESSION['n'] === 3) {
        session_destroy();
    }
});
--EXPECT--
[true,"",false] 1
[true,"",false] 2
[true,"",false] 3
[true,"",false] 1
