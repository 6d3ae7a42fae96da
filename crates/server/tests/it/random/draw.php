<?php

/*
 * Draws from every source of chance that PHP and its extensions have, once at the boot, so that each has a state by then,
 * and once for each request. No two requests may get the same.
 *
 * Answers JSON:
 *   pid      the worker
 *   drawn    by source: how many bits its seed has, and what was drawn
 *   steady   by name: what must be the same in each request
 *   time     REQUEST_TIME_FLOAT
 */

declare(strict_types=1);

/** Sessions that are not kept. */
final class NoSessions implements SessionHandlerInterface
{
    public function open(string $path, string $name): bool
    {
        return true;
    }

    public function close(): bool
    {
        return true;
    }

    public function read(string $id): string
    {
        return '';
    }

    public function write(string $id, string $data): bool
    {
        return true;
    }

    public function destroy(string $id): bool
    {
        return true;
    }

    public function gc(int $max_lifetime): int
    {
        return 0;
    }
}

/** The process that serves: under a fork for each request it is the parent of this one. */
function worker(): int
{
    $status = file_get_contents('/proc/self/status');
    $parent = preg_match('/^PPid:\s*(\d+)/m', $status, $found) ? (int) $found[1] : 0;
    $title = @file_get_contents("/proc/$parent/cmdline");

    return str_starts_with((string) $title, 'hearth: worker ') ? $parent : getmypid();
}

/**
 * By name: bits of the seed, and a function that draws. Where the seed is small, values may repeat as often as a
 * seed of so many bits does by chance.
 *
 * @return array<string, array{int, Closure(): string}>
 */
function sources(): array
{
    $bytes = range("\0", "\xff");
    $letters = implode('', range('A', 'Z')) . implode('', range('a', 'z'));
    $engine = static fn (string $class): Closure => static fn (): string => (new $class())->generate();
    $sources = [
        // PHP seeds the Mersenne Twister with 32 bits.
        'mt_rand' => [32, static fn (): string => mt_rand() . '.' . mt_rand() . '.' . mt_rand()],
        'rand' => [32, static fn (): string => rand() . '.' . rand() . '.' . rand()],
        'shuffle' => [32, static function () use ($bytes): string {
            shuffle($bytes);

            return implode('', $bytes);
        }],
        'array_rand' => [32, static fn (): string => implode(',', array_rand($bytes, 32))],
        'str_shuffle' => [32, static fn (): string => str_shuffle($letters)],
        'Mt19937' => [32, static fn (): string => implode('', array_map(
            static fn (Random\Engine\Mt19937 $engine): string => $engine->generate() . $engine->generate(),
            [new Random\Engine\Mt19937()],
        ))],
        'Xoshiro256StarStar' => [64, $engine(Random\Engine\Xoshiro256StarStar::class)],
        'PcgOneseq128XslRr64' => [64, $engine(Random\Engine\PcgOneseq128XslRr64::class)],
        'Secure' => [64, $engine(Random\Engine\Secure::class)],
        'Randomizer' => [64, static fn (): string => (new Random\Randomizer())->getBytes(16)],
        'random_int' => [62, static fn (): string => (string) random_int(PHP_INT_MIN, PHP_INT_MAX)],
        'random_bytes' => [64, static fn (): string => random_bytes(16)],
        // Before 8.4 PHP seeds it with little more than the microsecond.
        'lcg_value' => [PHP_VERSION_ID < 80400 ? 22 : 60, static fn (): string => lcg_value() . '.' . lcg_value()],
        // It is the time in microseconds: unique in a process, not on the machine.
        'uniqid' => [64, static fn (): string => getmypid() . '.' . uniqid()],
        'uniqid, more entropy' => [62, static fn (): string => getmypid() . '.' . uniqid('', true)],
        'openssl_random_pseudo_bytes' => [64, static fn (): string => openssl_random_pseudo_bytes(16)],
        'session_create_id' => [64, static fn (): string => session_create_id()],
        'session id' => [64, session(...)],
        // Six characters out of 62, and the file is removed.
        'tempnam' => [35, static function (): string {
            $name = tempnam(sys_get_temp_dir(), 'hearth-random');
            unlink($name);

            return $name;
        }],
        'tmpfile' => [35, static fn (): string => stream_get_meta_data(tmpfile())['uri']],
    ];

    return [...$sources, ...dear(), ...ofExtensions()];
}

function session(): string
{
    session_start(['use_cookies' => false, 'cache_limiter' => '']);
    $id = session_id();
    session_abort();
    session_id('');

    return $id;
}

