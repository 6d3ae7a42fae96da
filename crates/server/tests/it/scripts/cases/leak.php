<?php

/*
 * State: a first request, which has the header X-Change, changes it; a second one, which the same worker answers, shows what is left.
 */

declare(strict_types=1);

require_once __DIR__ . '/leaking.inc';

$change = isset($_SERVER['HTTP_X_CHANGE']);
$show = static function (mixed ...$values): void {
    echo json_encode($values, JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_UNESCAPED_SLASHES);
};
// Of the one that changed, for the one that shows.
$kept = static fn (string $name): string => sys_get_temp_dir() . "/parity-$name";

return [
    // Not state: the pairs are what they should be.
    'worker' => static function () use ($change, $kept): void {
        if ($change) {
            file_put_contents($kept('pid'), (string) getmypid());
        }
        echo file_get_contents($kept('pid')) === (string) getmypid() ? 'the same worker' : 'another worker';
    },
    'static_variable' => static function () use ($show): void {
        $count = static function (): int {
            static $n = 0;

            return ++$n;
        };
        $show($count(), LeakStatics::count());
    },
    'static_property' => static function () use ($show): void {
        $show(++LeakStatics::$visits, LeakStatics::$list[] = count(LeakStatics::$list), LeakChild::$visits);
    },
    'global' => static function () use ($show): void {
        global $visits;
        $visits = ($visits ?? 0) + 1;
        $GLOBALS['parity_list'][] = $visits;
        $show($visits, $GLOBALS['parity_list']);
    },
    'constant' => static function () use ($change, $show): void {
        $change && define('PARITY_CONSTANT', 'left');
        $show(defined('PARITY_CONSTANT'));
    },
    'class_constant_of_constant' => static function () use ($change, $show): void {
        define('PARITY_HOST', $change ? 'first' : 'second');
        $show(LeakConstants::HOST, (new LeakConstants())->host, LeakConstants::$hosts);
    },
    'declarations' => static function () use ($change, $show): void {
        if ($change) {
            eval('class ParityLeft {} function parity_left() {} enum ParityEnum { case A; }');
            class_alias('ParityLeft', 'ParityAlias');
        }
        $show(class_exists('ParityLeft'), class_exists('ParityAlias'), function_exists('parity_left'), enum_exists('ParityEnum'));
    },
    'include_once' => static function () use ($show): void {
        $show(include_once __DIR__ . '/once.inc', count(get_included_files()));
    },
    'include_path' => static function () use ($change, $show): void {
        $change && set_include_path('/left');
        $show(get_include_path());
    },
    'ini' => static function () use ($change, $show): void {
        if ($change) {
            ini_set('precision', '3');
            ini_set('memory_limit', '12M');
            ini_set('default_charset', 'ISO-8859-1');
            ini_set('user_agent', 'left');
        }
        $show(ini_get('precision'), 1 / 3, ini_get('memory_limit'), ini_get('default_charset'), ini_get('user_agent'));
    },
    'ini_by_name' => static function () use ($change, $show): void {
        if ($change) {
            error_reporting(0);
            set_time_limit(77);
            ignore_user_abort(true);
            assert_options(ASSERT_WARNING, 0);
        }
        $show(error_reporting(), ini_get('max_execution_time'), ignore_user_abort(), ini_get('assert.warning'));
    },
    'timezone' => static function () use ($change, $show): void {
        $change && date_default_timezone_set('Asia/Tokyo');
        $show(date_default_timezone_get(), date('H:i T', 0), (new DateTime('@0'))->format('e'));
    },
    'locale' => static function () use ($change, $show): void {
        $change && setlocale(LC_ALL, 'C.UTF-8');
        $show(setlocale(LC_CTYPE, '0'), setlocale(LC_NUMERIC, '0'), ctype_alpha("\xc3"), ucfirst('äa'));
    },
    'intl_locale' => static function () use ($change, $show): void {
        $change && Locale::setDefault('de_CH');
        $show(Locale::getDefault(), (new NumberFormatter(Locale::getDefault(), NumberFormatter::DECIMAL))->format(1234.5));
    },
    'environment' => static function () use ($change, $show): void {
        if ($change) {
            putenv('PARITY_LEFT=yes');
            putenv('TZ=Asia/Tokyo');
            $_ENV['PARITY_ENV'] = $_SERVER['PARITY_SERVER'] = 'yes';
        }
        $show(getenv('PARITY_LEFT'), getenv('TZ'), $_ENV['PARITY_ENV'] ?? null, $_SERVER['PARITY_SERVER'] ?? null);
    },
    'directory' => static function () use ($change, $show): void {
        $change && chdir('/');
        $show(basename(getcwd()), file_exists('index.php'));
    },
    'umask' => static function () use ($change, $show, $kept): void {
        $change && umask(0o077);
        touch($kept('mask'));
        $show(decoct(umask()), decoct(fileperms($kept('mask')) & 0o777));
        unlink($kept('mask'));
    },
    'handlers' => static function () use ($change, $show): void {
        if ($change) {
            set_error_handler(static fn () => print('handled by the first'));
            set_exception_handler(static fn () => print('caught by the first'));
        }
        $show(set_error_handler(null) !== null, set_exception_handler(null) !== null);
        if ($change) {
            restore_error_handler();
            restore_exception_handler();
        }
    },
    'error_handler_used' => static function () use ($change): void {
        if ($change) {
            set_error_handler(static fn (int $level, string $text): bool => (bool) print("[$text]"));
        }
        echo 'a', $undefined, 'b';
    },
    'exception_handler_used' => static function () use ($change): void {
        if ($change) {
            set_exception_handler(static fn (Throwable $e) => print('handled by the first: ' . $e->getMessage()));
        }
        throw new RuntimeException('thrown');
    },
    'autoloader' => static function () use ($change, $show): void {
        $change && spl_autoload_register(static fn (string $class) => print("loads $class "));
        $show(class_exists('ParityNowhere'), count(spl_autoload_functions()), spl_autoload_extensions());
    },
    'shutdown_function' => static function () use ($change): void {
        $change && register_shutdown_function(static fn () => print(' left by the first'));
        echo 'body';
    },
    'tick_function' => static function () use ($change): void {
        $change && register_tick_function(static fn () => print('tick '));
        declare(ticks=1) {
            echo 'a ';
            echo 'b ';
        }
    },
    'header_callback' => static function () use ($change): void {
        $change && header_register_callback(static fn () => header('X-Left: by the first'));
        echo 'body';
    },
    'buffers' => static function () use ($change, $show): void {
        $change && ob_start(static fn (string $text): string => "<$text>") && ob_implicit_flush();
        $show(ob_get_level(), ob_list_handlers());
    },
    'headers_and_status' => static function () use ($change, $show): void {
        if ($change) {
            http_response_code(404);
            header('X-Left: yes');
            setcookie('left', 'yes');
            header('Content-Type: text/left');
        }
        $show(http_response_code(), count(headers_list()));
    },
    'rewrite_variables' => static function () use ($change): void {
        $change && output_add_rewrite_var('left', 'yes');
        echo '<a href="/x">x</a>';
    },
    'stream_wrappers' => static function () use ($change, $show): void {
        if ($change) {
            stream_wrapper_register('parity', LeakStatics::class);
            stream_wrapper_unregister('ftp');
            stream_filter_register('parity.*', php_user_filter::class);
            stream_context_set_default(['http' => ['method' => 'LEFT']]);
        }
        $show(
            array_intersect(['parity', 'ftp'], stream_get_wrappers()),
            in_array('parity.*', stream_get_filters(), true),
            stream_context_get_options(stream_context_get_default()),
        );
    },
    'descriptors' => static function () use ($change, $show, $kept): void {
        static $file = null;
        if ($change) {
            $file = fopen($kept('open'), 'w');
            flock($file, LOCK_EX);
            LeakStatics::$list[] = $file;
        }
        $open = array_filter(glob('/proc/self/fd/*'), static fn ($fd) => @readlink($fd) === $kept('open'));
        $other = fopen($kept('open'), 'r');
        $show(count($open), flock($other, LOCK_EX | LOCK_NB));
    },
    'numbers' => static function () use ($show): void {
        // Of objects and resources: they count from the beginning.
        $show(spl_object_id(new stdClass()) < 40, get_resource_id(fopen('php://memory', 'r')) < 40);
    },
    'seed' => static function () use ($change, $show, $kept): void {
        if ($change) {
            mt_srand(42);
            file_put_contents($kept('random'), [mt_rand(), '', mt_rand()][2]);
            mt_srand(42);
        }
        mt_rand();
        // What the generator of the first would give next.
        $show($change || mt_rand() === (int) file_get_contents($kept('random')));
    },
    'multibyte' => static function () use ($change, $show): void {
        if ($change) {
            mb_internal_encoding('ISO-8859-1');
            mb_substitute_character('none');
            mb_language('ja');
            mb_detect_order('ASCII');
            mb_http_output('SJIS');
            mb_regex_encoding('EUC-JP');
        }
        $show(mb_internal_encoding(), mb_substitute_character(), mb_language(), mb_detect_order(), mb_http_output(), mb_regex_encoding());
    },
    'last_errors' => static function () use ($change, $show): void {
        if ($change) {
            @trigger_error('left');
            json_decode('{');
            preg_match('/(?:\D+|<\d+>)*[!?]/', 'foobar foobar foobar');
            openssl_pkey_get_private('nonsense');
        }
        $show(error_get_last()['message'] ?? null, json_last_error(), preg_last_error(), openssl_error_string());
    },
    'libxml' => static function () use ($change, $show): void {
        if ($change) {
            libxml_use_internal_errors(true);
            simplexml_load_string('<a>');
            libxml_set_external_entity_loader(static fn () => null);
        }
        $show(count(libxml_get_errors()), libxml_use_internal_errors());
    },
    'scale_and_token' => static function () use ($change, $show): void {
        if ($change) {
            bcscale(5);
            strtok('left over', ' ');
            gc_disable();
        }
        $show(bcscale(), $change ? null : @strtok(' '), gc_enabled());
    },
    // What php-fpm forgets to put back.
    'last_error_of_posix' => static function () use ($change, $show): void {
        $change && posix_kill(1 << 30, 0);
        $show(posix_get_last_error());
    },
    'text_domain' => static function () use ($change, $show): void {
        $change && textdomain('left');
        $show(textdomain(null));
    },
    'session_settings' => static function () use ($change, $show): void {
        if ($change) {
            session_name('LEFT');
            session_id('left');
            session_cache_limiter('public');
            session_set_cookie_params(['path' => '/left']);
            session_cache_expire(7);
        }
        $show(session_name(), session_id(), session_cache_limiter(), session_get_cookie_params()['path'], session_cache_expire());
    },
    'session_variables' => static function () use ($change, $show): void {
        if ($change) {
            session_id('parity-left');
            session_start();
            $_SESSION['left'] = 'yes';
        }
        $show($_SESSION ?? null, session_status(), session_id());
    },
    'session_handler' => static function () use ($change, $show): void {
        $change && session_set_save_handler(new SessionHandler());
        $show(session_module_name());
    },
    'superglobals' => static function () use ($change, $show): void {
        if ($change) {
            $_GET['left'] = $_POST['left'] = $_COOKIE['left'] = $_REQUEST['left'] = $_FILES['left'] = 'yes';
        }
        $show($_GET, $_POST, $_COOKIE, $_REQUEST, $_FILES);
    },
    'input' => static function () use ($show): void {
        $show(file_get_contents('php://input'), $_POST, array_column($_FILES, 'name'), $_SERVER['CONTENT_TYPE'] ?? null);
    },
    'after_exit' => static function () use ($change, $show): void {
        if ($change) {
            LeakStatics::$visits = 7;
            ini_set('precision', '4');
            ob_start();
            exit('exit');
        }
        $show(LeakStatics::$visits, ini_get('precision'), ob_get_level());
    },
    'after_throw' => static function () use ($change, $show): void {
        if ($change) {
            LeakStatics::$visits = 7;
            throw new RuntimeException('thrown');
        }
        $show(LeakStatics::$visits, error_get_last());
    },
    'after_fatal' => static function () use ($change, $show): void {
        if ($change) {
            LeakStatics::$visits = 7;
            ini_set('precision', '4');
            ob_start();
            eval('class ParityTwice {} class ParityTwice {}');
        }
        $show(LeakStatics::$visits, ini_get('precision'), ob_get_level(), class_exists('ParityTwice'));
    },
    'after_memory' => static function () use ($change, $show): void {
        if ($change) {
            LeakStatics::$visits = 7;
            str_repeat('x', 1 << 30);
        }
        $show(LeakStatics::$visits, memory_get_usage() < 8 << 20);
    },
    'objects' => static function () use ($change, $show): void {
        if ($change) {
            LeakStatics::$list['map'] = new WeakMap();
            LeakStatics::$list['map'][LeakEnum::A] = 'left';
            LeakEnum::remember('left');
            LeakStatics::$list['generator'] = (static fn () => yield 1)();
        }
        $show(count(LeakStatics::$list), count(LeakStatics::$list['map'] ?? []), LeakEnum::remember(null));
    },
    'sqlite' => static function () use ($change, $show): void {
        $change && LeakStatics::$list['pdo'] = new PDO('sqlite::memory:', null, null, [PDO::ATTR_PERSISTENT => false]);
        $change && LeakStatics::$list['pdo']->exec('create table t (a)');
        $show(isset(LeakStatics::$list['pdo']));
    },
    'apcu' => static function () use ($change, $show): void {
        $change && apcu_store('parity', 'shared on purpose');
        $show(apcu_fetch('parity'));
    },
    // Between two cases, where requests leave something behind: the worker script ends.
    'over' => static function (): void {
        $GLOBALS['over'] = true;
    },
];
