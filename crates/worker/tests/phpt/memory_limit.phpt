--TEST--
The memory limit ends the request, then the script
--INI--
memory_limit=16M
display_errors=0
log_errors=1
error_log=/dev/null
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    register_shutdown_function(function () { echo "shutdown\n"; });
    echo "before\n";
    str_repeat('x', 64 << 20);
    echo "not reached\n";
});
--EXPECT--
before
shutdown
hearth-worker: the script ended: Fatal
