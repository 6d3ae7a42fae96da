--TEST--
hearth_request(): exit() and the end of the script end the request; shutdown functions of the boot run first, then its own
--ARGS--
--resident 3 --request 'GET /?exit' --request 'GET /?function'
--FILE--
<?php
final class Ends
{
    public function __construct(private string $name) {}
    public function __destruct() { echo "$this->name destroyed\n"; }
}
register_shutdown_function(function () { echo "shutdown of the boot\n"; });
$boot = new Ends('boot');
function wait(): void { hearth_request(); }
wait();
register_shutdown_function(function () { echo "shutdown of the request\n"; });
$request = new Ends('request');
echo "served\n";
if (isset($_GET['exit'])) {
    exit("by exit\n");
}
--EXPECT--
served
by exit
shutdown of the boot
shutdown of the request
request destroyed
boot destroyed
served
shutdown of the boot
shutdown of the request
request destroyed
boot destroyed
served
shutdown of the boot
shutdown of the request
request destroyed
boot destroyed
