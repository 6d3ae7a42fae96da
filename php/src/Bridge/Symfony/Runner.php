<?php

declare(strict_types=1);

namespace Hearth\Bridge\Symfony;

use Hearth\Native\Worker;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\HttpKernelInterface;
use Symfony\Component\HttpKernel\KernelInterface;
use Symfony\Component\HttpKernel\TerminableInterface;
use Symfony\Component\Runtime\RunnerInterface;

/**
 * Hands each request to a kernel that stays booted.
 *
 * Services are reset by the kernel: Kernel::handle() resets those tagged `kernel.reset` first thing, if it has handled
 * a request before. Terminate listeners run when the client has the complete response. A kernel that exit() has left
 * in the middle of a request is booted anew, for it would take each later request for a part of that one.
 *
 * Runs in: zygote, up to the first request; worker.
 */
final class Runner implements RunnerInterface
{
    private ?Request $request = null;
    private ?Response $response = null;
    private ?CompiledClasses $compiled = null;

    public function __construct(
        private readonly HttpKernelInterface $kernel,
        private readonly Worker $worker,
    ) {
    }

    public function run(): int
    {
        // A client that leaves ends the sending, not the script.
        ignore_user_abort(true);

        // Before the first request is asked for, so that workers are forked with a booted kernel.
        if ($this->kernel instanceof KernelInterface) {
            $this->kernel->boot();
            Preparation::of($this->kernel);
            $this->compiled = CompiledClasses::register($this->kernel);
        }

        $boot = self::bootVariables();
        $this->worker->run(fn () => $this->handle($boot), $this->complete(...));

        return 0;
    }

    /** @param array<string, mixed> $boot */
    private function handle(array $boot): void
    {
        $this->compiled?->unregister();
        $this->compiled = null;
        $_SERVER += $boot;

        $this->request = Request::createFromGlobals();
        $this->response = $this->kernel->handle($this->request);
        $this->response->send();
    }

    private function complete(): void
    {
        if (null === $this->request || null === $this->response) {
            $this->renew();
        } elseif ($this->kernel instanceof TerminableInterface) {
            $this->kernel->terminate($this->request, $this->response);
        }
        if (null !== $this->request) {
            self::release($this->request);
        }
        $this->request = $this->response = null;
    }

    /**
     * The session factory that Symfony's session listener gives a request holds the request. Where no session was asked
     * for, that ring keeps the request until PHP collects cycles, a thousand requests later: megabytes of private
     * memory a worker.
     */
    private static function release(Request $request): void
    {
        if (!$request->hasSession(true)) {
            $request->setSessionFactory(static fn () => throw new \LogicException('The request is over.'));
        }
    }

    private function renew(): void
    {
        if ($this->kernel instanceof KernelInterface) {
            $this->kernel->shutdown();
            $this->kernel->boot();
        }
    }

    /**
     * What each request gets on top of its own: the variables of the environment and those of Dotenv, which PHP would
     * import again for each request, but no header of a request that the boot may have seen.
     *
     * @return array<string, mixed>
     */
    private static function bootVariables(): array
    {
        $variables = array_filter(
            $_SERVER,
            static fn (int|string $name): bool => !str_starts_with((string) $name, 'HTTP_'),
            \ARRAY_FILTER_USE_KEY,
        );
        $variables['APP_RUNTIME_MODE'] = 'web=1&worker=1';

        return $variables;
    }
}
