<?php

/*
 * One action a request: `?do=NAME`.
 *
 * Runs in: worker. Called by: resident.php and classic.php, which set $booted and $served.
 */

declare(strict_types=1);

switch ($_GET['do'] ?? 'hello') {
    case 'hello':
        header('X-Greeting: yes');
        echo 'Hello, ' . ($_GET['name'] ?? 'world') . '!';
        break;
    case 'count':
        echo $served;
        break;
    case 'pids':
        echo $booted, ' ', getmypid();
        break;
    case 'titles':
        foreach ([posix_getppid(), getmypid()] as $pid) {
            echo rtrim(file_get_contents("/proc/$pid/cmdline"), "\0"), "\n";
        }
        break;
    case 'environment':
        echo getenv('HEARTH_WORKER'), ' ', getcwd();
        break;
    case 'descriptors':
        foreach (scandir('/proc/self/fd') as $number) {
            $target = @readlink("/proc/self/fd/$number");
            if ($target !== false) {
                echo $number, ' ', $target, "\n";
            }
        }
        break;
    case 'status':
        header('HTTP/1.1 404 Not here');
        break;
    case 'body':
        $body = file_get_contents('php://input');
        echo strlen($body), ' ', crc32($body);
        break;
    case 'big':
        $line = str_repeat('0123456789abcdef', 4096);
        for ($i = 0; $i < (int) $_GET['lines']; $i++) {
            echo $line;
        }
        break;
    case 'stream':
        echo 'first';
        flush();
        file_get_contents($_GET['gate']);
        echo ' second';
        break;
    case 'finish':
        echo 'done';
        fastcgi_finish_request();
        file_get_contents($_GET['gate']);
        error_log('host is ' . $_SERVER['HTTP_HOST'] . ', query is ' . $_SERVER['QUERY_STRING']);
        echo 'nobody reads this';
        break;
    case 'early':
        header('Link: </style.css>; rel=preload');
        headers_send(103);
        echo 'late';
        break;
    case 'exit':
        echo 'before exit';
        exit(3);
    case 'throw':
        throw new RuntimeException("first line\nsecond line");
    case 'fatal':
        if (!isset($_GET['silent'])) {
            echo 'before the fatal error';
        }
        ini_set('memory_limit', '32M');
        str_repeat('x', strlen(__FILE__) << 20);
        break;
    case 'log':
        error_log("a line\nand another");
        break;
    case 'stderr':
        file_put_contents('php://stderr', "plain\n");
        break;
    case 'gone':
        ignore_user_abort(true);
        for ($i = 0; $i < 100000 && !connection_aborted(); $i++) {
            echo str_repeat('x', 1024);
            flush();
        }
        error_log('aborted: ' . connection_aborted());
        break;
}
