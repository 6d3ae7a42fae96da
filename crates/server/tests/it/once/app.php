<?php

/*
 * An application that calls hearth_request() in a function, as one with hooks would. What is above notes each boot in the file
 * that the environment names; what each path does is said below.
 */

declare(strict_types=1);

final class Kept
{
    public static int $count = 0;
    public array $rows = [];
}

function note(string $what): void
{
    file_put_contents(getenv('TEST_MARKS'), "$what\n", FILE_APPEND);
}

function run_hook(string $name): void
{
    hearth_request();
}

note('boot');
register_shutdown_function(static function (): void {
    echo ' down';
});
$file = fopen(__FILE__, 'r');
$booted = new Kept();

run_hook('init');

$booted->rows[] = $_SERVER['REQUEST_URI'];
$calls = ($calls ?? 0) + 1;
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($path === '/count') {
    echo implode(' ', [$calls, ++Kept::$count, count($booted->rows), ftell($file), strlen(fread($file, 5))]);
    define('ONLY_HERE', 1);
    chdir('/');
    putenv('LEFT=1');
    return;
}
echo 'served ', $path;
match ($path) {
    '/exit' => exit(3),
    '/throw' => throw new RuntimeException('thrown on purpose'),
    '/fatal' => eval('class Twice {} class Twice {}'),
    '/memory' => str_repeat('x', 1 << 40),
    '/twice' => hearth_request(),
    '/fiber' => (new Fiber(static fn () => exit(' in a fiber')))->start(),
    '/finish' => fastcgi_finish_request(),
    default => null,
};
echo ' to the end';
