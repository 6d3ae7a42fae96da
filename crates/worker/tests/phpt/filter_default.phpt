--TEST--
filter.default applies to every variable
--INI--
filter.default=special_chars
--ARGS--
--resident --request 'GET /?a=<b>' --header 'X-A: <i>'
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () { echo $_GET['a'], ' ', $_SERVER['HTTP_X_A'], ' ', $_SERVER['PHP_SELF'], "\n"; });
--EXPECT--
&#60;b&#62; &#60;i&#62; /filter_default.php

Deprecated: The filter.default ini setting is deprecated in Unknown on line 0
