<?php

declare(strict_types=1);

use Illuminate\Http\Request;
use Illuminate\Support\Facades\Route;

Route::get('/hello', static fn (): array => ['message' => 'Hello, world!']);

/* The request as Laravel sees it. */
Route::any('/request', static fn (Request $request): array => [
    'method' => $request->method(),
    'url' => $request->fullUrl(),
    'input' => $request->all(),
    'file' => $request->file('file')?->getContent(),
    'content_sha256' => hash('sha256', $request->getContent()),
]);

Route::get('/throw', static fn () => throw new RuntimeException('This page throws, on purpose.'));

Route::get('/exit', static function (): never {
    echo "This page called exit() after this line.\n";

    exit;
});
