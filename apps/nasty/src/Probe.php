<?php

declare(strict_types=1);

namespace Nasty;

/**
 * Writes down everything that a request can observe, one line each: two requests that start from the same image give
 * the same text byte by byte. Left out is what differs by right: process ids, times, ports, numbers of sockets.
 */
final class Probe
{
    /** Variables that differ from request to request by right. */
    private const OF_THE_REQUEST = [
        'REMOTE_PORT', 'REQUEST_TIME', 'REQUEST_TIME_FLOAT', 'QUERY_STRING', 'REQUEST_URI', 'HEARTH_REQUEST_ID', 'argv',
    ];

    private string $text = '';
    private Describe $describe;

    /** `process`: "no" leaves out what only a worker that is put back as a whole has the same: memory, descriptors. */
    public function fingerprint(string $process): string
    {
        // First of all, before the probe itself needs memory.
        $memory = [memory_get_usage(), memory_get_usage(true), memory_get_peak_usage(), memory_get_peak_usage(true)];
        $this->describe = new Describe();
        $this->line('next object', spl_object_id(new \stdClass()));
        $this->output();
        $this->errors();
        $this->handlers();
        $this->settings();
        $this->texts();
        $this->variables($process === 'yes');
        $this->declarations();
        $this->statics();
        $this->streams();
        $this->extensions();
        $this->booted();
        if ($process === 'yes') {
            $this->line('memory', $memory);
            $this->line('realpath cache', realpath_cache_size());
            $this->line('collector', array_intersect_key(gc_status(), ['runs' => 0, 'collected' => 0, 'roots' => 0]));
        }
        $this->process($process);

        return $this->text;
    }

    private function line(string $name, mixed $value): void
    {
        $this->text .= $name . ' = ' . (is_string($value) ? $value : $this->describe->value($value)) . "\n";
    }

    /** @param iterable<mixed> $values */
    private function lines(string $name, iterable $values): void
    {
        foreach ($values as $key => $value) {
            $this->line("$name.$key", $value);
        }
    }

    private function output(): void
    {
        $this->lines('output', [
            'level' => ob_get_level(),
            'handlers' => ob_list_handlers(),
            'length' => ob_get_length(),
            'headers' => preg_replace('/^X-Worker: .*/', 'X-Worker', headers_list()),
            'sent' => headers_sent(),
            'status' => http_response_code(),
            'connection' => connection_status(),
            'abort' => ignore_user_abort(),
        ]);
        ob_start();
        self::ticking();
        $this->line('ticks', ob_get_clean());
    }

    private static function ticking(): void
    {
        require Booted::get()->folder . '/late/ticks.php';
    }

    private function errors(): void
    {
        $openssl = [];
        while (count($openssl) < 20 && ($error = openssl_error_string()) !== false) {
            $openssl[] = $error;
        }
        $this->lines('error', [
            'last' => error_get_last(),
            'json' => json_last_error(),
            'preg' => preg_last_error(),
            'posix' => posix_get_last_error(),
            'date' => date_get_last_errors(),
            'libxml' => libxml_get_errors(),
            'openssl' => $openssl,
            'socket' => function_exists('socket_last_error') ? socket_last_error() : null,
            'intl' => function_exists('intl_get_error_code') ? intl_get_error_code() : null,
        ]);
    }

    private function handlers(): void
    {
        $error = set_error_handler(null);
        restore_error_handler();
        $exception = set_exception_handler(null);
        restore_exception_handler();
        $this->lines('handler', [
            'error' => $error,
            'exception' => $exception,
            'autoload' => spl_autoload_functions(),
            'session' => session_module_name(),
            'unserialize' => ini_get('unserialize_callback_func'),
        ]);
    }

    private function settings(): void
    {
        $this->line('error_reporting', error_reporting());
        $this->line('include_path', get_include_path());
        $this->line('collector', gc_enabled());
        foreach (ini_get_all(null, true) as $name => $setting) {
            $this->line("ini.$name", "{$setting['global_value']} / {$setting['local_value']}");
        }
    }

