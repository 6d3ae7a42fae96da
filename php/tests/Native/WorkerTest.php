<?php

declare(strict_types=1);

namespace Hearth\Tests\Native;

use Hearth\Native\Worker;
use Hearth\Native\WorkerError;
use Hearth\Tests\FakeHost;
use PHPUnit\Framework\Attributes\BackupGlobals;
use PHPUnit\Framework\TestCase;

final class WorkerTest extends TestCase
{
    /** @backupGlobals enabled */
    #[BackupGlobals(true)]
    public function testOutsideOfAResidentPoolTheLoopSaysHowToStartOne(): void
    {
        self::assertFalse(Worker::isAvailable());

        $this->expectException(WorkerError::class);
        $this->expectExceptionMessage('mode = "resident"');
        (new Worker())->run(static fn () => self::fail('No request was to be served.'));
    }

    /** @backupGlobals enabled */
    #[BackupGlobals(true)]
    public function testTheFunctionsAloneAreNoResidentPool(): void
    {
        FakeHost::start();
        FakeHost::stop();

        self::assertTrue(function_exists('hearth_handle_request'));
        self::assertFalse(Worker::isAvailable());
    }

    /** @backupGlobals enabled */
    #[BackupGlobals(true)]
    public function testEachRequestIsHandledAndThenFollowedUpUntilTheHostEndsTheLoop(): void
    {
        FakeHost::start([], []);

        $served = (new Worker())->run(
            static fn () => FakeHost::$events[] = 'handled',
            static fn () => FakeHost::$events[] = 'afterwards',
        );

        self::assertSame(2, $served);
        $one = ['request', 'handled', 'complete', 'afterwards'];
        self::assertSame([...$one, ...$one, 'end'], FakeHost::$events);
    }
}
