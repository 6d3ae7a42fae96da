--TEST--
A client that leaves ends the request, and only that
--INI--
output_buffering=0
--ARGS--
--resident --request 'GET /gone' --gone-after 6 --request 'GET /ignore' --gone-after 6 --request 'GET /show'
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    static $reached = [];
    $id = $_SERVER['REQUEST_URI'];
    register_shutdown_function(function () use (&$reached, $id) { $reached[] = "shutdown $id " . connection_status(); });
    if ($id === '/show') {
        echo json_encode($reached), connection_aborted(), "\n";
        return;
    }
    ignore_user_abort($id === '/ignore');
    echo "12345\n";
    flush();
    echo 'x';
    $reached[] = "after $id " . connection_aborted();
});
--EXPECT--
12345
12345
["shutdown \/gone 1","after \/ignore 1","shutdown \/ignore 1"]0
