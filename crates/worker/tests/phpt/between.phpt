--TEST--
Code between two requests runs after the response is complete
--ARGS--
--resident 2
--FILE--
<?php
while (hearth_handle_request(function () { echo "served\n"; })) {
    file_put_contents('php://stderr', 'between ' . json_encode(fastcgi_finish_request()) . "\n");
}
--EXPECT--
served
between false
served
between false
