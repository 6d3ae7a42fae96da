<?php

/*
 * A resident application that writes to memory which a worker watches. With `?hidden` it then has the kernel watch the page
 * anew, as if nothing had been written: what a rewind cannot know of, and a comparison with the image must find.
 *
 * Runs in: zygote | worker. Called by: tests/it/isolation.rs.
 */

declare(strict_types=1);

const PAGE = 4096;

/** Has the kernel take the page for one that was not written to: PAGEMAP_SCAN with PM_SCAN_WP_MATCHING (linux/fs.h). */
function watch_anew(FFI $libc, int $page): void
{
    $scan = $libc->new('struct pm_scan_arg');
    $scan->size = FFI::sizeof($scan);
    $scan->flags = 1;
    $scan->start = $page;
    $scan->end = $page + PAGE;
    // PAGE_IS_WRITTEN
    $scan->category_mask = $scan->return_mask = 2;
    $pagemap = $libc->open('/proc/self/pagemap', 0);
    if ($libc->ioctl($pagemap, 0xc0606610, FFI::addr($scan)) < 0) {
        throw new RuntimeException('PAGEMAP_SCAN is refused');
    }
    $libc->close($pagemap);
}

$libc = FFI::cdef(<<<'C'
    struct pm_scan_arg {
        uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
        uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
    };
    int open(const char *path, int flags);
    int close(int fd);
    int ioctl(int fd, unsigned long request, void *argument);
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
        watch_anew($libc, $address - $address % PAGE);
    }
};

while (hearth_handle_request($answer)) {
    // The next request.
}