    private function texts(): void
    {
        $this->lines('text', [
            'locale' => setlocale(LC_ALL, '0'),
            'localeconv' => localeconv(),
            'upper' => bin2hex(strtoupper("\xe4a")),
            'zone' => date_default_timezone_get(),
            'bcscale' => bcscale(),
            'iconv' => iconv_get_encoding(),
            'domain' => function_exists('textdomain') ? textdomain(null) : null,
            'intl' => class_exists('Locale', false) ? \Locale::getDefault() : null,
            'intl zone' => class_exists('IntlTimeZone', false) ? \IntlTimeZone::createDefault()->getID() : null,
            'float' => 0.1 + 0.2,
            'printed' => sprintf('%.1f', 1.5),
            'token' => @strtok(' '),
        ]);
        $this->lines('mb', [
            mb_internal_encoding(),
            mb_substitute_character(),
            mb_language(),
            mb_http_output(),
            mb_detect_order(),
            function_exists('mb_regex_encoding') ? mb_regex_encoding() . mb_regex_set_options() : null,
        ]);
    }

    private function variables(bool $whole): void
    {
        $own = array_flip(self::OF_THE_REQUEST);
        $this->lines('server', array_diff_key($_SERVER, $own));
        $environment = ['env' => array_diff_key($_ENV, $own), 'getenv' => array_diff_key(getenv(), $own)];
        foreach ($environment as $name => $variables) {
            // What PHP puts back at the end of a request, it puts behind the others.
            if (!$whole) {
                ksort($variables);
            }
            $this->lines($name, $variables);
        }
        $this->line('cookie', $_COOKIE);
        $this->line('files', $_FILES);
        $this->line('post', $_POST);
        $this->line('globals', array_keys($GLOBALS));
        $this->lines('global', array_diff_key($GLOBALS, array_flip(
            ['_SERVER', '_GET', '_REQUEST', '_ENV', '_COOKIE', '_FILES', '_POST'],
        )));
    }

    private function declarations(): void
    {
        $this->lines('declared', [
            'constants' => get_defined_constants(true)['user'] ?? [],
            'functions' => get_defined_functions()['user'],
            'internal' => count(get_defined_functions()['internal']),
            'included' => get_included_files(),
        ]);
        $names = [...get_declared_classes(), ...get_declared_interfaces(), ...get_declared_traits()];
        foreach ($names as $name) {
            $this->line("class $name", 'declared');
        }
        $this->line('order of classes', md5(implode(' ', $names)));
    }

    private function statics(): void
    {
        foreach ([...get_declared_classes(), ...get_declared_traits()] as $name) {
            $class = new \ReflectionClass($name);
            if ($class->isInternal() || $class->isAnonymous()) {
                continue;
            }
            if ($name !== Booted::class) {
                $this->lines("static $name", $class->getStaticProperties());
            }
            $this->lines("constant $name", $class->isEnum() ? [] : $class->getConstants());
            foreach ($class->getMethods() as $method) {
                $this->lines("static $name::$method->name", $method->getStaticVariables());
            }
        }
        foreach (get_defined_functions()['user'] as $name) {
            $this->lines("static $name()", (new \ReflectionFunction($name))->getStaticVariables());
        }
    }

    private function streams(): void
    {
        $this->lines('stream', [
            'wrappers' => stream_get_wrappers(),
            'filters' => stream_get_filters(),
            'transports' => stream_get_transports(),
            'context' => stream_context_get_options(stream_context_get_default()),
        ]);
        $this->lines('resource', array_map(get_resource_type(...), get_resources()));
        $this->line('next resource', get_resource_id(fopen('php://memory', 'r')));
        try {
            $this->line('folder', readdir() === false ? 'no entry' : 'an entry');
        } catch (\TypeError) {
            $this->line('folder', 'none');
        }
    }

