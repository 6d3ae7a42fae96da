<?php

/*
 * The process: folder, mask, environment, descriptors, children, files.
 */

declare(strict_types=1);

namespace Nasty;

return [
    'folder' => static function (): void {
        chdir('/');
        echo getcwd();
    },
    'folder that is gone' => static function (): void {
        $folder = sys_get_temp_dir() . '/nasty-gone-' . getmypid();
        mkdir($folder);
        chdir($folder);
        rmdir($folder);
        echo var_export(getcwd(), true);
    },
    'mask' => static function (): void {
        echo decoct(umask(0777));
    },
    'environment' => static function (): void {
        echo var_export(getenv('LEFT_USER'), true);
        putenv('LEFT_USER=alice');
        putenv('TZ=Asia/Tokyo');
        putenv('PATH=/left');
        putenv('LANG');
    },
    'environment, many' => static function (): void {
        for ($i = 0; $i < 100; ++$i) {
            putenv("LEFT_$i=" . str_repeat('x', 100));
        }
        echo count(array_filter(array_keys(getenv()), static fn ($name) => str_starts_with((string) $name, 'LEFT_')));
    },
    'open files' => static function (): void {
        for ($i = 0; $i < 30; ++$i) {
            $GLOBALS['openFiles'][] = fopen(__FILE__, 'r');
        }
        echo count($GLOBALS['openFiles']);
    },
    'open sockets' => static function (): void {
        $GLOBALS['pair'] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        fwrite($GLOBALS['pair'][0], "left\n");
        Heir::$anything = stream_socket_server('tcp://127.0.0.1:0');
        echo fgets($GLOBALS['pair'][1]);
    },
    'sockets of the other extension' => static function (): void {
        if (function_exists('socket_create_pair')) {
            socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
            Heir::$anything = $pair;
            Heir::$shared[] = @socket_connect(socket_create(AF_UNIX, SOCK_STREAM, 0), '/nowhere');
            echo socket_last_error() > 0 ? 'refused' : 'connected';
        }
    },
    'persistent stream' => static function (): void {
        $server = stream_socket_server('tcp://127.0.0.1:0');
        $client = pfsockopen('tcp://' . stream_socket_get_name($server, false));
        fwrite($client, 'x');
        echo get_resource_type($client);
    },
    'pipe of a child' => static function (): void {
        $GLOBALS['pipe'] = popen('echo from the child', 'r');
        echo fgets($GLOBALS['pipe']);
    },
    'child left running' => static function (): void {
        $GLOBALS['child'] = proc_open(['cat'], [['pipe', 'r'], ['pipe', 'w']], $GLOBALS['pipes']);
        echo is_resource($GLOBALS['child']) ? 'started' : 'failed';
    },
    'child with many descriptors' => static function (): void {
        $descriptors = [1 => ['pipe', 'w'], 5 => ['file', '/dev/null', 'w'], 9 => ['pipe', 'w']];
        $process = proc_open(['true'], $descriptors, $pipes);
        echo proc_close($process);
    },
    'fork' => static function (): void {
        if (CLibrary::load()?->fork() === 0) {
            posix_kill(posix_getpid(), 9);
        }
        echo 'forked';
    },
    'temporary file' => static function (): void {
        $GLOBALS['temporary'] = tmpfile();
        fwrite($GLOBALS['temporary'], 'left');
        echo fstat($GLOBALS['temporary'])['size'];
    },
    'named temporary file' => static function (): void {
        $name = tempnam(sys_get_temp_dir(), 'nasty');
        $stream = fopen($name, 'w');
        flock($stream, LOCK_EX);
        unlink($name);
        Heir::$anything = $stream;
        echo strlen(basename($name));
    },
    'lock on a file of the boot' => static function (): void {
        echo var_export(flock(Booted::get()->file, LOCK_SH | LOCK_NB), true);
    },
    'lock that a later request needs' => static function (): void {
        $GLOBALS['lock'] = fopen(sys_get_temp_dir() . '/nasty-lock-' . getmypid(), 'c');
        echo var_export(flock($GLOBALS['lock'], LOCK_EX | LOCK_NB), true);
        unlink(sys_get_temp_dir() . '/nasty-lock-' . getmypid());
    },
    'file of the boot closed' => static function (): void {
        echo fclose(Booted::get()->file) ? 'closed' : 'open';
    },
    'file of the boot closed and its number taken' => static function (): void {
        fclose(Booted::get()->file);
        for ($i = 0; $i < 5; ++$i) {
            $GLOBALS['taking'][] = fopen('/dev/zero', 'r');
        }
        echo strlen(fread($GLOBALS['taking'][0], 3));
    },
    'file of the boot read on' => static function (): void {
        echo fgets(Booted::get()->file), fgets(Booted::get()->file);
    },
    'file of the boot read to its end' => static function (): void {
        echo strlen(stream_get_contents(Booted::get()->file)), var_export(feof(Booted::get()->file), true);
    },
    'file of the boot moved' => static function (): void {
        fseek(Booted::get()->file, 100);
        stream_set_blocking(Booted::get()->file, false);
        stream_set_read_buffer(Booted::get()->file, 0);
        echo ftell(Booted::get()->file);
    },
    'memory stream of the boot' => static function (): void {
        fwrite(Booted::get()->memory, "left\n");
        echo strlen(stream_get_contents(Booted::get()->memory, null, 0));
    },
    'every descriptor closed' => static function (): void {
        foreach (get_resources('stream') as $stream) {
            fclose($stream);
        }
        echo count(get_resources('stream'));
    },
    'standard input' => static function (): void {
        $GLOBALS['input'] = fopen('php://stdin', 'r');
        stream_set_blocking($GLOBALS['input'], false);
        echo var_export(fgets($GLOBALS['input']), true);
    },
    'standard output' => static function (): void {
        $GLOBALS['standard'] = [fopen('php://stdout', 'w'), fopen('php://stderr', 'w')];
        echo count($GLOBALS['standard']);
    },
    'descriptors of the C library' => static function (): void {
        for ($i = 0; $i < 5; ++$i) {
            CLibrary::load()?->open('/dev/zero', 0);
        }
        echo 'opened';
    },
    'folder handle' => static function (): void {
        opendir('/');
        echo readdir() === false ? 'none' : 'an entry';
    },
    'log of the system' => static function (): void {
        echo var_export(openlog('left', LOG_PID | LOG_NDELAY, LOG_USER), true);
    },
    'words left' => static function (): void {
        echo strtok('left behind for you', ' ');
    },
    'cache of files' => static function (): void {
        $file = sys_get_temp_dir() . '/nasty-stat-' . getmypid();
        echo var_export(is_file($file), true);
        touch($file);
        clearstatcache();
        echo filesize($file);
        unlink($file);
    },
];
