<?php

/*
 * Ends of every kind, in every place.
 */

declare(strict_types=1);

namespace Nasty;

function leave(string $text): never
{
    ++Heir::$typed;
    exit($text);
}

return [
    'exit' => static function (): void {
        echo 'said ';
        exit('and left');
    },
    'exit with a number' => static function (): void {
        echo 'said';
        exit(3);
    },
    'exit in a function' => static function (): void {
        leave('left ' . Heir::$typed);
    },
    'exit in a destructor' => static function (): void {
        $GLOBALS['leaver'] = new class {
            public function __destruct()
            {
                leave(' left');
            }
        };
        echo 'said';
    },
    'exit in a shutdown function' => static function (): void {
        register_shutdown_function(static fn () => leave(' left'));
        register_shutdown_function(static fn () => print(' never'));
        echo 'said';
    },
    'exit in an output handler' => static function (): void {
        ob_start(static fn (string $text): string => leave('left'));
        echo 'said';
    },
    'exit in an error handler' => static function (): void {
        set_error_handler(static fn (): bool => leave('left'));
        echo $missing;
    },
    'exit in an exception handler' => static function (): void {
        set_exception_handler(static fn (\Throwable $e) => leave('left after ' . $e->getMessage()));
        throw new \RuntimeException('uncaught');
    },
    'exit in a generator' => static function (): void {
        $generator = (static function (): \Generator {
            try {
                yield 1;
                leave('left');
            } finally {
                echo 'finally';
            }
        })();
        foreach ($generator as $value) {
            echo $value;
        }
    },
    'exit in a fiber' => static function (): void {
        (new \Fiber(static fn () => leave('left')))->start();
    },
    'exit in an autoloader' => static function (): void {
        spl_autoload_register(static fn (string $class) => leave("left for $class"));
        new \Nobody();
    },
    'exit in a comparison' => static function (): void {
        $list = [2, 1];
        usort($list, static fn (): int => leave('left'));
    },
    'exit in __toString' => static function (): void {
        echo new class {
            public function __toString(): string
            {
                leave('left');
            }
        };
    },
    'exit in a stream wrapper' => static function (): void {
        stream_wrapper_register('leave', get_class(new class {
            public $context;

            public function stream_open(): bool
            {
                leave('left');
            }
        }));
        fopen('leave://now', 'r');
    },
    'exit in a tick function' => static function (): void {
        register_tick_function(static fn () => leave('left'));
        require Booted::get()->folder . '/late/ticks.php';
    },
    'exit in a header callback' => static function (): void {
        header_register_callback(static fn () => leave(''));
        echo 'said';
    },
    'exit in an included file' => static function (): void {
        require Booted::get()->folder . '/late/leaves.php';
    },
    'exit in evaluated code' => static function (): void {
        eval('function left_by_exit() {} exit("left");');
    },
    'exit in a callback of XML' => static function (): void {
        $parser = xml_parser_create();
        xml_set_element_handler($parser, static fn () => leave('left'), static fn () => null);
        xml_parse($parser, '<a/>');
    },
    'exit in a callback of the database' => static function (): void {
        Booted::get()->database->sqliteCreateFunction('leave', static fn () => leave('left'));
        Booted::get()->database->query('select leave()');
    },
    'exit in a callback of expressions' => static function (): void {
        preg_replace_callback('/a/', static fn () => leave('left'), 'a');
    },
    'exit with open buffers' => static function (): void {
        ob_start(static fn (string $text): string => strtoupper($text));
        ob_start();
        leave('left');
    },
    'exit with finally' => static function (): void {
        try {
            leave('left');
        } finally {
            echo 'never';
        }
    },
    'exception' => static function (): void {
        echo 'said';
        throw new \DomainException('uncaught');
    },
    'exception before output' => static function (): void {
        throw new \DomainException('uncaught', 5, new \LogicException('before'));
    },
    'exception in an exception handler' => static function (): void {
        set_exception_handler(static fn (\Throwable $e) => throw new \LogicException('again'));
        throw new \DomainException('uncaught');
    },
    'exception in a shutdown function' => static function (): void {
        register_shutdown_function(static fn () => throw new \DomainException('late'));
        echo 'said';
    },
    'error of types' => static function (): void {
        strlen([]);
    },
    'function that is not there' => static function (): void {
        echo 'said';
        nobody();
    },
    'fatal error of the compiler' => static function (): void {
        echo 'said';
        eval('class Twice {} class Twice {}');
    },
    'fatal error half-way through a class' => static function (): void {
        eval('class Half extends \Nasty\Ancestor { public static function countInherited(): string { return ""; } }');
    },
    'fatal error in a shutdown function' => static function (): void {
        register_shutdown_function(static fn () => eval('class Again {} class Again {}'));
        echo 'said';
    },
    'fatal error in a destructor' => static function (): void {
        $GLOBALS['breaker'] = new class {
            public function __destruct()
            {
                eval('class Again {} class Again {}');
            }
        };
        echo 'said';
    },
    'fatal error in an output handler' => static function (): void {
        ob_start(static function (string $text): string {
            ob_start();

            return $text;
        });
        echo 'said';
    },
    'fatal error in a fiber' => static function (): void {
        (new \Fiber(static fn () => eval('class Again {} class Again {}')))->start();
    },
    'error of the user' => static function (): void {
        echo 'said';
        @trigger_error('on purpose', E_USER_ERROR);
        echo ' never';
    },
    'parse error' => static function (): void {
        eval('this is no PHP');
    },
    'file that is not there' => static function (): void {
        echo 'said';
        require '/nowhere/at/all.php';
    },
    'response finished early' => static function (): void {
        echo 'said';
        fastcgi_finish_request();
        echo 'not said';
        Heir::$anything = 'left';
        header('X-Left: late');
    },
    'flushed and then failed' => static function (): void {
        echo str_repeat('said ', 2000);
        flush();
        throw new \DomainException('late');
    },
];
