--TEST--
hearth_handle_request() outside of a worker script
--FILE--
<?php
foreach (['hearth_handle_request', 'frankenphp_handle_request'] as $function) {
    try {
        $function(fn() => 1);
    } catch (RuntimeException $e) {
        echo get_class($e), ': ', $e->getMessage(), "\n";
    }
}
--EXPECT--
RuntimeException: hearth_handle_request() called while not in worker mode
RuntimeException: frankenphp_handle_request() called while not in worker mode
