<?php

/*
 * Settings of PHP, of its extensions and of the C library.
 */

declare(strict_types=1);

namespace Nasty;

return [
    'ini' => static function (): void {
        $settings = ['precision' => '4', 'serialize_precision' => '3', 'default_charset' => 'ISO-8859-1'];
        foreach ([...$settings, 'arg_separator.output' => ';'] as $name => $value) {
            echo ini_set($name, $value), ' ';
        }
        echo 1 / 3;
    },
    'ini of the session' => static function (): void {
        echo ini_set('session.name', 'LEFT'), session_name(), ini_set('session.gc_maxlifetime', '5');
        echo session_cache_limiter('public');
    },
    'ini of memory' => static function (): void {
        echo ini_set('memory_limit', '200M'), ini_set('pcre.backtrack_limit', '10'), ini_set('pcre.jit', '0');
    },
    'ini of output' => static function (): void {
        echo ini_set('default_mimetype', 'left/left'), ini_set('implicit_flush', '1'), ini_set('html_errors', '1');
    },
    'ini of errors' => static function (): void {
        echo ini_set('error_prepend_string', 'LEFT'), ini_set('display_errors', '1');
        echo ini_set('error_log', '/nowhere/left');
    },
    'ini restored' => static function (): void {
        ini_set('precision', '3');
        ini_restore('precision');
        echo ini_get('precision');
    },
    'error reporting' => static function (): void {
        echo error_reporting(0);
    },
    'silence left by an exception' => static function (): void {
        try {
            $value = @(static fn () => throw new \RuntimeException('out of silence'))();
        } catch (\RuntimeException) {
            echo error_reporting();
        }
    },
    'include path' => static function (): void {
        echo get_include_path();
        set_include_path('/left');
    },
    'time zone' => static function (): void {
        echo date_default_timezone_get(), date('T', 0);
        date_default_timezone_set('Asia/Tokyo');
    },
    'locale' => static function (): void {
        echo setlocale(LC_ALL, '0'), ' ', setlocale(LC_ALL, 'C.UTF-8', 'C.utf8'), ' ', setlocale(LC_NUMERIC, 'C.UTF-8');
    },
    'locale of messages' => static function (): void {
        echo setlocale(LC_MESSAGES, '0'), setlocale(LC_CTYPE, 'C.UTF-8'), strtoupper('ä') === 'Ä' ? 'upper' : 'same';
    },
    'mbstring' => static function (): void {
        echo mb_internal_encoding(), mb_substitute_character(), mb_language();
        mb_internal_encoding('EUC-JP');
        mb_substitute_character('long');
        mb_language('Japanese');
        mb_detect_order(['SJIS', 'UTF-8']);
        mb_http_output('SJIS');
    },
    'mbstring expressions' => static function (): void {
        if (function_exists('mb_regex_encoding')) {
            echo mb_regex_encoding(), mb_regex_set_options();
            mb_regex_encoding('EUC-JP');
            mb_regex_set_options('x');
            mb_ereg_search_init('left behind', 'b');
        }
    },
    'bcmath' => static function (): void {
        echo bcscale(7);
    },
    'iconv' => static function (): void {
        echo json_encode(iconv_get_encoding());
        @iconv_set_encoding('internal_encoding', 'ISO-8859-1');
    },
    'intl' => static function (): void {
        if (class_exists('Locale')) {
            echo \Locale::getDefault();
            \Locale::setDefault('ja_JP');
            ini_set('intl.error_level', '2');
            @\IntlDateFormatter::create('x', 99, 99);
            echo intl_get_error_code() === 0 ? '' : ' an error';
        }
    },
    'gettext' => static function (): void {
        if (function_exists('textdomain')) {
            echo textdomain(null), bindtextdomain('left', '/tmp') === false ? '' : ' bound';
            textdomain('left');
        }
    },
    'libxml' => static function (): void {
        echo var_export(libxml_use_internal_errors(true), true), count(libxml_get_errors());
        simplexml_load_string('<broken');
        libxml_set_streams_context(stream_context_create(['http' => ['header' => 'X-Left: yes']]));
        libxml_set_external_entity_loader(static fn () => null);
    },
    'collector' => static function (): void {
        echo var_export(gc_enabled(), true);
        gc_disable();
    },
    'assertions' => static function (): void {
        echo ini_set('zend.assertions', '0'), ini_set('assert.exception', '0');
    },
    'abort' => static function (): void {
        echo ignore_user_abort(true);
    },
    'time limit' => static function (): void {
        echo var_export(set_time_limit(3), true), ini_get('max_execution_time');
    },
    'random seeds' => static function (): void {
        mt_srand(1);
        $first = mt_rand();
        srand(1);
        echo $first === 895547922 ? 'seeded' : 'other', ' ', rand() > 0 ? 'drawn' : '';
    },
    'random seeds of the C library' => static function (): void {
        $c = CLibrary::load();
        $c?->srand(1);
        $c?->srandom(1);
        $c?->srand48(1);
        echo 'seeded';
    },
    'environment of the C library' => static function (): void {
        $c = CLibrary::load();
        echo var_export(getenv('BY_C_LEFT'), true);
        $c?->setenv('BY_C_LEFT', 'alice', 1);
        $c?->unsetenv('HOME');
    },
    'seeds of hashes' => static function (): void {
        // Collides in any order; only ever the same answer.
        $array = [];
        for ($i = 0; $i < 200; ++$i) {
            $array[$i * 65536] = $i;
        }
        echo count($array), md5(implode(',', array_keys(array_flip(['a', 'b', 'c']))));
    },
];
