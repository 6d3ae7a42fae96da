--TEST--
hearth_request() in a script that calls hearth_handle_request()
--ARGS--
--resident 2
--FILE--
<?php
function ask(): void
{
    try {
        hearth_request();
    } catch (RuntimeException $e) {
        file_put_contents('php://stderr', $e->getMessage() . "\n");
    }
}
while (hearth_handle_request(ask(...))) {
    ask();
}
ask();
--EXPECT--
hearth_request() was called while hearth_handle_request() handles a request
hearth_request() was called after hearth_handle_request(): a script calls one of the two
hearth_request() was called while hearth_handle_request() handles a request
hearth_request() was called after hearth_handle_request(): a script calls one of the two
hearth_request() was called after hearth_handle_request(): a script calls one of the two
