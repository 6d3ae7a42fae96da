--TEST--
exit() in a handler of frankenphp_handle_request() ends the script, after its shutdown functions and destructors
--FILE--
<?php
register_shutdown_function(function () { echo "shutdown of the script\n"; });
$object = new class {
    public function __destruct()
    {
        echo "destructor\n";
    }
};
do {
    $again = frankenphp_handle_request(function () {
        register_shutdown_function(function () { echo "shutdown of the request\n"; });
        ob_start();
        echo "buffered\n";
        exit("bye\n");
    });
    echo "not reached\n";
} while ($again);
--ARGS--
--resident 2
--EXPECTF--
buffered
bye
shutdown of the script
shutdown of the request
destructor
%A
