--TEST--
hearth_request(): a stream on php://input that the boot has opened is empty above and the body below
--INI--
enable_post_data_reading=1
--ARGS--
--resident 3 --request 'PUT /' --body one --request 'POST /' --body two --request 'POST /' --header 'Content-Type: application/x-www-form-urlencoded' --body a=b
--FILE--
<?php
$input = fopen('php://input', 'r');
$above = stream_get_contents($input);
hearth_request();
echo json_encode([$above, feof($input), stream_get_contents($input), file_get_contents('php://input'), $_POST]), "\n";
--EXPECT--
["",false,"one","one",[]]
["",false,"two","two",[]]
["",false,"a=b","a=b",{"a":"b"}]
