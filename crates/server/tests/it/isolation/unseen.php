<?php

/*
 * A resident application that writes to memory which a worker watches. With `?hidden` it then puts a page of another file in the
 * place of what it wrote to, with the same bytes: what a rewind cannot know of, and a comparison with the image must find.
 *
 * Runs in: zygote | worker. Called by: tests/it/isolation.rs.
 */

declare(strict_types=1);

const PAGE = 4096;

// On x86-64.
const MMAP = 9;
const MEMFD_CREATE = 319;
const PROT_READ_WRITE = 3;
const MAP_PRIVATE_FIXED = 0x12;

/** The page comes from a file from now on, as those of the image do. By bare system calls, since others are watched. */
function replace_page(FFI $libc, int $page): void
{
    $file = $libc->syscall(MEMFD_CREATE, 'page', 0);
    $libc->write($file, $libc->cast('char *', $page), PAGE);
    $mapped = $libc->syscall(MMAP, $page, PAGE, PROT_READ_WRITE, MAP_PRIVATE_FIXED, $file, 0);
    if ($mapped !== $page) {
        throw new RuntimeException('mmap is refused');
    }
    $libc->close($file);
}

$libc = FFI::cdef(<<<'C'
    long syscall(long number, ...);
    ssize_t write(int file, const char *bytes, size_t count);
    int close(int file);
    C, 'libc.so.6');
// Not in PHP's heap, so that no part of it is free.
$memory = FFI::new('char[' . 4 * PAGE . ']', false, true);
FFI::memset($memory, ord('a'), FFI::sizeof($memory));

$answer = static function () use ($libc, $memory): void {
    // A page of its own, since one that is written to often is put back unseen.
    $offset = PAGE * (isset($_GET['hidden']) ? 2 : 1);
    $address = FFI::cast('uintptr_t', FFI::addr($memory))->cdata + $offset;
    printf('0x%x %s', $address, $memory[$offset]);
    $memory[$offset] = 'b';
    if (isset($_GET['hidden'])) {
        replace_page($libc, $address - $address % PAGE);
        // A page that nobody has read is not there yet.
        ord($memory[$offset]) ?: throw new RuntimeException('nothing is there');
    }
};

while (hearth_handle_request($answer)) {
    // The next request.
}
