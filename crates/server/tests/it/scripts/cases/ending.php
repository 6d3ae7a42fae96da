<?php

/*
 * The ways in which a script ends.
 */

declare(strict_types=1);

$speaker = static fn (string $text): object => new class ($text) {
    public function __construct(private readonly string $text)
    {
    }

    public function __destruct()
    {
        echo $this->text;
    }
};

return [
    'exit' => static function (): void {
        echo 'before ';
        exit;
    },
    'exit_text' => static fn () => exit('text'),
    'exit_code' => static function (): void {
        echo 'code';
        exit(7);
    },
    'exit_in_buffer' => static function (): void {
        ob_start();
        echo 'buffered ';
        ob_start();
        exit('inner');
    },
    'exit_in_finally' => static function (): void {
        try {
            throw new Exception('lost');
        } finally {
            exit('finally');
        }
    },
    'exit_skips_finally' => static function (): void {
        try {
            exit('exit');
        } finally {
            echo 'not run';
        }
    },
    'exit_in_generator' => static function (): void {
        $numbers = static function () {
            yield 1;
            exit('generator');
        };
        foreach ($numbers() as $n) {
            echo $n;
        }
    },
    'exit_in_fiber' => static function (): void {
        (new Fiber(static fn () => exit('fiber')))->start();
    },
    'exit_in_destructor' => static function (): void {
        $object = new class {
            public function __destruct()
            {
                exit('destructor');
            }
        };
        unset($object);
        echo 'not reached';
    },
    'exit_in_shutdown' => static function (): void {
        register_shutdown_function(static function (): void {
            echo 'first ';
            exit('exit');
        });
        register_shutdown_function(static fn () => print('not reached'));
        echo 'body ';
    },
    'exit_with_status' => static function (): void {
        http_response_code(403);
        header('X-Before: exit');
        exit('forbidden');
    },
    'exit_in_array_map' => static fn () => array_map(static fn ($n) => exit("mapped $n"), [1, 2]),
    'exit_in_error_handler' => static function (): void {
        set_error_handler(static fn () => exit('handled'));
        echo $undefined;
    },
    'exit_in_exception_handler' => static function (): void {
        set_exception_handler(static function (Throwable $e): void {
            exit('caught ' . $e->getMessage());
        });
        throw new Exception('it');
    },
    'shutdown_order' => static function (): void {
        register_shutdown_function(static function (): void {
            echo 'one ';
            register_shutdown_function(static fn () => print('three '));
        });
        register_shutdown_function(static fn (string $text) => print($text), 'two ');
        echo 'body ';
    },
    'shutdown_after_exit' => static function (): void {
        register_shutdown_function(static fn () => print('shutdown ' . connection_status()));
        exit('exit ');
    },
    'shutdown_headers' => static function (): void {
        register_shutdown_function(static function (): void {
            header('X-Shutdown: yes');
            http_response_code(202);
        });
    },
    'shutdown_throws' => static function (): void {
        register_shutdown_function(static fn () => throw new Exception('from shutdown'));
        register_shutdown_function(static fn () => print('second'));
    },
    'shutdown_fatal' => static function (): void {
        register_shutdown_function(static function (): void {
            echo 'in shutdown ';
            eval('class TwiceA {} class TwiceA {}');
        });
    },
    'shutdown_sees_fatal' => static function (): void {
        register_shutdown_function(static function (): void {
            echo 'last: ', error_get_last()['message'] ?? 'none', ' ', http_response_code();
        });
        eval('class TwiceB {} class TwiceB {}');
    },
    'destructor' => static function () use ($speaker): void {
        $object = $speaker('destroyed');
        echo 'body ';
    },
    'destructor_after_exit' => static function () use ($speaker): void {
        $object = $speaker(' destroyed');
        exit('exit');
    },
    'fatal' => static fn () => eval('class TwiceC {} class TwiceC {}'),
    'fatal_after_output' => static function (): void {
        echo 'output';
        eval('class TwiceD {} class TwiceD {}');
    },
    'fatal_after_flush' => static function (): void {
        echo 'flushed';
        ob_flush();
        flush();
        eval('class TwiceE {} class TwiceE {}');
    },
    'fatal_in_buffer' => static function (): void {
        ob_start();
        echo 'buffered';
        eval('class TwiceF {} class TwiceF {}');
    },
    'fatal_after_status' => static function (): void {
        http_response_code(202);
        eval('class TwiceG {} class TwiceG {}');
    },
    'memory' => static fn () => print(strlen(str_repeat('x', 1 << 40))),
    'memory_in_pieces' => static function (): void {
        $all = [];
        while (true) {
            $all[] = str_repeat('x', 100_000);
        }
    },
    'parse_error' => static fn () => eval('this is not PHP'),
    'undefined_function' => static fn () => no_such_function(),
    'type_error' => static fn () => strlen([]),
    'missing_require' => static fn () => require __DIR__ . '/no-such-file.php',
    'throw' => static fn () => throw new RuntimeException('thrown'),
    'throw_after_output' => static function (): void {
        echo 'output ';
        throw new RuntimeException('thrown');
    },
    'throw_after_flush' => static function (): void {
        echo 'output ';
        ob_flush();
        flush();
        throw new RuntimeException('thrown');
    },
    'throw_after_status' => static function (): void {
        http_response_code(404);
        throw new RuntimeException('thrown');
    },
    'throw_in_destructor' => static function (): void {
        $object = new class {
            public function __destruct()
            {
                throw new LogicException('destructor');
            }
        };
        echo 'body';
    },
    'throw_in_buffer_callback' => static function (): void {
        ob_start(static fn () => throw new LogicException('callback'));
        echo 'text';
        ob_end_flush();
    },
    'throw_handled' => static function (): void {
        set_exception_handler(static function (Throwable $e): void {
            http_response_code(418);
            echo 'handled ', $e->getMessage();
        });
        throw new RuntimeException('it');
    },
    'user_error' => static function (): void {
        echo 'before ';
        trigger_error('user', E_USER_ERROR);
        echo 'after';
    },
    'user_warning' => static function (): void {
        echo 'before ';
        trigger_error('user', E_USER_WARNING);
        echo 'after';
    },
    'error_handler' => static function (): void {
        set_error_handler(static function (int $level, string $message): bool {
            echo "[$level $message]";

            return true;
        });
        echo $undefined, 1 <=> 2;
    },
    'finish' => static function (): void {
        echo 'sent';
        echo fastcgi_finish_request() ? 'T' : 'F';
        echo 'not sent';
        header('X-Late: yes');
    },
    'finish_twice' => static function (): void {
        ob_start();
        echo 'buffered';
        fastcgi_finish_request();
        fastcgi_finish_request();
        exit('not sent');
    },
    'finish_then_fatal' => static function (): void {
        echo 'sent';
        fastcgi_finish_request();
        eval('class TwiceH {} class TwiceH {}');
    },
    'finish_without_output' => static function (): void {
        http_response_code(202);
        fastcgi_finish_request();
        http_response_code(500);
    },
    'finish_in_shutdown' => static function (): void {
        register_shutdown_function(static function (): void {
            fastcgi_finish_request();
            echo 'not sent';
        });
        echo 'sent';
    },
    'halt_in_include' => static function (): void {
        (static fn () => include __DIR__ . '/../cases/halting.inc')();
        echo ' after';
    },
];