    private function extensions(): void
    {
        $this->lines('session', [
            session_status(), session_id(), session_name(), session_save_path(), session_get_cookie_params(),
            session_cache_limiter(), session_cache_expire(), isset($_SESSION),
        ]);
        $this->lines('libxml', [
            libxml_use_internal_errors(),
            libxml_get_external_entity_loader(),
        ]);
        $this->line('locks', fopen(Booted::get()->folder . '/late/lines.txt', 'r'));
        $this->line('phar', [file_exists('lines.txt'), \Phar::running()]);
        $this->line('assert', ini_get('zend.assertions'));
    }

    private function booted(): void
    {
        $booted = Booted::get();
        $this->lines('booted', array_diff_key(get_object_vars($booted), ['cases' => 0]));
        $this->lines('booted', [
            'cases' => count($booted->cases),
            'statics of cases' => md5(serialize(array_map(
                fn (\Closure $case): string => $this->describe->value($case),
                $booted->cases,
            ))),
            'calls' => (new \ReflectionFunction($booted->counter))->getStaticVariables(),
            'generator' => $booted->generator->valid() ? $booted->generator->current() : 'over',
            'fiber' => [$booted->fiber->isSuspended(), $booted->fiber->isTerminated()],
            'position' => is_resource($booted->file) ? ftell($booted->file) : 'closed',
            'next line' => is_resource($booted->file) ? fgets($booted->file) : 'closed',
            'memory' => is_resource($booted->memory) ? stream_get_contents($booted->memory, null, 0) : 'closed',
            'rows' => $booted->database->query('select group_concat(who) from visits')->fetchColumn(),
            'transaction' => $booted->database->inTransaction(),
            'mode' => $booted->database->getAttribute(\PDO::ATTR_ERRMODE),
            'iterator' => [$booted->iterator->key(), $booted->iterator->getArrayCopy()],
            'list' => $booted->list->getArrayCopy(),
            'weak' => [count($booted->weak), $booted->weak[$booted->kernel]],
            'storage' => [count($booted->storage), $booted->storage[$booted->kernel]],
            'heap' => [count($booted->heap), $booted->heap->isCorrupted()],
            'date' => $booted->date->format('c'),
            'document' => $booted->document->saveXML(),
            'hash' => hash_final(hash_copy($booted->hash)),
        ]);
    }

    private function process(string $whole): void
    {
        $umask = umask(0);
        umask($umask);
        $this->line('process.umask', decoct($umask));
        $this->line('process.folder', (string) getcwd());
        if ($whole !== 'yes') {
            return;
        }
        foreach (file('/proc/self/status') as $line) {
            if (preg_match('/^(Umask|Threads|Sig(Blk|Ign|Cgt)|Shd?Pnd|CapEff|NoNewPrivs|Seccomp):/', $line)) {
                $this->line('process', trim($line));
            }
        }
        $stat = explode(' ', (string) strrchr((string) file_get_contents('/proc/self/stat'), ')'));
        // proc(5): process group, session, terminal, priority, niceness, threads.
        $this->line('process.stat', [$stat[5], $stat[16], $stat[17], $stat[18]]);
        $this->line('process.timers', (string) @file_get_contents('/proc/self/timers'));
        $this->line('process.alarm', CLibrary::load()?->alarm(0));
        $this->line('process.limits', (string) file_get_contents('/proc/self/limits'));
        $this->descriptors();
    }

    private function descriptors(): void
    {
        foreach (scandir('/proc/self/fd') as $number) {
            $target = @readlink("/proc/self/fd/$number");
            if ($target === false) {
                continue;
            }
            // Sockets and pipes have another number in each worker.
            $target = preg_replace(['/:\[\d+\]$/', '#^/proc/\d+/#'], ['', '/proc/self/'], $target);
            $info = (string) @file_get_contents("/proc/self/fdinfo/$number");
            $regular = str_starts_with($target, '/') && !str_starts_with($target, '/dev/');
            // Standard input is the same for all workers, as under php-fpm.
            preg_match_all('/^(pos|flags):\s+(\S+)/m', $regular ? $info : '', $found);
            $this->line("descriptor.$number", $target . ' ' . implode(' ', $found[2]));
        }
    }
}
