<?php

/*
 * The application of the tests of extensions. /EXTENSION/ACTION runs a function of cases/EXTENSION.php, which throws if
 * something is wrong; /look shows what a request finds before it has done anything.
 */

declare(strict_types=1);

/** What a request keeps until its end, and should not find at its start. */
final class Kept
{
    /** @var list<mixed> */
    public static array $things = [];

    public static function keep(mixed ...$things): void
    {
        $GLOBALS['kept'] = self::$things = array_merge(self::$things, $things);
    }
}

function run(): void
{
    header('Content-Type: text/plain; charset=UTF-8');
    if ($_SERVER['REQUEST_URI'] === '/script') {
        print(basename(get_included_files()[0]));
        return;
    }
    $path = explode('/', trim(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), '/'));
    if ($path === ['look']) {
        require_once __DIR__ . '/look.php';
        print(json_encode(look(), JSON_PRETTY_PRINT | JSON_PARTIAL_OUTPUT_ON_ERROR));
        return;
    }
    try {
        same([], Kept::$things);
        same(false, isset($GLOBALS['kept']));
        (require __DIR__ . '/cases/' . basename($path[0]) . '.php')[$path[1]]();
        print('ok');
    } catch (Throwable $error) {
        print($error);
    }
}

function same(mixed $expected, mixed $actual): void
{
    if ($expected !== $actual) {
        throw new RuntimeException(sprintf("expected %s\n but got %s\n", var_export($expected, true), var_export($actual, true)));
    }
}

/** A file in the folder of the test. */
function file_of_test(string $name): string
{
    return getenv('EXTENSIONS_FOLDER') . '/' . $name;
}
