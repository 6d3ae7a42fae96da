<?php

declare(strict_types=1);

use Illuminate\Foundation\Application;

$app = Application::configure(basePath: dirname(__DIR__))
    ->withRouting(web: __DIR__ . '/../routes/web.php', api: __DIR__ . '/../routes/api.php', apiPrefix: '')
    ->withMiddleware()
    ->withExceptions()
    ->create();

// Laravel's own configuration will do; Debian keeps it where Laravel does not look for it.
$app->dontMergeFrameworkConfiguration();
$app->useConfigPath('/usr/share/php/Illuminate/config');

return $app;
