<?php

/*
 * Answers one request of the nasty application:
 *
 *   ?case=NAME     runs a case; its answer shows whether an earlier request left something to it
 *   ?probe=DIGEST  says "same" if the fingerprint of what can be observed has this digest, else the whole fingerprint
 *   ?list          the cases; "slow" stands before those that take long
 */

declare(strict_types=1);

namespace Nasty;

function handle(): void
{
    header('Content-Type: text/plain; charset=UTF-8');
    header('X-Worker: ' . getmypid());
    if (isset($_GET['case'])) {
        (Booted::get()->cases[$_GET['case']])();
    } elseif (isset($_GET['probe'])) {
        $text = (new Probe())->fingerprint($_GET['process'] ?? 'yes');
        echo hash('sha256', $text) === $_GET['probe'] ? 'same' : $text;
    } elseif (isset($_GET['list'])) {
        foreach (array_keys(Booted::get()->cases) as $name) {
            echo str_starts_with($name, 'slow/') ? 'slow' : 'fast', ' ', $name, "\n";
        }
    }
}
