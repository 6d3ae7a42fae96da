<?php

/*
 * Output buffers: their handlers, their state and their ends.
 */

declare(strict_types=1);

$wrap = static fn (string $name): Closure => static fn (string $text, int $phase): string => "<$name $phase $text>";

// Notices end in the output, where they show.
$quiet = static fn (mixed $value): string => json_encode($value) . ' ' . (error_get_last()['message'] ?? 'no error') . "\n";

return [
    'status' => static function () use ($wrap): void {
        ob_start($wrap('a'), 8);
        echo json_encode(ob_get_status(true));
    },
    'status_of_default' => static fn () => print(json_encode(ob_get_status()) . json_encode(ob_list_handlers())),
    'handlers' => static function () use ($wrap): void {
        ob_start($wrap('a'));
        ob_start('strtoupper');
        ob_start();
        echo json_encode(ob_list_handlers());
    },
    'not_removable' => static function () use ($quiet): void {
        ob_start(null, 0, PHP_OUTPUT_HANDLER_STDFLAGS ^ PHP_OUTPUT_HANDLER_REMOVABLE);
        echo $quiet(@ob_end_clean()), ob_get_level();
    },
    'not_cleanable' => static function () use ($quiet): void {
        ob_start(null, 0, PHP_OUTPUT_HANDLER_STDFLAGS ^ PHP_OUTPUT_HANDLER_CLEANABLE);
        echo 'kept ', $quiet(@ob_clean()), $quiet(@ob_get_clean());
    },
    'not_flushable' => static function () use ($quiet): void {
        ob_start(null, 0, PHP_OUTPUT_HANDLER_FLUSHABLE ^ PHP_OUTPUT_HANDLER_STDFLAGS);
        echo 'kept ', $quiet(@ob_flush()), $quiet(@ob_get_flush());
    },
    'none_left' => static function () use ($quiet): void {
        while (ob_get_level() > 0) {
            ob_end_flush();
        }
        echo $quiet(@ob_end_flush()), $quiet(@ob_end_clean()), $quiet(@ob_get_clean()), $quiet(@ob_get_length()), $quiet(@ob_flush());
    },
    'flush_each_level' => static function () use ($wrap): void {
        ob_start($wrap('a'));
        echo '1';
        ob_start($wrap('b'));
        echo '2';
        ob_flush();
        echo '3';
        ob_end_flush();
        echo '4';
        ob_flush();
        flush();
        echo '5';
    },
    'clean_calls_handler' => static function (): void {
        $calls = [];
        ob_start(static function (string $text, int $phase) use (&$calls): string {
            $calls[] = [$text, $phase];

            return $text;
        });
        echo 'a';
        ob_clean();
        echo 'b';
        ob_end_clean();
        echo json_encode($calls);
    },
    'chunks' => static function () use ($wrap): void {
        ob_start($wrap('c'), 3);
        foreach (['a', 'bc', 'def', 'ghij', ''] as $text) {
            echo $text;
        }
    },
    'handler_false' => static function (): void {
        ob_start(static fn (): bool => false);
        echo 'unchanged';
    },
    'handler_true' => static function (): void {
        ob_start(static fn (): bool => true);
        echo 'replaced';
        ob_end_flush();
        echo ' after';
    },
    'handler_null' => static function (): void {
        ob_start(static fn () => null);
        echo 'a';
        ob_end_flush();
        echo 'b';
    },
    'handler_number' => static function (): void {
        ob_start(static fn (): int => 42);
        echo 'a';
    },
    'handler_array' => static function (): void {
        ob_start(static fn (): array => []);
        echo 'a';
        ob_end_flush();
        echo 'b';
    },
    'handler_echoes' => static function (): void {
        ob_start(static function (string $text): string {
            echo 'lost';

            return "[$text]";
        });
        echo 'text';
    },
    'handler_starts_buffer' => static function (): void {
        register_shutdown_function(static fn () => print('shutdown ' . (error_get_last()['message'] ?? 'none')));
        ob_start(static function (string $text): string {
            ob_start();

            return $text;
        });
        echo 'text';
        ob_end_flush();
    },
    'handler_prints_value' => static function (): void {
        ob_start(static fn (string $text): string => print_r([1], true) . $text);
        echo 'text';
    },
    'handler_throws_at_end' => static function (): void {
        register_shutdown_function(static fn () => print('shutdown '));
        ob_start(static fn () => throw new RuntimeException('at the end'));
        echo 'text';
    },
    'handler_fatal_at_end' => static function (): void {
        ob_start(static fn () => eval('class TwiceP {} class TwiceP {}'));
        echo 'text';
    },
    'handler_not_callable' => static function () use ($quiet): void {
        echo $quiet(@ob_start('no_such_function')), ob_get_level();
    },
    'handler_of_class' => static function (): void {
        $object = new class {
            public int $calls = 0;

            public function handle(string $text): string
            {
                return ++$this->calls . $text;
            }
        };
        ob_start([$object, 'handle']);
        echo 'a';
        ob_flush();
        echo 'b';
        ob_end_flush();
        echo $object->calls;
    },
    'handler_gone_with_exit' => static function () use ($wrap): void {
        ob_start($wrap('a'));
        ob_start($wrap('b'));
        echo 'text';
        exit(' exit');
    },
    'handler_after_throw' => static function () use ($wrap): void {
        ob_start($wrap('a'));
        echo 'text';
        throw new RuntimeException('thrown');
    },
    'handler_after_fatal' => static function () use ($wrap): void {
        ob_start($wrap('a'));
        ob_start($wrap('b'));
        echo 'text';
        eval('class TwiceQ {} class TwiceQ {}');
    },
    'implicit_flush' => static function (): void {
        ob_end_flush();
        ob_implicit_flush();
        echo headers_sent() ? 'sent ' : 'unsent ';
        echo headers_sent() ? 'sent' : 'unsent';
    },
    'sent_when_full' => static function (): void {
        echo str_repeat('x', 4095);
        $before = headers_sent();
        echo 'y';
        echo "\n", json_encode([$before, headers_sent()]);
    },
    'print_functions' => static function (): void {
        print 'print ';
        printf('%s ', 'printf');
        vprintf('%s ', ['vprintf']);
        print_r(['a' => 1]);
        var_dump(1.0, 'x', null);
        var_export([true]);
    },
    'inline_html' => static function (): void {
        ?>
        <p>inline</p>
        <?php
        echo 'after';
    },
    'php_output_streams' => static function (): void {
        file_put_contents('php://output', 'one ');
        copy('data:,two%20', 'php://output');
        $stream = fopen('php://stdout', 'w');
        echo json_encode($stream !== false);
    },
    'highlight' => static fn () => highlight_string('<?php echo 1;'),
    'debug' => static function (): void {
        ob_start();
        debug_print_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 1);
        echo strlen(ob_get_clean()) > 0 ? 'a trace' : 'none';
    },
    'passthru' => static function (): void {
        echo 'before ';
        passthru('echo from a shell');
        echo shell_exec('echo returned'), exec('echo last'), system('echo shown');
    },
    'gzip_by_ini' => static function (): void {
        ini_set('zlib.output_compression', '1');
        echo str_repeat('compress me ', 50);
    },
    'charset' => static function (): void {
        ini_set('default_charset', 'ISO-8859-15');
        echo 'text';
    },
];
