--TEST--
Uploads: $_FILES, error codes, and the temporary file is removed at the end
--INI--
upload_max_filesize=8
--ARGS--
--resident --request 'POST /' --header 'Content-Type: multipart/form-data; boundary=B' --body @upload.inc --request 'GET /'
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    static $kept;
    if (isset($_FILES['f'])) {
        $kept = $_FILES['f']['tmp_name'];
        echo $_POST['a'], ' ', $_FILES['f']['name'], ' ', file_get_contents($kept), ' ', $_FILES['big']['error'], ' ';
        var_dump(is_uploaded_file($kept));
    } else {
        var_dump($_FILES, $_POST, file_exists($kept), is_uploaded_file($kept));
    }
});
--EXPECT--
1 t.txt hello 1 bool(true)
array(0) {
}
array(0) {
}
bool(false)
bool(false)
