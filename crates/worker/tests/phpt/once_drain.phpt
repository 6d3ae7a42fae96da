--TEST--
hearth_request(): without a request nothing of the script runs, neither destructors nor shutdown functions
--ARGS--
--resident 0
--FILE--
<?php
register_shutdown_function(function () { echo "shutdown\n"; });
final class Ends { public function __destruct() { echo "destroyed\n"; } }
$ends = new Ends();
try {
    hearth_request();
    echo "no request\n";
} catch (Throwable) {
    echo "caught\n";
} finally {
    echo "finally\n";
}
--EXPECT--
