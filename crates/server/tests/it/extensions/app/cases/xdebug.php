<?php

declare(strict_types=1);

function traced(int $depth): int
{
    return $depth === 0 ? 0 : 1 + traced($depth - 1);
}

return [
    'use' => function (): void {
        same(['develop', 'profile', 'trace'], xdebug_info('mode'));
        same(5, traced(5));
        same(true, str_starts_with((string) xdebug_get_tracefile_name(), getenv('EXTENSIONS_FOLDER')));
        same(true, str_starts_with((string) xdebug_get_profiler_filename(), getenv('EXTENSIONS_FOLDER')));
        xdebug_start_function_monitor(['traced']);
        traced(1);
        same(2, count(xdebug_get_monitored_functions()));
        Kept::keep(new ArrayObject());
    },
];
