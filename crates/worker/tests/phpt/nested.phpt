--TEST--
hearth_handle_request() within a handler
--ARGS--
--resident 
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    try {
        hearth_handle_request(fn() => 1);
    } catch (RuntimeException $e) {
        echo $e->getMessage(), "\n";
    }
});
--EXPECT--
hearth_handle_request() called while a request is being handled
