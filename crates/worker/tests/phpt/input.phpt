--TEST--
php://input is the body of the request; a stream kept from the last one is closed
--ARGS--
--resident 3 --request 'PUT /' --body one --request 'POST /' --body two
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    static $kept;
    echo is_resource($kept) ? 'open' : 'closed', ' ', file_get_contents('php://input'), "\n";
    $kept = fopen('php://input', 'r');
});
--EXPECT--
closed one
closed two
closed 
