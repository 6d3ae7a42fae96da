--TEST--
USER and HOME are those of the process's user where the environment has none
--FILE--
<?php
$user = posix_getpwuid(posix_geteuid());
echo $_SERVER['HOME'] === (getenv('HOME', true) ?: $user['dir']) ? 'ok' : $_SERVER['HOME'], "\n";
echo isset($_SERVER['USER']) ? 'ok' : 'no USER', "\n";
--EXPECT--
ok
ok
