--TEST--
An uncaught exception in a handler of frankenphp_handle_request() is reported once and ends the script
--INI--
display_errors=1
log_errors=0
html_errors=0
--ARGS--
--resident 2
--FILE--
<?php
try {
    while (frankenphp_handle_request(function () { throw new RuntimeException('thrown'); })) {
        echo "not reached\n";
    }
} catch (Throwable) {
    echo "not caught\n";
} finally {
    echo "not run\n";
}
--EXPECTF--
Fatal error: Uncaught RuntimeException: thrown in %s
Stack trace:
#0 [internal function]: {closure%S}()
#1 %s: frankenphp_handle_request(Object(Closure))
#2 {main}
  thrown in %s on line %d
%A
