<?php

/*
 * Leaves something behind, as the path says: one kind of thing a path. For tests of what finds it.
 */

declare(strict_types=1);

final class Shop
{
    public static ?string $user = null;
    public array $cart = [];
    /** @var list<object> */
    private array $kept = [];

    public function keep(object $one): void
    {
        $this->kept[] = $one;
    }
}

final class Visit
{
}

function visits(): int
{
    static $visits = 0;

    return ++$visits;
}

/** @param int $number of the request that leaves it */
function leave(string $what, int $number, Shop $shop): void
{
    $odd = $number % 2 === 1;
    match ($what) {
        '/global' => $GLOBALS['seen'] = $number,
        '/static' => Shop::$user = "user $number",
        '/function' => visits(),
        '/property' => $shop->cart[] = $number,
        '/object' => $shop->keep(new Visit()),
        '/setting' => ini_set('precision', (string) (10 + $number)),
        '/handler' => set_error_handler(static fn () => false),
        '/autoloader' => spl_autoload_register(static function () use ($number) {
        }),
        '/constant' => define("LEFT_$number", true),
        '/declared' => eval("function left_$number() {}"),
        '/resource' => $shop->keep((object) ['file' => fopen(__FILE__, 'r')]),
        '/wrapper' => stream_wrapper_register("left$number", Visit::class),
        '/environment' => putenv("LEFT=$number"),
        '/locale' => setlocale(LC_ALL, $odd ? 'C' : 'C.UTF-8'),
        '/timezone' => date_default_timezone_set($odd ? 'UTC' : 'Asia/Tokyo'),
        '/encoding' => mb_internal_encoding($odd ? 'UTF-8' : 'ISO-8859-1'),
        '/directory' => chdir($odd ? '/' : '/tmp'),
        // What ends with the request: locals, garbage in a cycle, output, files that are closed, a shutdown function.
        default => clean($number),
    };
}

function clean(int $number): void
{
    $one = (object) ['number' => $number];
    $one->other = (object) ['one' => $one];
    ob_start();
    echo str_repeat('x', 100_000);
    ob_end_clean();
    fclose(fopen(__FILE__, 'r'));
    register_shutdown_function(static fn () => null);
    set_error_handler(static fn () => false);
    restore_error_handler();
    umask(0077);
}

function serve(): void
{
    $shop = new Shop();
    do {
        $more = hearth_handle_request(static function () use ($shop): void {
            leave(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), (int) ($_GET['number'] ?? 0), $shop);
            echo 'left';
        });
    } while ($more);
}

serve();
