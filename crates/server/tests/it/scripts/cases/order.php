<?php

/*
 * What runs after the script, in which order, and where its output goes.
 */

declare(strict_types=1);

$speaker = static fn (string $text): object => new class ($text) {
    public static array $kept = [];

    public function __construct(private readonly string $text)
    {
    }

    public function __destruct()
    {
        echo "destructor $this->text\n";
    }
};

$wrap = static fn (string $name): Closure => static fn (string $text, int $phase): string => "<$name $phase " . trim($text) . ">\n";

$sessions = static fn (): SessionHandlerInterface => new class implements SessionHandlerInterface {
    public function open(string $path, string $name): bool
    {
        return (bool) print("session open\n");
    }

    public function close(): bool
    {
        return (bool) print("session close\n");
    }

    public function read(string $id): string
    {
        return '';
    }

    public function write(string $id, string $data): bool
    {
        return (bool) print("session write $data\n");
    }

    public function destroy(string $id): bool
    {
        return true;
    }

    public function gc(int $max_lifetime): int
    {
        return 0;
    }
};

$start = static function () use ($sessions): void {
    session_set_save_handler($sessions(), false);
    session_id('parity-order');
    session_start();
    $_SESSION['a'] = 1;
};

return [
    'all' => static function () use ($speaker, $wrap, $start): void {
        $start();
        ob_start($wrap('outer'));
        register_shutdown_function(static fn () => print("shutdown 1\n"));
        $local = $speaker('local');
        $local::$kept[] = $speaker('static');
        $GLOBALS['parity_object'] = $speaker('global');
        register_shutdown_function(static fn () => print("shutdown 2\n"));
        echo "body\n";
    },
    'all_and_exit' => static function () use ($speaker, $wrap, $start): void {
        $start();
        ob_start($wrap('outer'));
        register_shutdown_function(static fn () => print("shutdown\n"));
        $local = $speaker('local');
        $GLOBALS['parity_object'] = $speaker('global');
        exit("exit\n");
    },
    'all_and_throw' => static function () use ($speaker, $wrap, $start): void {
        $start();
        ob_start($wrap('outer'));
        register_shutdown_function(static fn () => print("shutdown\n"));
        $local = $speaker('local');
        $GLOBALS['parity_object'] = $speaker('global');
        throw new RuntimeException('thrown');
    },
    'all_and_fatal' => static function () use ($speaker, $wrap, $start): void {
        $start();
        ob_start($wrap('outer'));
        register_shutdown_function(static fn () => print("shutdown\n"));
        $local = $speaker('local');
        $GLOBALS['parity_object'] = $speaker('global');
        eval('class TwiceO {} class TwiceO {}');
    },
    'objects_of_globals' => static function () use ($speaker): void {
        foreach (['a', 'b', 'c'] as $name) {
            $GLOBALS["parity_$name"] = $speaker($name);
        }
    },
    'objects_of_globals_shared' => static function () use ($speaker): void {
        foreach (['a', 'b', 'c'] as $name) {
            $GLOBALS["parity_$name"] = $GLOBALS["parity_too_$name"] = $speaker($name);
        }
        $GLOBALS['parity_array'] = [$speaker('in an array')];
    },
    'objects_of_statics' => static function () use ($speaker): void {
        static $kept = [];
        $kept[] = $speaker('first');
        $kept[0]::$kept[] = $speaker('second');
        $kept[] = $speaker('third');
    },
    'objects_in_cycles' => static function (): void {
        $make = static function (string $name): void {
            $a = new class ($name) {
                public ?object $other = null;

                public function __construct(private readonly string $name)
                {
                }

                public function __destruct()
                {
                    echo "destructor $this->name\n";
                }
            };
            $a->other = $a;
        };
        $make('one');
        $make('two');
        echo "body\n";
        gc_collect_cycles();
        $make('three');
        echo "end\n";
    },
    'objects_that_make_objects' => static function () use ($speaker): void {
        $GLOBALS['parity_maker'] = new class ($speaker) {
            public function __construct(private readonly Closure $speaker)
            {
            }

            public function __destruct()
            {
                echo "maker\n";
                $GLOBALS['parity_made'] = ($this->speaker)('made in a destructor');
            }
        };
    },
    'resurrected' => static function (): void {
        $object = new class {
            public function __destruct()
            {
                echo "destructor\n";
                $GLOBALS['parity_back'] = $this;
            }
        };
        unset($object);
        unset($GLOBALS['parity_back']);
        echo "end\n";
    },
    'generator_finally' => static function (): void {
        $GLOBALS['parity_generator'] = (static function () {
            try {
                yield 1;
            } finally {
                echo "finally\n";
            }
        })();
        $GLOBALS['parity_generator']->current();
        echo "end\n";
    },
    'fiber_suspended' => static function (): void {
        $GLOBALS['parity_fiber'] = new Fiber(static function (): void {
            try {
                Fiber::suspend();
            } finally {
                echo "finally\n";
            }
        });
        $GLOBALS['parity_fiber']->start();
        echo "end\n";
    },
    'shutdown_nested' => static function (): void {
        $register = static function (int $depth) use (&$register): void {
            register_shutdown_function(static function () use ($register, $depth): void {
                echo "depth $depth\n";
                $depth < 3 && $register($depth + 1);
            });
        };
        $register(1);
        register_shutdown_function(static fn () => print("second\n"));
    },
    'shutdown_with_buffers' => static function () use ($wrap): void {
        register_shutdown_function(static function () use ($wrap): void {
            echo 'level ', ob_get_level(), "\n";
            ob_start($wrap('of shutdown'));
            echo "in shutdown\n";
        });
        ob_start($wrap('of body'));
        echo "body\n";
    },
    'shutdown_with_session' => static function () use ($start): void {
        register_shutdown_function(static function (): void {
            echo 'status ', session_status(), "\n";
            $_SESSION['b'] = 2;
        });
        $start();
    },
    'shutdown_closes_session' => static function () use ($start): void {
        session_register_shutdown();
        register_shutdown_function(static fn () => print('status ' . session_status() . "\n"));
        $start();
    },
    'destructor_with_session' => static function () use ($start): void {
        $start();
        $GLOBALS['parity_object'] = new class {
            public function __destruct()
            {
                echo 'status ', session_status(), "\n";
                $_SESSION['c'] = 3;
            }
        };
    },
    'destructor_with_buffer' => static function () use ($wrap): void {
        $GLOBALS['parity_object'] = new class ($wrap) {
            public function __construct(private readonly Closure $wrap)
            {
            }

            public function __destruct()
            {
                ob_start(($this->wrap)('of destructor'));
                echo "destructor\n";
            }
        };
        echo "body\n";
    },
    'destructor_sets_headers' => static function (): void {
        $GLOBALS['parity_object'] = new class {
            public function __destruct()
            {
                http_response_code(202);
                header('X-Destructor: yes');
            }
        };
        echo "body\n";
    },
    'destructor_registers_shutdown' => static function (): void {
        $GLOBALS['parity_object'] = new class {
            public function __destruct()
            {
                echo "destructor\n";
                register_shutdown_function(static fn () => print("too late\n"));
            }
        };
    },
    'callback_sees' => static function (): void {
        ob_start(static function (string $text, int $phase): string {
            return $text . "phase $phase level " . ob_get_level() . ' session ' . session_status() . "\n";
        });
        echo "body\n";
    },
    'session_handler_throws' => static function (): void {
        session_set_save_handler(
            static fn () => true,
            static fn () => true,
            static fn () => '',
            static fn () => throw new RuntimeException('from write'),
            static fn () => true,
            static fn () => 0,
        );
        session_id('parity-throws');
        session_start();
        $_SESSION['a'] = 1;
        echo "body\n";
    },
    'session_handler_fails' => static function (): void {
        session_set_save_handler(
            static fn () => true,
            static fn () => (bool) print("close\n"),
            static fn () => '',
            static fn () => false,
            static fn () => true,
            static fn () => 0,
        );
        session_id('parity-fails');
        session_start();
        $_SESSION['a'] = 1;
        echo "body\n";
    },
    'finish_then_all' => static function () use ($speaker, $start): void {
        $start();
        register_shutdown_function(static fn () => print("shutdown\n"));
        $GLOBALS['parity_object'] = $speaker('global');
        echo "sent\n";
        fastcgi_finish_request();
        echo "not sent\n";
    },
    'header_callback_prints' => static function (): void {
        header_register_callback(static fn () => print("headers\n"));
        echo "body\n";
    },
    'tick' => static function (): void {
        register_tick_function(static fn () => print("tick\n"));
        declare(ticks=1) {
            echo "a\n";
            echo "b\n";
        }
        register_shutdown_function(static fn () => print("shutdown\n"));
    },
];
