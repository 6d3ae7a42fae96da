--TEST--
hearth_request(): reads of the request above it are told by file and line, in each frame that has led there
--ARGS--
--resident
--FILE--
<?php
$get = $_GET['a'] ?? null;
function wait(): void
{
    if (!empty($_SERVER['HTTPS'])) {
        echo $_SERVER['HTTP_HOST'];
    }
    hearth_request();
    echo count($_COOKIE), "\n";
}
$_POST['assigned'] = 1;
echo isset($_SERVER['PATH']) ? '' : 'no path';
wait();
echo count($_FILES), "\n";
--EXPECTF--
%sonce_reads.php:5 reads $_SERVER['HTTPS'] while the application boots: there is no request yet
%sonce_reads.php:6 reads $_SERVER['HTTP_HOST'] while the application boots: there is no request yet
%sonce_reads.php:2 reads $_GET while the application boots: there is no request yet
0
0
