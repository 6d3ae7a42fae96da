<?php

/*
 * What PHP is told to call later: handlers, callbacks, buffers, wrappers, filters.
 */

declare(strict_types=1);

namespace Nasty;

return [
    'error handler' => static function (): void {
        echo set_error_handler(static function (int $level, string $text): bool {
            echo "[handled $text]";

            return true;
        }) === null ? 'none' : 'left';
        trigger_error('a notice');
    },
    'error handlers on top of each other' => static function (): void {
        for ($i = 0; $i < 50; ++$i) {
            set_error_handler(static fn (): bool => throw new \ErrorException("number $i"));
        }
        try {
            trigger_error('a notice');
        } catch (\ErrorException $e) {
            echo $e->getMessage();
        }
    },
    'exception handler' => static function (): void {
        set_exception_handler(static function (\Throwable $e): void {
            echo '[handled ', $e->getMessage(), ']';
        });
        throw new \RuntimeException('uncaught');
    },
    'exception handler that is not needed' => static function (): void {
        echo set_exception_handler(static function (): void {
            echo 'left';
        }) === null ? 'none' : 'left';
    },
    'shutdown function' => static function (): void {
        register_shutdown_function(static function (): void {
            echo ' at the end ', ++Heir::$typed;
        });
        echo 'said';
    },
    'shutdown function that registers another' => static function (): void {
        register_shutdown_function($again = static function () use (&$again): void {
            echo '.';
            static $times = 0;
            if (++$times < 5) {
                register_shutdown_function($again);
            }
        });
    },
    'shutdown function with handlers' => static function (): void {
        register_shutdown_function(static function (): void {
            set_error_handler(static fn (): bool => true);
            set_exception_handler(static fn () => print('left'));
            ob_start(static fn (string $text): string => $text . '[late]');
            echo 'late';
        });
    },
    'header callback' => static function (): void {
        header_register_callback(static function (): void {
            header('X-Left: callback');
            header_remove('X-Powered-By');
        });
        echo 'said';
    },
    'headers' => static function (): void {
        header('X-Left: header');
        header('Content-Type: text/left');
        setcookie('left', 'cookie', 0, '/');
        http_response_code(418);
        header_remove('X-Powered-By');
        echo 'teapot';
    },
    'redirect' => static function (): void {
        header('Location: /elsewhere', true, 303);
        header('X-Twice: one', false);
        header('X-Twice: two', false);
    },
    'all headers removed' => static function (): void {
        $worker = preg_grep('/^X-Worker/', headers_list());
        header_remove();
        header(current($worker));
        echo 'bare';
    },
    'tick function' => static function (): void {
        register_tick_function(static function (): void {
            echo 'tick';
        });
        require Booted::get()->folder . '/late/ticks.php';
    },
    'open buffers' => static function (): void {
        for ($i = 0; $i < 20; ++$i) {
            ob_start();
            echo $i;
        }
    },
    'buffer with a handler' => static function (): void {
        ob_start(static fn (string $text): string => strtoupper($text) . ++Heir::$typed);
        echo 'said';
    },
    'buffer whose handler throws' => static function (): void {
        ob_start(static function (string $text): string {
            throw new \RuntimeException('out of a handler');
        });
        echo 'lost';
    },
    'buffer whose handler opens a buffer' => static function (): void {
        ob_start(static function (string $text): string {
            @ob_start();

            return $text;
        });
        echo 'said';
    },
    'buffer of nine bytes' => static function (): void {
        ob_start(static fn (string $text): string => '<' . $text . '>', 9);
        for ($i = 0; $i < 6; ++$i) {
            echo 'four';
        }
    },
    'buffer that cannot be removed' => static function (): void {
        ob_start(null, 0, 0);
        echo var_export(@ob_end_clean(), true);
    },
    'implicit flush' => static function (): void {
        ob_implicit_flush(true);
        echo 'said';
    },
    'rewritten links' => static function (): void {
        output_add_rewrite_var('left', 'alice');
        echo '<a href="page.php">link</a><form></form>';
    },
    'compressed output' => static function (): void {
        ob_start('ob_gzhandler');
        echo str_repeat('said ', 100);
    },
    'stream wrapper' => static function (): void {
        echo var_export(stream_wrapper_register('left', Memory::class), true);
        file_put_contents('left://file', 'inside');
        echo file_get_contents('left://file'), count(Memory::$files);
        $GLOBALS['leftStream'] = fopen('left://file', 'r');
    },
    'stream wrapper taken away' => static function (): void {
        echo var_export(in_array('file', stream_get_wrappers(), true), true);
        stream_wrapper_unregister('http');
        stream_wrapper_unregister('file');
    },
    'stream wrapper in front of files' => static function (): void {
        stream_wrapper_unregister('file');
        stream_wrapper_register('file', Memory::class);
        echo var_export(@file_get_contents('/etc/hostname'), true);
    },
    'stream filter' => static function (): void {
        echo var_export(stream_filter_register('left.filter', \php_user_filter::class), true);
        $stream = fopen('php://memory', 'w+');
        stream_filter_append($stream, 'string.toupper');
        fwrite($stream, 'said');
        echo stream_get_contents($stream, null, 0);
    },
    'stream filter on a file of the boot' => static function (): void {
        stream_filter_append(Booted::get()->file, 'string.rot13');
        echo fgets(Booted::get()->file);
    },
    'default context' => static function (): void {
        echo json_encode(stream_context_get_options(stream_context_get_default()));
        stream_context_set_default(['http' => ['header' => 'X-Left: yes', 'timeout' => 1]]);
    },
    'session handler' => static function (): void {
        session_set_save_handler(new class extends \SessionHandler {
        }, true);
        echo session_module_name();
    },
    'entity loader' => static function (): void {
        libxml_set_external_entity_loader(static fn (): string => '/etc/passwd');
        echo libxml_get_external_entity_loader() === null ? 'none' : 'set';
    },
    'signals ignored' => static function (): void {
        // SIG_IGN is 1 and SIG_DFL is 0; no handler of PHP can be set without pcntl.
        $c = CLibrary::load();
        $c?->signal(1, \FFI::cast('void *', 1));
        $c?->signal(13, null);
        echo 'ignored';
    },
    'signals blocked' => static function (): void {
        if ($c = CLibrary::load()) {
            $set = \FFI::new('char[128]');
            $c->sigemptyset(\FFI::addr($set));
            $c->sigaddset(\FFI::addr($set), 1);
            $c->sigaddset(\FFI::addr($set), 12);
            echo $c->sigprocmask(0, \FFI::addr($set), null);
        }
    },
    'alarm' => static function (): void {
        echo CLibrary::load()?->alarm(3600);
    },
    'comparison that throws' => static function (): void {
        $list = [3, 1, 2];
        try {
            usort($list, static fn () => throw new \LogicException('compared'));
        } catch (\LogicException $e) {
            echo $e->getMessage();
        }
    },
];
