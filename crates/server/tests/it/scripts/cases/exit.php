<?php

/*
 * exit() in each place where PHP runs code. What follows in the same request shows that the end was an end.
 */

declare(strict_types=1);

$after = static function (): void {
    register_shutdown_function(static fn () => print("\nshutdown, status " . http_response_code()));
};

return [
    'nested' => static function () use ($after): void {
        $after();
        $down = static function (int $n) use (&$down): void {
            $n === 0 ? exit('nested') : $down($n - 1);
        };
        $down(50);
    },
    'include' => static function () use ($after): void {
        $after();
        include __DIR__ . '/exiting.inc';
        echo 'not reached';
    },
    'eval' => static function () use ($after): void {
        $after();
        eval('exit("eval");');
    },
    'autoloader' => static function () use ($after): void {
        $after();
        spl_autoload_register(static fn (string $class) => exit("loading $class"));
        new ParityNowhere();
    },
    'class_exists' => static function () use ($after): void {
        $after();
        spl_autoload_register(static fn (string $class) => exit("asked for $class"));
        class_exists('ParityNowhereElse');
    },
    'constructor' => static function () use ($after): void {
        $after();
        new class {
            public function __construct()
            {
                exit('constructor');
            }

            public function __destruct()
            {
                echo ' destructor of what was never made';
            }
        };
    },
    'magic_methods' => static function () use ($after): void {
        $after();
        $object = new class {
            public function __get(string $name): mixed
            {
                exit("get $name");
            }
        };
        echo $object->anything;
    },
    'to_string' => static function () use ($after): void {
        $after();
        echo 'a', new class {
            public function __toString(): string
            {
                exit('string');
            }
        };
    },
    'invoke_in_sort' => static function () use ($after): void {
        $after();
        $list = [3, 1, 2];
        usort($list, static fn ($a, $b) => exit("sorting $a $b"));
    },
    'preg_callback' => static function () use ($after): void {
        $after();
        preg_replace_callback('/b/', static fn () => exit('matched'), 'abc');
    },
    'iterator' => static function () use ($after): void {
        $after();
        iterator_to_array(new class implements IteratorAggregate {
            public function getIterator(): Iterator
            {
                exit('iterator');
            }
        });
    },
    'generator_in_finally' => static function () use ($after): void {
        $after();
        $generator = (static function () {
            try {
                yield 1;
            } finally {
                exit('finally of a generator');
            }
        })();
        $generator->current();
        unset($generator);
        echo 'not reached';
    },
    'catch' => static function () use ($after): void {
        $after();
        try {
            throw new Exception('e');
        } catch (Exception) {
            exit('catch');
        } finally {
            echo 'not run';
        }
    },
    'buffer_callback' => static function () use ($after): void {
        $after();
        ob_start(static function (string $text): string {
            if ($text !== '') {
                exit('callback');
            }

            return '';
        });
        echo 'text';
        ob_end_flush();
        echo 'not reached';
    },
    'buffer_callback_at_end' => static function () use ($after): void {
        $after();
        ob_start(static fn () => exit('callback at the end'));
        echo 'text';
    },
    'header_callback' => static function () use ($after): void {
        $after();
        header_register_callback(static function (): void {
            header('X-Callback: yes');
            exit('in the callback ');
        });
        echo 'text';
    },
    'tick' => static function () use ($after): void {
        $after();
        register_tick_function(static fn () => exit('tick'));
        declare(ticks=1) {
            echo 'a';
            echo 'b';
        }
    },
    'shutdown_then_destructor' => static function (): void {
        $GLOBALS['parity_object'] = new class {
            public function __destruct()
            {
                echo ' destructor';
            }
        };
        register_shutdown_function(static fn () => exit('shutdown'));
        register_shutdown_function(static fn () => print('not reached'));
    },
    'destructor_at_end' => static function (): void {
        foreach (['a', 'b'] as $name) {
            $GLOBALS["parity_$name"] = new class ($name) {
                public function __construct(private readonly string $name)
                {
                }

                public function __destruct()
                {
                    exit("destructor $this->name ");
                }
            };
        }
        echo 'body ';
    },
    'error_handler_in_shutdown' => static function (): void {
        register_shutdown_function(static function (): void {
            set_error_handler(static fn (int $level, string $text) => exit("handled $text"));
            echo $undefined;
        });
        echo 'body ';
    },
    'exception_handler_then_shutdown' => static function () use ($after): void {
        $after();
        set_exception_handler(static fn (Throwable $e) => exit('caught ' . $e->getMessage()));
        throw new RuntimeException('it');
    },
    'session_write' => static function () use ($after): void {
        $after();
        session_set_save_handler(
            static fn () => true,
            static fn () => true,
            static fn () => '',
            static fn () => exit('session write'),
            static fn () => true,
            static fn () => 0,
        );
        session_id('parity-exit');
        session_start();
        $_SESSION['a'] = 1;
        session_write_close();
        echo 'not reached';
    },
    'session_write_at_end' => static function () use ($after): void {
        $after();
        session_set_save_handler(
            static fn () => true,
            static fn () => (bool) print(' close'),
            static fn () => '',
            static fn () => exit(' session write at the end'),
            static fn () => true,
            static fn () => 0,
        );
        session_id('parity-exit-end');
        session_start();
        $_SESSION['a'] = 1;
        echo 'body';
    },
    'session_open' => static function () use ($after): void {
        $after();
        session_set_save_handler(
            static fn () => exit('session open'),
            static fn () => true,
            static fn () => '',
            static fn () => true,
            static fn () => true,
            static fn () => 0,
        );
        session_id('parity-exit-open');
        session_start();
    },
    'stream_wrapper' => static function () use ($after): void {
        $after();
        $wrapper = new class {
            public $context;

            public function stream_open(string $path): bool
            {
                exit("open $path");
            }
        };
        stream_wrapper_register('parityexit', $wrapper::class);
        fopen('parityexit://x', 'r');
    },
    'array_walk' => static function () use ($after): void {
        $after();
        $list = [[1]];
        array_walk_recursive($list, static fn (int $n) => exit("walk $n"));
    },
    'reflection' => static function () use ($after): void {
        $after();
        (new ReflectionFunction(static fn () => exit('reflected')))->invoke();
    },
    'call_user_func' => static function () use ($after): void {
        $after();
        call_user_func_array(static fn (string $text) => exit($text), ['called']);
    },
    'fiber_deep' => static function () use ($after): void {
        $after();
        $fiber = new Fiber(static function (): void {
            (new Fiber(static fn () => exit('two fibers deep')))->start();
        });
        $fiber->start();
    },
    'zero' => static function () use ($after): void {
        $after();
        exit('0');
    },
    'after_flush' => static function () use ($after): void {
        $after();
        echo str_repeat('x', 10_000);
        ob_end_flush();
        flush();
        exit(' after much was sent');
    },
    'twice' => static function (): void {
        register_shutdown_function(static function (): void {
            register_shutdown_function(static fn () => exit(' inner'));
            exit(' outer');
        });
        exit('body');
    },
];
