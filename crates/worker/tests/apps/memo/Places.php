<?php

declare(strict_types=1);

namespace Memo;

final class Places
{
    private static ?\WeakMap $map = null;
    private static ?\Generator $generator = null;
    private static ?\Closure $closure = null;
    private static ?\Closure $arrow = null;
    private static ?\SplObjectStorage $storage = null;
    private static array $cache = [];

    /** @return array<string, mixed> */
    public static function all(): array
    {
        self::define();

        return self::statics() + self::objects() + self::constants() + self::process() + self::byHost();
    }

    /** @return list<string> */
    public static function known(): array
    {
        return array_keys(array_filter(['map' => self::$map, 'cache' => self::$cache, 'closure' => self::$closure]));
    }

    private static function define(): void
    {
        $host = $_GET['host'] ?? 'c';
        \defined('TENANT') || \define('TENANT', \ord($host) - 96);
        \defined('TENANT_NAME') || \define('TENANT_NAME', 'tenant ' . $host);
        \defined('TENANT_' . strtoupper($host)) || \define('TENANT_' . strtoupper($host), true);
        \defined('SUFFIX') || \define('SUFFIX', 'global of ' . $host);
    }

    private static function statics(): array
    {
        Late::$typed ??= user();

        return [
            'function static' => in_function(),
            'method static' => Late::instance()->inMethod(),
            'typed static' => Late::$typed,
            'static of this class' => self::$cache['user'] ??= user(),
            'inherited static' => Late::inherited(),
            'late static' => Late::late(),
            'trait static' => Late::ofTrait(),
            'static of a base' => Base::$inherited,
        ];
    }

    private static function objects(): array
    {
        self::$map ??= new \WeakMap();
        self::$map[Suit::Hearts] ??= user();
        self::$generator ??= (static function (string $user): \Generator {
            while (true) {
                yield $user;
            }
        })(user());
        $user = user();
        self::$closure ??= static function () use ($user): string {
            static $first = null;

            return $first ??= $user . \TENANT_NAME;
        };
        self::$arrow ??= static fn (): string => $user;
        self::$storage ??= new \SplObjectStorage();
        self::$storage[Suit::Spades] ??= user();
        $anonymous = new class {
            public static ?string $user = null;
            public string $name = \TENANT_NAME;
        };
        $anonymous::$user ??= user();

        return [
            'weak map' => self::$map[Suit::Hearts],
            'generator' => self::$generator->current(),
            'closure' => (self::$closure)(),
            'arrow function' => (self::$arrow)(),
            'storage' => self::$storage[Suit::Spades],
            'singleton' => Late::instance()->user,
            'enum static' => Suit::Hearts->owner(),
            'anonymous class' => [$anonymous::$user, $anonymous->name],
        ];
    }

    private static function constants(): array
    {
        return [
            'constant' => [\TENANT, \TENANT_NAME],
            'defaults of properties' => Late::defaults(),
            'defaults of parameters' => with_default(),
            'class constant' => Late::TENANT,
            'enum constant' => Suit::TRUMP->name,
        ];
    }

    private static function process(): array
    {
        $locale = $_GET['locale'] ?? 'C';
        if (!isset($GLOBALS['user'])) {
            $GLOBALS['user'] = user();
            ini_set('precision', (string) (\TENANT + 10));
            date_default_timezone_set(\TENANT === 1 ? 'Asia/Tokyo' : 'America/New_York');
            setlocale(LC_ALL, $locale);
            putenv('MEMO_USER=' . user());
            mb_internal_encoding(\TENANT === 1 ? 'ISO-8859-1' : 'UTF-8');
            \Locale::setDefault(\TENANT === 1 ? 'ja_JP' : 'en_US');
            umask(\TENANT === 1 ? 0077 : 0022);
            set_include_path('/' . user());
            header('X-User: ' . user());
            libxml_use_internal_errors(\TENANT === 1);
        }

        return [
            'global' => $GLOBALS['user'],
            'ini' => ini_get('precision') . ' ' . 1 / 3,
            'zone' => date('T e', 86400 * 200),
            'locale' => setlocale(LC_ALL, '0'),
            'environment' => getenv('MEMO_USER'),
            'encoding' => mb_internal_encoding(),
            'intl' => \Locale::getDefault(),
            'umask' => umask(),
            'include path' => get_include_path(),
            'libxml' => libxml_use_internal_errors(),
            'handlers' => [set_error_handler(null), set_exception_handler(null)],
        ];
    }

    private static function byHost(): array
    {
        $host = ($_GET['host'] ?? '') === 'a' ? 'a' : 'b';
        if (!class_exists(Theme::class, false)) {
            require __DIR__ . "/only_$host.php";
            class_alias($host === 'a' ? Late::class : Suit::class, 'Memo\Chosen');
        }

        return [
            'class by host' => Theme::name(),
            'class constant by host' => Theme::NAME,
            'alias by host' => (new \ReflectionClass(Chosen::class))->getName() . ' ' . self::isLate(),
            'function by host' => with_call(),
            'constant by host' => fallback(),
            // Last: each host has defined as many constants as any other by now.
            'defined' => is_tenant(),
        ];
    }

    private static function isLate(): string
    {
        return Late::instance() instanceof Chosen ? 'late' : 'not late';
    }
}
