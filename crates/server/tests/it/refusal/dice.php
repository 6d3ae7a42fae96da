<?php

/*
 * A worker script that makes a generator of random numbers while it boots, opens a file and has an object with a destructor.
 *
 * Runs in: zygote | worker. Called by: tests/it/refusal.rs.
 */

declare(strict_types=1);

final class Dice
{
    private Random\Randomizer $randomizer;

    public function __construct()
    {
        $this->randomizer = new Random\Randomizer(new Random\Engine\Mt19937());
    }

    public function roll(): int
    {
        return $this->randomizer->getInt(1, 6);
    }
}

final class Journal
{
    /** @var resource */
    private $file;

    public function __construct()
    {
        $this->file = fopen(__FILE__, 'r') ?: throw new RuntimeException('no journal');
        flock($this->file, LOCK_SH);
    }

    public function __destruct()
    {
        fclose($this->file);
    }
}

$dice = new Dice();
$journal = new Journal();
$secure = new Random\Randomizer();

while (hearth_handle_request(static fn () => print $dice->roll())) {
    // The next request.
}
