<?php

/*
 * A worker script that connects while it boots: to $TEST_PEER, held by a property of an object.
 *
 * Runs in: zygote. Called by: tests/it/refusal.rs.
 */

declare(strict_types=1);

final class Upstream
{
    /** @var array<string, mixed> */
    private array $links = [];

    public function __construct(string $peer)
    {
        $this->links['first'] = stream_socket_client($peer);
    }
}

final class Catalogue
{
    public PDO $database;

    public function __construct()
    {
        $this->database = new PDO('sqlite::memory:');
    }
}

$catalogue = new Catalogue();
$upstream = new Upstream(getenv('TEST_PEER') ?: throw new LogicException('TEST_PEER is not set'));
if (getenv('TEST_CLOSES')) {
    $upstream = null;
}

while (hearth_handle_request(static fn () => print 'served')) {
    // The next request.
}
