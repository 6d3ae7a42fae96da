<?php

/*
 * What PHP sees of a request, one line a value, in the order in which PHP has it.
 */

declare(strict_types=1);

$line = static function (string $name, mixed $value) use (&$line): void {
    if (!is_array($value)) {
        echo $name, ' = ', get_debug_type($value), ' ', addcslashes((string) $value, "\0..\37\\\177..\377"), "\n";

        return;
    }
    echo $name, ' [', count($value), "]\n";
    foreach ($value as $key => $item) {
        $line($name . '.' . addcslashes((string) $key, "\0..\37\\\177..\377"), $item);
    }
};

// What PHP names differently each time is replaced by what it is.
$uploads = static function (array $files) use (&$uploads): array {
    foreach ($files as $key => &$file) {
        if (is_array($file)) {
            $file = $uploads($file);
        } elseif (is_string($file) && is_uploaded_file($file)) {
            $file = 'uploaded, ' . filesize($file) . ' bytes, ' . sha1_file($file);
        }
    }

    return $files;
};

return [
    'all' => static function () use ($line, $uploads): void {
        header('Content-Type: text/plain');
        // Read in a function, as most code does.
        $line('server', $_SERVER);
        $line('get', $_GET);
        $line('post', $_POST);
        $line('cookie', $_COOKIE);
        $line('files', $uploads($_FILES));
        $line('request', $_REQUEST);
        $line('input', file_get_contents('php://input'));
        $line('headers', getallheaders());
        $line('argv', $_SERVER['argv'] ?? null);
        $line('error', error_get_last()['message'] ?? null);
    },
    // Bodies are large here: only their digest.
    'digest' => static function () use ($line): void {
        $body = file_get_contents('php://input');
        $line('length', strlen($body));
        $line('sha1', sha1($body));
        $line('again', sha1_file('php://input'));
        $line('post', count($_POST));
    },
    'pieces' => static function () use ($line): void {
        $input = fopen('php://input', 'r');
        $line('first', fread($input, 3));
        $line('seek', fseek($input, 0));
        $line('all', stream_get_contents($input));
        $line('eof', feof($input));
        $line('second stream', file_get_contents('php://input'));
    },
    'filter' => static function () use ($line): void {
        $line('get', filter_input(INPUT_GET, 'a', FILTER_DEFAULT, FILTER_NULL_ON_FAILURE));
        $line('int', filter_input(INPUT_GET, 'n', FILTER_VALIDATE_INT));
        $line('post', filter_input(INPUT_POST, 'p'));
        $line('cookie', filter_input(INPUT_COOKIE, 'c'));
        $line('server', filter_input(INPUT_SERVER, 'REQUEST_METHOD'));
        $line('has', filter_has_var(INPUT_SERVER, 'HTTP_X_RUN'));
    },
    'environment' => static function () use ($line): void {
        $line('getenv', getenv('QUERY_STRING'));
        $line('local', getenv('REQUEST_METHOD', true));
        $line('env', array_keys($_ENV));
        $line('has', isset(getenv()['SCRIPT_FILENAME']));
    },
    'move' => static function () use ($line): void {
        $target = tempnam(sys_get_temp_dir(), 'parity');
        $line('moved', move_uploaded_file($_FILES['f']['tmp_name'], $target));
        $line('size', filesize($target));
        $line('not uploaded', move_uploaded_file(__FILE__, $target));
        unlink($target);
    },
    'state' => static function () use ($line): void {
        $line('status', http_response_code());
        $line('sent', headers_sent());
        $line('list', headers_list());
        $line('level', ob_get_level());
        $line('connection', connection_status());
        $line('aborted', connection_aborted());
        $line('ignore', ignore_user_abort());
        $line('limit', ini_get('memory_limit'));
        $line('time', ini_get('max_execution_time'));
        $line('errors', error_reporting());
        $line('finite', is_float($_SERVER['REQUEST_TIME_FLOAT']) && is_int($_SERVER['REQUEST_TIME']));
        $line('now', abs(time() - $_SERVER['REQUEST_TIME']) < 5);
        $line('session', session_status());
    },
];
