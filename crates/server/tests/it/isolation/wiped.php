<?php

/*
 * A resident application with a page that a fork wipes, as libraries have one to notice a fork by: it holds 1 in the process that
 * booted, and must hold 0 wherever a request begins.
 *
 * Runs in: zygote | worker. Called by: tests/it/isolation.rs.
 */

declare(strict_types=1);

const PAGE = 4096;
const PROT_READ_WRITE = 3;
const MAP_PRIVATE_ANONYMOUS = 0x22;
const MADV_WIPEONFORK = 18;

$libc = FFI::cdef(<<<'C'
    void *mmap(void *at, size_t length, int protection, int flags, int file, long offset);
    int madvise(void *at, size_t length, int advice);
    C, 'libc.so.6');
$start = $libc->mmap(null, PAGE, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
if ($libc->madvise($start, PAGE, MADV_WIPEONFORK) !== 0) {
    throw new RuntimeException('madvise is refused');
}
$page = $libc->cast('char *', $start);
$page[0] = "\x01";

$answer = static function () use ($page): void {
    echo ord($page[0]);
    $page[0] = "\x01";
};

while (hearth_handle_request($answer)) {
    // The next request.
}
