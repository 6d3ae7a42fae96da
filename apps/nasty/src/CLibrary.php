<?php

declare(strict_types=1);

namespace Nasty;

/** Functions of the C library that a server's PHP has no other name for. */
final class CLibrary
{
    private const FUNCTIONS = '
        void srand(unsigned seed);
        void srandom(unsigned seed);
        void srand48(long seed);
        int rand(void);
        long random(void);
        double drand48(void);
        int setenv(const char *name, const char *value, int overwrite);
        int unsetenv(const char *name);
        void *malloc(size_t size);
        void *memset(void *start, int byte, size_t count);
        void *signal(int number, void *handler);
        int sigemptyset(void *set);
        int sigaddset(void *set, int number);
        int sigprocmask(int how, const void *set, void *old);
        unsigned alarm(unsigned seconds);
        int fork(void);
        int open(const char *path, int flags);
    ';

    /** Null where FFI is not installed or not allowed. */
    public static function load(): ?\FFI
    {
        return class_exists('FFI') && ini_get('ffi.enable') === '1' ? \FFI::cdef(self::FUNCTIONS) : null;
    }
}
