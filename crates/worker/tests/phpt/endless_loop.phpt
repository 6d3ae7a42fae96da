--TEST--
A script that does not heed the end of requests is ended
--ARGS--
--resident 
--FILE--
<?php
register_shutdown_function(function () { file_put_contents("php://stderr", "shutdown\n"); });
while (true) {
    hearth_handle_request(function () { echo "served\n"; });
}
--EXPECT--
served
the worker script ignores that there are no more requests and is ended
shutdown
hearth-worker: the script ended: Exit
