<?php

declare(strict_types=1);

namespace Memo;

function user(): string
{
    return (string) ($_GET['user'] ?? 'nobody');
}

function in_function(): string
{
    static $user;

    return $user ??= user();
}

function with_default(int $tenant = \TENANT, string $name = \TENANT_NAME): string
{
    return "$tenant $name";
}

function with_call(): string
{
    return isset($_GET['host']) && $_GET['host'] === 'a' ? greeting_a() : greeting_b();
}

/** How many constants there are does not say which. */
function is_tenant(): array
{
    return [\defined('TENANT_A'), \defined('TENANT_B'), \defined('TENANT_C')];
}

function fallback(): string
{
    return SUFFIX;
}
