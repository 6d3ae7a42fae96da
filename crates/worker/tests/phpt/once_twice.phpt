--TEST--
hearth_request(): a second call is an exception of the request, and so is hearth_handle_request()
--ARGS--
--resident 2
--FILE--
<?php
hearth_request();
foreach (['hearth_request', fn () => hearth_handle_request(fn () => 1)] as $call) {
    try {
        $call();
    } catch (RuntimeException $e) {
        echo $e->getMessage(), "\n";
    }
}
--EXPECT--
hearth_request() was called a second time: one request a run of the script
hearth_handle_request() called while a request is being handled
hearth_request() was called a second time: one request a run of the script
hearth_handle_request() called while a request is being handled
