<?php

/*
 * Files: temporary ones and who removes them, modes, uploads after their request.
 */

declare(strict_types=1);

$folder = sys_get_temp_dir();
$change = isset($_SERVER['HTTP_X_CHANGE']);
$note = "$folder/parity-note";
$gone = static fn (string $path): string => file_exists($path) ? 'still there' : 'gone';

return [
    'tmpfile' => static function () use ($change, $note, $gone): void {
        if ($change) {
            static $file = null;
            $file = tmpfile();
            fwrite($file, 'temporary');
            file_put_contents($note, stream_get_meta_data($file)['uri']);
        }
        echo $gone(file_get_contents($note));
    },
    'tmpfile_after_exit' => static function () use ($change, $note, $gone): void {
        if ($change) {
            $file = tmpfile();
            file_put_contents($note, stream_get_meta_data($file)['uri']);
            exit('exit');
        }
        echo $gone(file_get_contents($note));
    },
    'tmpfile_after_fatal' => static function () use ($change, $note, $gone): void {
        if ($change) {
            $GLOBALS['parity_file'] = tmpfile();
            file_put_contents($note, stream_get_meta_data($GLOBALS['parity_file'])['uri']);
            eval('class TwiceT {} class TwiceT {}');
        }
        echo $gone(file_get_contents($note));
    },
    'tempnam' => static function () use ($change, $note, $gone): void {
        if ($change) {
            file_put_contents($note, tempnam(sys_get_temp_dir(), 'parity'));
        }
        $path = file_get_contents($note);
        echo $gone($path), decoct(fileperms($path) & 0o777), dirname($path) === sys_get_temp_dir() ? '' : ' elsewhere';
        $change || unlink($path);
    },
    'upload' => static function () use ($change, $note, $gone): void {
        if ($change) {
            $path = $_FILES['f']['tmp_name'];
            file_put_contents($note, $path);
            echo decoct(fileperms($path) & 0o777), dirname($path) === sys_get_temp_dir() ? ' ' : ' elsewhere ';
        }
        echo $gone(file_get_contents($note)), json_encode(is_uploaded_file(file_get_contents($note)));
    },
    'upload_then_exit' => static function () use ($change, $note, $gone): void {
        if ($change) {
            file_put_contents($note, $_FILES['f']['tmp_name']);
            exit('exit');
        }
        echo $gone(file_get_contents($note));
    },
    'upload_then_fatal' => static function () use ($change, $note, $gone): void {
        if ($change) {
            file_put_contents($note, $_FILES['f']['tmp_name']);
            eval('class TwiceU {} class TwiceU {}');
        }
        echo $gone(file_get_contents($note));
    },
    'upload_moved' => static function () use ($change, $note, $gone): void {
        if ($change) {
            echo json_encode(move_uploaded_file($_FILES['f']['tmp_name'], "$note.moved"));
        }
        echo $gone("$note.moved"), decoct(fileperms("$note.moved") & 0o777), file_get_contents("$note.moved");
        $change || unlink("$note.moved");
    },
    'upload_copied' => static function () use ($change, $note): void {
        if ($change) {
            copy($_FILES['f']['tmp_name'], "$note.copy");
            unlink($_FILES['f']['tmp_name']);
        }
        echo file_get_contents("$note.copy");
        $change || unlink("$note.copy");
    },
    'nothing_left' => static fn () => print(json_encode(preg_grep('/note|sess_|php.ini/', scandir($folder), PREG_GREP_INVERT))),
    'modes' => static function () use ($note): void {
        foreach ([0o022, 0o002, 0o077] as $mask) {
            umask($mask);
            file_put_contents("$note.m", 'x');
            mkdir("$note.d");
            echo decoct(fileperms("$note.m") & 0o777), ' ', decoct(fileperms("$note.d") & 0o777), "\n";
            unlink("$note.m");
            rmdir("$note.d");
            clearstatcache();
        }
    },
    'default_mode' => static function () use ($note): void {
        file_put_contents("$note.m", 'x');
        echo decoct(umask()), ' ', decoct(fileperms("$note.m") & 0o777);
        unlink("$note.m");
    },
    'relative_paths' => static function (): void {
        echo basename(getcwd()), ' ', json_encode([is_file('direct.php'), is_file('./sub/index.php'), is_file('cases/file.php')]);
        chdir('sub');
        echo ' ', basename(getcwd()), ' ', json_encode(is_file('index.php'));
    },
    'include_relative' => static function (): void {
        echo (include 'sub/../../cases/once.inc'), ' ', @include 'no-such.inc';
    },
    'directory_in_shutdown' => static function (): void {
        // After the script PHP goes back to where it was started.
        $where = static fn (): string => in_array(basename(getcwd()), ['sub', 'public'], true) ? basename(getcwd()) : 'elsewhere';
        register_shutdown_function(static fn () => print(' shutdown ' . $where()));
        chdir('sub');
        echo $where();
    },
    'append_and_lock' => static function () use ($note): void {
        for ($n = 0; $n < 3; ++$n) {
            file_put_contents("$note.a", "$n ", FILE_APPEND | LOCK_EX);
        }
        echo file_get_contents("$note.a");
        unlink("$note.a");
    },
    'user_and_group' => static function (): void {
        echo json_encode([getmyuid() === fileowner(__FILE__), basename($_SERVER['SCRIPT_FILENAME']), get_current_user() !== '']);
    },
    'last_modified' => static fn () => print(json_encode([getlastmod() === filemtime($_SERVER['SCRIPT_FILENAME']), getmyinode() > 0])),
    'standard_streams' => static function (): void {
        echo json_encode([defined('STDIN'), defined('STDOUT'), fopen('php://stdin', 'r') !== false, PHP_BINARY !== '']);
    },
];
