<?php

/*
 * Memory: kept, run out of, torn.
 */

declare(strict_types=1);

namespace Nasty;

return [
    'kept in a static' => static function (): void {
        echo Heir::$anything === null ? 'none' : 'left';
        Heir::$anything = str_repeat('x', 6 << 20);
    },
    'many small pieces' => static function (): void {
        for ($i = 0; $i < 5000; ++$i) {
            $GLOBALS['pieces'][] = "piece $i";
        }
        echo count($GLOBALS['pieces']);
    },
    'every size' => static function (): void {
        for ($size = 1; $size < 4096; $size += 13) {
            $GLOBALS['sizes'][$size] = str_repeat('x', $size);
        }
        foreach (array_keys($GLOBALS['sizes']) as $n => $size) {
            if ($n % 2) {
                unset($GLOBALS['sizes'][$size]);
            }
        }
        echo count($GLOBALS['sizes']);
    },
    'limit in one step' => static function (): void {
        echo 'before';
        str_repeat('x', 1 << 40);
    },
    'limit by and by' => static function (): void {
        ini_set('memory_limit', '16M');
        for ($all = []; true;) {
            $all[] = str_repeat('x', 1 << 18);
        }
    },
    'limit with a shutdown function' => static function (): void {
        ini_set('memory_limit', '16M');
        register_shutdown_function(static function (): void {
            echo 'shut down after ', error_get_last()['type'];
        });
        $GLOBALS['speaker'] = new class {
            public function __destruct()
            {
                echo 'destroyed';
            }
        };
        for ($all = []; true;) {
            $all[] = str_repeat('x', 1 << 18);
        }
    },
    'limit inside an output handler' => static function (): void {
        ini_set('memory_limit', '16M');
        ob_start(static fn (string $text): string => str_repeat($text, 1 << 30));
        echo 'said';
    },
    'deep calls' => static function (): void {
        $deep = static function (int $n) use (&$deep): int {
            return $n === 0 ? 0 : 1 + $deep($n - 1);
        };
        echo $deep(20000);
    },
    'deep calls without end' => static function (): void {
        ini_set('memory_limit', '12M');
        $deep = static function () use (&$deep): void {
            $deep();
        };
        $deep();
    },
    'deep calls through C' => static function (): void {
        $deep = static function (int $n) use (&$deep): int {
            return $n === 0 ? 0 : 1 + array_map($deep, [$n - 1])[0];
        };
        echo $deep(1500);
    },
    'deep structure' => static function (): void {
        $value = [];
        for ($i = 0; $i < 3000; ++$i) {
            $value = [$value];
        }
        Heir::$anything = $value;
        echo strlen(serialize($value)), var_export(json_encode($value), true), json_last_error();
    },
    'garbage by the thousand' => static function (): void {
        for ($i = 0; $i < 12000; ++$i) {
            $a = [];
            $a[0] = &$a;
            unset($a);
        }
        echo 'collected';
    },
    'peak' => static function (): void {
        $big = str_repeat('x', 20 << 20);
        unset($big);
        echo memory_get_peak_usage() > 20 << 20 ? 'high' : 'low';
    },
    'strings made one' => static function (): void {
        // Interned in the process, were they not put back.
        for ($i = 0; $i < 200; ++$i) {
            eval("\$left_variable_$i = 'left literal $i';");
        }
        echo $left_variable_199;
    },
    'memory of the C library' => static function (): void {
        $c = CLibrary::load();
        $c?->memset($c->malloc(300000), 1, 300000);
        $c?->memset($c->malloc(3000), 1, 3000);
        echo 'lost';
    },
];
