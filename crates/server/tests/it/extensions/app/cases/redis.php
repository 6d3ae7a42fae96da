<?php

declare(strict_types=1);

return [
    'use' => function (): void {
        $redis = new Redis();
        same(true, $redis->connect(getenv('EXTENSIONS_REDIS')));
        $redis->setOption(Redis::OPT_PREFIX, 'own:');
        $redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
        same(false, $redis->get('key'));
        same(true, $redis->set('list', ['a' => 1], 10));
        same(['a' => 1], $redis->get('list'));
        // Queued, never executed.
        $redis->multi()->set('key', 'left');
        Kept::keep($redis);
    },
    'persistent' => function (): void {
        $redis = new Redis();
        same(true, $redis->pconnect(getenv('EXTENSIONS_REDIS')));
        same(true, $redis->select(3));
        Kept::keep($redis);
    },
];
