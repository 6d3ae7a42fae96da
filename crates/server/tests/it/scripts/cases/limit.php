<?php

/*
 * Time limits.
 */

declare(strict_types=1);

$spin = static function (): void {
    while (true) {
    }
};
$last = static function (): void {
    register_shutdown_function(static function (): void {
        echo ' shutdown: ', error_get_last()['message'] ?? 'none', ' ', connection_status();
    });
};

return [
    'loop' => static function () use ($spin, $last): void {
        $last();
        set_time_limit(1);
        echo 'before';
        $spin();
    },
    'loop_by_ini' => static function () use ($spin, $last): void {
        $last();
        ini_set('max_execution_time', '1');
        ob_start();
        echo 'buffered';
        $spin();
    },
    'in_shutdown' => static function () use ($spin): void {
        register_shutdown_function(static function () use ($spin): void {
            set_time_limit(1);
            echo ' shutdown';
            $spin();
        });
        register_shutdown_function(static fn () => print(' not reached'));
        echo 'body';
    },
    'in_destructor' => static function () use ($spin): void {
        $GLOBALS['parity_object'] = new class ($spin) {
            public function __construct(private readonly Closure $spin)
            {
            }

            public function __destruct()
            {
                set_time_limit(1);
                echo ' destructor';
                ($this->spin)();
            }
        };
        echo 'body';
    },
    // Only what PHP computes counts.
    'sleep' => static function (): void {
        set_time_limit(1);
        usleep(1_200_000);
        echo 'slept';
    },
    'again' => static function (): void {
        for ($n = 0; $n < 2; ++$n) {
            set_time_limit(1);
            for ($until = hrtime(true) + 600_000_000; hrtime(true) < $until;) {
            }
        }
        echo 'twice';
    },
    'off' => static function (): void {
        set_time_limit(1);
        set_time_limit(0);
        for ($until = hrtime(true) + 1_200_000_000; hrtime(true) < $until;) {
        }
        echo 'no limit';
    },
    'after' => static function (): void {
        echo ini_get('max_execution_time');
        for ($until = hrtime(true) + 1_200_000_000; hrtime(true) < $until;) {
        }
        echo ' the limit of the last request is gone';
    },
];
