<?php

/*
 * Cases that take a tenth of a second or more; asked for more seldom.
 */

declare(strict_types=1);

namespace Nasty;

return [
    'endless loop' => static function (): void {
        echo 'said';
        set_time_limit(1);
        while (true) {
            // Until the time is over.
        }
    },
    'endless shutdown function' => static function (): void {
        register_shutdown_function(static function (): void {
            set_time_limit(1);
            while (true) {
                // Until the time is over.
            }
        });
        echo 'said';
    },
    'hundred megabytes' => static function (): void {
        Heir::$anything = str_repeat('x', 100 << 20);
        echo strlen(Heir::$anything);
    },
    'cache of expressions overrun' => static function (): void {
        for ($i = $found = 0; $i < 5000; ++$i) {
            $found += preg_match("/^left$i\$/", "left$i");
        }
        echo $found;
    },
    'hundreds of classes' => static function (): void {
        for ($i = 0; $i < 300; ++$i) {
            eval("class Left$i { public static \$s = [$i]; public function f() { static \$n = 0; return ++\$n; } }");
        }
        echo (new \Left299())->f();
    },
    'hundreds of descriptors' => static function (): void {
        for ($i = 0; $i < 500 && ($stream = @fopen('/dev/null', 'r')); ++$i) {
            $GLOBALS['many'][] = $stream;
        }
        echo $i;
    },
];
