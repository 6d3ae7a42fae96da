<?php

// Calls hearth_request() where no request can begin: TEST_PLACE says where.

declare(strict_types=1);

final class Destroyed
{
    public function __destruct()
    {
        hearth_request(); // destructor
    }
}

function in_callback(string $text): string
{
    hearth_request(); // callback
    return $text;
}

switch (getenv('TEST_PLACE')) {
    case 'callback':
        ob_start(in_callback(...));
        echo 'text';
        ob_end_flush();
        break;
    case 'destructor':
        new Destroyed();
        break;
    case 'autoloader':
        spl_autoload_register(static function (): void {
            hearth_request(); // autoloader
        });
        class_exists('Missing');
        break;
    case 'shutdown':
        register_shutdown_function(static function (): void {
            hearth_request(); // shutdown
        });
        break;
    case 'finally':
        try {
            throw new LogicException('in flight');
        } finally {
            hearth_request(); // finally
        }
    case 'session':
        session_start();
        hearth_request(); // session
}
