<?php

declare(strict_types=1);

return [
    // Shared memory is not undone: what is in the cache stays, as under php-fpm.
    'use' => function (): void {
        same((int) $_GET['count'], apcu_inc('count'));
        apcu_store('object', new ArrayObject([$_GET['count']]));
        same([$_GET['count']], apcu_fetch('object')->getArrayCopy());
        same('made', apcu_entry('entry', fn (): string => 'made'));
        Kept::keep(new APCUIterator('/count/'));
    },
];
