<?php

/*
 * Runs a program that the kernel refuses what a container's usual seccomp profile refuses: userfaultfd(2), with EPERM.
 *
 *   php deny.php call|call,device PROGRAM ARGUMENT…
 *
 * With "device", /dev/userfaultfd is of no use either, as if it were not there.
 */

declare(strict_types=1);

const LOAD_WORD = 0x20;         // BPF_LD | BPF_W | BPF_ABS
const JUMP_UNLESS_EQUAL = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const RETURN_VALUE = 0x06;      // BPF_RET | BPF_K
const ALLOW = 0x7fff0000;       // SECCOMP_RET_ALLOW
const REFUSE = 0x00050001;      // SECCOMP_RET_ERRNO | EPERM
const USERFAULTFD = 323;        // on x86-64, as is ioctl
const IOCTL = 16;
const USERFAULTFD_IOC_NEW = 0xaa00;

// In struct seccomp_data (seccomp(2)): the call's number, the low half of its second argument.
const NUMBER = 0;
const SECOND_ARGUMENT = 24;

$program = [
    [LOAD_WORD, 0, 0, NUMBER],
    [JUMP_UNLESS_EQUAL, 0, 1, USERFAULTFD],
    [RETURN_VALUE, 0, 0, REFUSE],
];
if ($argv[1] === 'call,device') {
    array_push(
        $program,
        [JUMP_UNLESS_EQUAL, 0, 3, IOCTL],
        [LOAD_WORD, 0, 0, SECOND_ARGUMENT],
        [JUMP_UNLESS_EQUAL, 0, 1, USERFAULTFD_IOC_NEW],
        [RETURN_VALUE, 0, 0, REFUSE],
    );
}
$program[] = [RETURN_VALUE, 0, 0, ALLOW];

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
pcntl_exec($argv[2], array_slice($argv, 3), getenv());
