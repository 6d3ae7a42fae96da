<?php

/*
 * Sessions of a user's save handler, and calls of session functions in odd orders.
 */

declare(strict_types=1);

$handler = static fn (array $answers = []): SessionHandlerInterface => new class ($answers) implements
    SessionHandlerInterface,
    SessionIdInterface,
    SessionUpdateTimestampHandlerInterface {
    public function __construct(private readonly array $answers)
    {
    }

    private function say(string $name, string ...$values): mixed
    {
        echo $name, '(', implode(', ', $values), ")\n";

        return $this->answers[$name] ?? true;
    }

    public function open(string $path, string $name): bool
    {
        return $this->say('open', $name);
    }

    public function close(): bool
    {
        return $this->say('close');
    }

    public function read(string $id): string|false
    {
        $answer = $this->say('read', $id);

        return $answer === true ? 'a|i:1;' : $answer;
    }

    public function write(string $id, string $data): bool
    {
        return $this->say('write', $id, $data);
    }

    public function destroy(string $id): bool
    {
        return $this->say('destroy', $id);
    }

    public function gc(int $max_lifetime): int|false
    {
        return $this->say('gc') === true ? 1 : false;
    }

    public function create_sid(): string
    {
        $this->say('create_sid');

        return 'parity-made';
    }

    public function validateId(string $id): bool
    {
        return $this->say('validateId', $id);
    }

    public function updateTimestamp(string $id, string $data): bool
    {
        return $this->say('updateTimestamp', $id, $data);
    }
};

// Buffered, so that what a handler prints does not send the headers.
$set = static function (array $answers = [], bool $register = true) use ($handler): void {
    ob_start();
    session_set_save_handler($handler($answers), $register);
};

return [
    'whole' => static function () use ($set): void {
        $set();
        session_start();
        $_SESSION['b'] = 2;
        echo "body\n";
    },
    'unregistered' => static function () use ($set): void {
        $set([], false);
        session_start();
        $_SESSION['b'] = 2;
        echo "body\n";
    },
    'given_id' => static function () use ($set): void {
        $set();
        session_id('given');
        session_start();
        echo "body\n";
    },
    'unchanged' => static function () use ($set): void {
        $set();
        session_id('given');
        session_start(['lazy_write' => true]);
    },
    'strict' => static function () use ($set): void {
        $set(['validateId' => false]);
        session_id('unknown');
        session_start(['use_strict_mode' => true]);
        echo session_id(), "\n";
    },
    'regenerate' => static function () use ($set): void {
        $set();
        session_id('given');
        session_start();
        session_regenerate_id(true);
        echo session_id(), "\n";
    },
    'reset_and_abort' => static function () use ($set): void {
        $set();
        session_id('given');
        session_start();
        $_SESSION['b'] = 2;
        session_reset();
        echo json_encode($_SESSION), "\n";
        session_abort();
        echo session_status(), "\n";
    },
    'destroy' => static function () use ($set): void {
        $set();
        session_id('given');
        session_start();
        session_destroy();
        echo session_status(), json_encode($_SESSION), "\n";
    },
    'read_fails' => static function () use ($set): void {
        $set(['read' => false]);
        session_id('given');
        echo json_encode(session_start()), "\n";
    },
    'open_fails' => static function () use ($set): void {
        $set(['open' => false]);
        session_id('given');
        echo json_encode(@session_start()), ' ', error_get_last()['message'] ?? 'none', "\n";
    },
    'write_fails' => static function () use ($set): void {
        $set(['write' => false]);
        session_id('given');
        session_start();
        $_SESSION['b'] = 2;
        echo json_encode(@session_write_close()), ' ', strtok(error_get_last()['message'] ?? 'none', '('), "\n";
    },
    'gc' => static function () use ($set): void {
        $set();
        session_id('given');
        session_start();
        echo json_encode(session_gc()), "\n";
    },
    'two_starts' => static function () use ($set): void {
        $set();
        session_id('given');
        session_start();
        echo json_encode(@session_start()), ' ', error_get_last()['message'] ?? 'none', "\n";
    },
    'start_in_shutdown' => static function () use ($set): void {
        $set();
        session_id('given');
        register_shutdown_function(static function (): void {
            session_start();
            $_SESSION['late'] = 'yes';
            echo "shutdown\n";
        });
        echo "body\n";
    },
    'exit_with_session' => static function () use ($set): void {
        $set();
        session_id('given');
        session_start();
        $_SESSION['b'] = 2;
        exit("exit\n");
    },
    'throw_with_session' => static function () use ($set): void {
        $set();
        session_id('given');
        session_start();
        $_SESSION['b'] = 2;
        throw new RuntimeException('thrown');
    },
    'fatal_with_session' => static function () use ($set): void {
        $set();
        session_id('given');
        session_start();
        $_SESSION['b'] = 2;
        eval('class TwiceN {} class TwiceN {}');
    },
    'object_in_session' => static function (): void {
        session_id('parity-object');
        session_start();
        $_SESSION['object'] ??= new ArrayObject([1, 2]);
        $_SESSION['object'][] = count($_SESSION['object']);
        echo json_encode($_SESSION['object']);
    },
    'encode' => static function (): void {
        session_id('parity-encode');
        session_start();
        session_decode('a|s:1:"b";c|a:1:{i:0;i:1;}');
        echo json_encode($_SESSION), session_encode();
        session_unset();
        echo json_encode($_SESSION);
    },
    'limiters' => static function (): void {
        session_id('parity-limiter');
        session_cache_limiter('private_no_expire');
        session_start(['cache_expire' => 10]);
        header_remove('Last-Modified');
        echo session_cache_limiter(), session_cache_expire();
    },
    'no_limiter' => static function (): void {
        session_id('parity-no-limiter');
        session_cache_limiter('');
        session_start();
        echo 'body';
    },
    'no_cookies' => static function (): void {
        session_id('parity-no-cookie');
        session_start(['use_cookies' => false]);
        echo 'body', json_encode(defined('SID') ? SID : null);
    },
    'another_name' => static function (): void {
        session_name('OTHER');
        session_id('parity-name');
        session_start(['cookie_lifetime' => 0, 'cookie_path' => '/p']);
        echo session_name();
    },
    'serializer' => static function (): void {
        ini_set('session.serialize_handler', 'php_serialize');
        session_id('parity-serializer');
        session_start();
        $_SESSION['a|b'] = ['x' => 1.5];
        echo session_encode();
    },
];