/**
 * What takes a millisecond: one request in twenty draws from it.
 *
 * @return array<string, array{int, Closure(): string}>
 */
function dear(): array
{
    if ((int) ($_GET['n'] ?? 0) % 20 !== 0) {
        return [];
    }

    return [
        'password_hash' => [64, static fn (): string => substr(password_hash('x', PASSWORD_BCRYPT, ['cost' => 4]), 7, 22)],
        'openssl_pkey_new' => [64, static fn (): string => openssl_pkey_get_details(
            openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']),
        )['key']],
    ];
}

/** @return array<string, array{int, Closure(): string}> */
function ofExtensions(): array
{
    $sources = [];
    if (function_exists('sodium_crypto_secretbox_keygen')) {
        $sources['sodium'] = [64, sodium_crypto_secretbox_keygen(...)];
    }
    if (function_exists('gmp_random_bits')) {
        // GENERATE_SEED() of php-src: time, process id and an LCG.
        $sources['gmp_random_bits'] = [32, static fn (): string => gmp_strval(gmp_random_bits(128), 16)];
    }
    if (function_exists('uuid_create') && 'no' !== ($_GET['uuid'] ?? null)) {
        $sources['uuid, random'] = [64, static fn (): string => uuid_create(UUID_TYPE_RANDOM)];
        // Two processes may get the same one, without isolation too: libuuid's own affair.
        $sources['uuid, time'] = [64, static fn (): string => getmypid() . '.' . uuid_create(UUID_TYPE_TIME)];
    }
    return [...$sources, ...ofLibraries()];
}

/**
 * What libraries keep for themselves. Nobody seeds it anew under php-fpm, nor in classic mode: asked only where "c" is in
 * the query.
 *
 * @return array<string, array{int, Closure(): string}>
 */
function ofLibraries(): array
{
    if (!isset($_GET['c'])) {
        return [];
    }
    $sources = [];
    if (class_exists('PDO') && in_array('sqlite', PDO::getAvailableDrivers(), true)) {
        global $booted;
        $booted ??= new PDO('sqlite::memory:');
        $blob = static fn (PDO $database): string => $database->query('select hex(randomblob(16))')->fetchColumn();
        $sources['sqlite'] = [64, static fn (): string => $blob(new PDO('sqlite::memory:'))];
        $sources['sqlite of the boot'] = [64, static fn (): string => $blob($booted)];
    }

    if (!class_exists('FFI')) {
        return $sources;
    }
    static $c = null;
    $c ??= FFI::cdef('int rand(void); long random(void); double drand48(void); long lrand48(void);');
    $three = static fn (string $name): Closure
        => static fn (): string => $c->$name() . '.' . $c->$name() . '.' . $c->$name();

    return [
        ...$sources,
        'rand of C' => [32, $three('rand')],
        'random of C' => [32, $three('random')],
        'drand48 of C' => [32, $three('drand48')],
        'lrand48 of C' => [32, $three('lrand48')],
    ];
}

function draw(): void
{
    global $object;
    $time = $_SERVER['REQUEST_TIME_FLOAT'];
    session_set_save_handler(new NoSessions());
    $sources = sources();
    // Another one is the first each time.
    $names = array_keys($sources);
    $first = (int) ($_GET['n'] ?? 0) % count($names);
    $drawn = [];
    $order = [...array_slice($names, $first), ...array_slice($names, 0, $first)];
    // Last, since libuuid seeds the C library's generator anew, with the time and the process id.
    $seeding = array_filter($order, static fn (string $name): bool => str_starts_with($name, 'uuid'));
    foreach ([...array_diff($order, $seeding), ...$seeding] as $name) {
        [$bits, $next] = $sources[$name];
        $drawn[$name] = [$bits, bin2hex($next())];
    }
    $steady = [
        'spl_object_hash' => spl_object_hash($object),
        'spl_object_id' => spl_object_id($object),
        'order' => implode(',', array_keys(array_flip(['one', 'two', 'three']))),
        'crc32' => crc32('hash'),
        'xxh3' => hash('xxh3', 'hash'),
    ];
    header('Content-Type: application/json');
    echo json_encode(['pid' => getmypid(), 'worker' => worker(), 'drawn' => $drawn, 'steady' => $steady, 'time' => $time]);
}

$object = new stdClass();
$_GET['n'] = 0;
$_GET['c'] = 'yes';
foreach (sources() as $name => [, $next]) {
    // A session belongs to a request.
    if (!str_starts_with($name, 'session')) {
        $next();
    }
}
unset($_GET['n'], $_GET['c']);
