<?php

declare(strict_types=1);

namespace App;

use Symfony\Component\HttpFoundation\RequestStack;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;

/**
 * Says which process answers and how it runs PHP. The count shows whether objects outlive a request: it stays 1 where
 * the application boots for each request, and grows where it stays in memory.
 */
final class ServedBy
{
    private int $pages = 0;

    public function __construct(private readonly RequestStack $requests)
    {
    }

    /** @return array{server: string, sapi: string, mode: string, worker: int, pages: int, php: string, symfony: string} */
    public function describe(): array
    {
        return [
            'server' => $this->fromRequest('SERVER_SOFTWARE', 'unknown'),
            'sapi' => \PHP_SAPI,
            'mode' => $this->isResident() ? 'resident' : 'classic',
            'worker' => getmypid() ?: 0,
            'pages' => ++$this->pages,
            'php' => \PHP_VERSION,
            'symfony' => BaseKernel::VERSION,
        ];
    }

    /** Set by the runner that keeps the kernel: `web=1&worker=1`. */
    private function isResident(): bool
    {
        parse_str($this->fromRequest('APP_RUNTIME_MODE', ''), $mode);

        return '1' === ($mode['worker'] ?? '0');
    }

    private function fromRequest(string $name, string $default): string
    {
        $value = $this->requests->getMainRequest()?->server->get($name);

        return is_string($value) && '' !== $value ? $value : $default;
    }
}
