--TEST--
A body over post_max_size: a warning no handler of the script sees, php://input whole
--INI--
post_max_size=5
--ARGS--
--resident --request 'POST /' --header 'Content-Type: application/x-www-form-urlencoded' --body a=12345678901
--FILE--
<?php
require __DIR__ . '/worker.inc';

set_error_handler(function ($no, $message) { throw new ErrorException($message); });
serve(function () { echo json_encode($_POST), strlen(file_get_contents('php://input')), "\n"; });
--EXPECT--
Warning: PHP Request Startup: POST Content-Length of 13 bytes exceeds the limit of 5 bytes in Unknown on line 0
[]13
