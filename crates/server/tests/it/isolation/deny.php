<?php

/*
 * Runs a program that the kernel refuses some system calls.
 *
 *   php deny.php WHAT[,WHAT…] PROGRAM ARGUMENT…
 *
 * WHAT: docker   what Docker's default seccomp profile refuses a container without privileges (moby/profiles, seccomp/default.json,
 *                2026): clone3 with ENOSYS, as it does, all others with EPERM
 *       scan     PAGEMAP_SCAN, which kernels before 6.7 do not have, with ENOTTY
 *       new      calls that engines of 2020 do not know: close_range, process_vm_readv, with EPERM
 *       mapping  private writable mappings of a file at an address that is taken, with EPERM
 *       code     the same of executable ones
 *
 * The numbers are those of x86-64.
 */

declare(strict_types=1);

const LOAD_WORD = 0x20;         // BPF_LD | BPF_W | BPF_ABS
const JUMP_UNLESS_EQUAL = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const RETURN_VALUE = 0x06;      // BPF_RET | BPF_K
const ALLOW = 0x7fff0000;       // SECCOMP_RET_ALLOW
const REFUSE = 0x00050000;      // SECCOMP_RET_ERRNO
const EPERM = 1;
const ENOTTY = 25;
const ENOSYS = 38;

const MMAP = 9;
const IOCTL = 16;
const PROCESS_VM_READV = 310;
const CLONE3 = 435;
const CLOSE_RANGE = 436;
const PAGEMAP_SCAN = 0xc0606610;
const MAP_PRIVATE_FIXED = 0x12;
const PROT_READ_WRITE = 0x3;
const PROT_READ_WRITE_EXEC = 0x7;

// First and last of each row: acct … security (kernel modules, mounts, swap, clocks), keys, memory policies, namespaces, tracing,
// userfaultfd, io_uring, the new calls for mounts, other processes' descriptors and memory.
const REFUSED_BY_DOCKER = [
    [103, 103], [134, 134], [136, 136], [139, 139], [153, 153], [155, 156], [163, 185], [212, 212], [227, 227], [236, 239],
    [246, 246], [248, 250], [256, 256], [272, 272], [279, 279], [298, 298], [300, 300], [304, 304], [308, 308], [312, 313],
    [320, 321], [323, 323], [425, 433], [438, 438], [440, 440], [442, 443], [450, 450],
];

// In struct seccomp_data (seccomp(2)): the call's number, the low half of an argument.
const NUMBER = 0;
const ARGUMENTS = 16;

/** Instructions that refuse the call $number if its arguments (index => value) are these. */
function refuse(int $number, int $error, array $arguments = []): array
{
    $tests = [[NUMBER, $number]];
    foreach ($arguments as $index => $value) {
        $tests[] = [ARGUMENTS + 8 * $index, $value];
    }
    $program = [];
    foreach ($tests as $index => [$offset, $value]) {
        // Over the other tests, of two instructions each, and the end.
        $rest = 2 * (count($tests) - 1 - $index) + 1;
        array_push($program, [LOAD_WORD, 0, 0, $offset], [JUMP_UNLESS_EQUAL, 0, $rest, $value]);
    }
    $program[] = [RETURN_VALUE, 0, 0, REFUSE | $error];

    return $program;
}

$programs = [];
foreach (explode(',', $argv[1]) as $what) {
    match ($what) {
        'docker' => array_push(
            $programs,
            refuse(CLONE3, ENOSYS),
            ...array_map(
                fn (int $number): array => refuse($number, EPERM),
                array_merge(...array_map(fn (array $row): array => range(...$row), REFUSED_BY_DOCKER)),
            ),
        ),
        'scan' => $programs[] = refuse(IOCTL, ENOTTY, [1 => PAGEMAP_SCAN]),
        'new' => array_push($programs, refuse(CLOSE_RANGE, EPERM), refuse(PROCESS_VM_READV, EPERM)),
        'mapping' => $programs[] = refuse(MMAP, EPERM, [2 => PROT_READ_WRITE, 3 => MAP_PRIVATE_FIXED]),
        'code' => $programs[] = refuse(MMAP, EPERM, [2 => PROT_READ_WRITE_EXEC, 3 => MAP_PRIVATE_FIXED]),
    };
}
$program = [...array_merge(...$programs), [RETURN_VALUE, 0, 0, ALLOW]];

$libc = FFI::cdef(
    'struct sock_filter { uint16_t code; uint8_t jt; uint8_t jf; uint32_t k; };
    struct sock_fprog { unsigned short len; struct sock_filter *filter; };
    int prctl(int option, unsigned long a, void *b, unsigned long c, unsigned long d);',
    'libc.so.6'
);
$filter = $libc->new('struct sock_filter[' . count($program) . ']');
foreach ($program as $index => [$code, $then, $else, $value]) {
    [$filter[$index]->code, $filter[$index]->jt, $filter[$index]->jf, $filter[$index]->k] = [$code, $then, $else, $value];
}
$whole = $libc->new('struct sock_fprog');
$whole->len = count($program);
$whole->filter = FFI::addr($filter[0]);

// PR_SET_NO_NEW_PRIVS; PR_SET_SECCOMP with SECCOMP_MODE_FILTER.
if ($libc->prctl(38, 1, null, 0, 0) !== 0 || $libc->prctl(22, 2, FFI::addr($whole), 0, 0) !== 0) {
    fwrite(STDERR, "the filter was refused\n");
    exit(1);
}
// As a shell finds it.
pcntl_exec('/usr/bin/env', array_slice($argv, 2), getenv());
