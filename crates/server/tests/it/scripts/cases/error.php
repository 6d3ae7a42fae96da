<?php

/*
 * Errors: what is shown of them, what their handlers get, and what ends the script.
 */

declare(strict_types=1);

$last = static function (): void {
    register_shutdown_function(static function (): void {
        $error = error_get_last();
        echo "\nlast: ", $error === null ? 'none' : $error['type'] . ' ' . strtok($error['message'], "\n"), ', status ', http_response_code();
    });
};

return [
    'previous' => static function (): void {
        try {
            throw new LogicException('inner', 3);
        } catch (LogicException $e) {
            throw new RuntimeException('outer', 7, $e);
        }
    },
    'throw_in_catch' => static function () use ($last): void {
        $last();
        try {
            throw new LogicException('first');
        } catch (LogicException) {
            throw new RuntimeException('second');
        } finally {
            echo 'finally ';
        }
    },
    'throw_in_finally' => static function (): void {
        try {
            throw new LogicException('first');
        } finally {
            throw new RuntimeException('from finally');
        }
    },
    'throw_in_handler' => static function () use ($last): void {
        $last();
        set_exception_handler(static fn (Throwable $e) => throw new RuntimeException('from the handler', 0, $e));
        throw new LogicException('first');
    },
    'throw_in_error_handler' => static function () use ($last): void {
        $last();
        set_error_handler(static fn (int $level, string $text) => throw new ErrorException($text, 0, $level));
        echo 'before ', $undefined, ' not reached';
    },
    'throw_in_shutdown' => static function () use ($last): void {
        register_shutdown_function(static fn () => throw new LogicException('from shutdown'));
        $last();
        echo 'body ';
    },
    'throw_in_destructor_at_end' => static function () use ($last): void {
        $last();
        $GLOBALS['parity_object'] = new class {
            public function __destruct()
            {
                throw new LogicException('from a destructor');
            }
        };
        echo 'body ';
    },
    'throw_in_two_destructors' => static function (): void {
        foreach (['a', 'b'] as $name) {
            $GLOBALS["parity_$name"] = new class ($name) {
                public function __construct(private readonly string $name)
                {
                }

                public function __destruct()
                {
                    echo "$this->name ";
                    throw new LogicException($this->name);
                }
            };
        }
    },
    'throw_while_thrown' => static function () use ($last): void {
        $last();
        $object = new class {
            public function __destruct()
            {
                throw new LogicException('from a destructor');
            }
        };
        throw new RuntimeException('first');
    },
    'throw_in_string' => static function (): void {
        echo new class {
            public function __toString(): string
            {
                throw new LogicException('from a string');
            }
        };
    },
    'throw_in_autoloader' => static function (): void {
        spl_autoload_register(static fn (string $class) => throw new LogicException("cannot load $class"));
        new ParityUnknown();
    },
    'throw_in_generator' => static function (): void {
        foreach ((static function () {
            yield 1;
            throw new LogicException('from a generator');
        })() as $n) {
            echo $n;
        }
    },
    'throw_in_fiber' => static function (): void {
        (new Fiber(static fn () => throw new LogicException('from a fiber')))->start();
    },
    'throw_error_with_html' => static fn () => throw new RuntimeException('<b>html</b> & "quotes"'),
    'throw_long_message' => static fn () => throw new RuntimeException(str_repeat('long ', 400)),
    'throw_with_lines' => static fn () => throw new RuntimeException("one\ntwo\r\nthree"),
    'throw_exit_in_handler' => static function (): void {
        set_exception_handler(static function (): void {
            header('X-Handled: yes');
            http_response_code(503);
            exit('sorry');
        });
        throw new RuntimeException('it');
    },
    'handler_returns_false' => static function () use ($last): void {
        $last();
        set_error_handler(static fn (int $level, string $text): bool => (bool) print("[$text]") && false);
        echo $undefined;
    },
    'handler_of_some_levels' => static function (): void {
        set_error_handler(static fn (int $level, string $text): bool => (bool) print("[$text]"), E_USER_NOTICE);
        trigger_error('seen', E_USER_NOTICE);
        trigger_error('not seen', E_USER_WARNING);
    },
    'handler_within_handler' => static function (): void {
        set_error_handler(static function (int $level, string $text): bool {
            echo "[$text]", $another;

            return true;
        });
        echo $undefined;
    },
    'silenced' => static function () use ($last): void {
        $last();
        echo @$undefined, @file_get_contents('/no/such/file') === false ? 'false' : 'true';
    },
    'silenced_fatal' => static function () use ($last): void {
        $last();
        @eval('class TwiceX {} class TwiceX {}');
    },
    'levels' => static function (): void {
        foreach ([E_USER_NOTICE, E_USER_WARNING, E_USER_DEPRECATED] as $level) {
            trigger_error("level $level", $level);
        }
        echo 'end';
    },
    'deprecated_kinds' => static function (): void {
        $object = new class {
            public int $a = 1;
        };
        echo strlen((string) @$object->b), 1 <=> '1';
        echo round(1.5), (int) '12abc', "12abc" == 12 ? 'equal' : 'unequal';
        $object->dynamic = 1;
    },
    'numbers' => static fn () => print(intdiv(1, 0)),
    'array_to_string' => static fn () => print('a' . [1]),
    'undefined_kinds' => static function (): void {
        $list = [];
        echo $list['key'], $list[0], $none, (new class {
        })->property;
    },
    'missing_include' => static function (): void {
        echo 'before ';
        include __DIR__ . '/no-such-file.php';
        echo 'after';
    },
    'parse_error_in_include' => static function () use ($last): void {
        $last();
        include __DIR__ . '/broken.inc';
    },
    'parse_error_caught' => static function (): void {
        try {
            include __DIR__ . '/broken.inc';
        } catch (ParseError $e) {
            echo 'caught ', $e->getMessage(), ' on line ', $e->getLine();
        }
    },
    'abstract_instance' => static fn () => new FilterIterator(),
    'stack_of_fatal' => static function () use ($last): void {
        $last();
        (static fn () => (static fn () => eval('class TwiceY {} class TwiceY {}'))())();
    },
    'fatal_in_shutdown' => static function () use ($last): void {
        $last();
        register_shutdown_function(static fn () => eval('class TwiceZ {} class TwiceZ {}'));
        register_shutdown_function(static fn () => print('not reached'));
        echo 'body ';
    },
    'fatal_in_destructor_at_end' => static function () use ($last): void {
        $last();
        $GLOBALS['parity_object'] = new class {
            public function __destruct()
            {
                echo 'destructor ';
                eval('class TwiceW {} class TwiceW {}');
            }
        };
        echo 'body ';
    },
    'memory_in_shutdown' => static function () use ($last): void {
        $last();
        register_shutdown_function(static fn () => str_repeat('x', 1 << 30));
        echo 'body ';
    },
    'memory_with_shutdown' => static function () use ($last): void {
        $last();
        $GLOBALS['parity_object'] = new class {
            public function __destruct()
            {
                echo ' destructor';
            }
        };
        str_repeat('x', 1 << 30);
    },
    'memory_set_higher' => static function (): void {
        ini_set('memory_limit', '64M');
        echo strlen(str_repeat('x', 20 << 20));
    },
    'memory_set_lower' => static function () use ($last): void {
        $last();
        ini_set('memory_limit', '8M');
        echo strlen(str_repeat('x', 10 << 20));
    },
    'recursion' => static function () use ($last): void {
        $last();
        $down = static function (int $n) use (&$down): int {
            return $down($n + 1) + 1;
        };
        $down(0);
    },
    'nested_functions' => static fn () => array_map(static fn (int $n): int => $n % 0, [1]),
    'wrong_arguments' => static fn () => (static fn (int $n): int => $n)('text'),
    'too_few_arguments' => static fn () => (static fn (int $n): int => $n)(),
    'wrong_return' => static fn () => (static fn (): int => 'text')(),
    'readonly' => static function (): void {
        $object = new class (1) {
            public function __construct(public readonly int $n)
            {
            }
        };
        $object->n = 2;
    },
    'unhandled_match' => static fn () => match (42) {
        1 => 'one',
    },
    'enum' => static fn () => ParityNoEnum::A,
    'error_log' => static function (): void {
        error_log('to the log, not to the client');
        echo 'logged';
    },
    'html_errors' => static function (): void {
        ini_set('html_errors', '1');
        echo $undefined;
        throw new RuntimeException('a <b>');
    },
    'prepend_and_append' => static function (): void {
        ini_set('error_prepend_string', '<<');
        ini_set('error_append_string', '>>');
        echo $undefined;
    },
    'shown_on_stderr' => static function (): void {
        ini_set('display_errors', 'stderr');
        echo $undefined, 'body';
    },
    'headers_sent_warning' => static function (): void {
        echo str_repeat('x', 5000);
        ob_flush();
        header('X-Late: yes');
        setcookie('late', 'yes');
        session_start();
        http_response_code(404);
    },
    'assertion' => static function (): void {
        ini_set('assert.exception', '1');
        assert(1 > 2, 'said');
        echo 'end';
    },
    'status_kept' => static function () use ($last): void {
        $last();
        http_response_code(404);
        echo 'body ';
        throw new RuntimeException('thrown');
    },
    'status_after_handler' => static function () use ($last): void {
        $last();
        set_exception_handler(static fn () => print('handled'));
        throw new RuntimeException('thrown');
    },
    'location_then_throw' => static function (): void {
        header('Location: /elsewhere');
        throw new RuntimeException('thrown');
    },
    'type_then_fatal' => static function (): void {
        header('Content-Type: application/json');
        header('X-Kept: yes');
        echo '{"half":';
        eval('class TwiceV {} class TwiceV {}');
    },
];
