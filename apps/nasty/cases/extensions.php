<?php

/*
 * Extensions with a memory of their own. A case without its extension answers nothing, everywhere.
 */

declare(strict_types=1);

namespace Nasty;

return [
    'curl handles' => static function (): void {
        if (function_exists('curl_init')) {
            $handle = curl_init('http://127.0.0.1:1/');
            curl_setopt($handle, CURLOPT_RETURNTRANSFER, true);
            $share = curl_share_init();
            curl_share_setopt($share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE);
            curl_setopt($handle, CURLOPT_SHARE, $share);
            curl_setopt($handle, CURLOPT_COOKIELIST, 'Set-Cookie: left=alice; domain=127.0.0.1');
            Heir::$anything = [$handle, $share, $multi = curl_multi_init()];
            curl_multi_add_handle($multi, $handle);
            echo count(curl_getinfo($handle, CURLINFO_COOKIELIST));
        }
    },
    'curl refused' => static function (): void {
        if (function_exists('curl_init')) {
            $handle = curl_init('http://127.0.0.1:1/');
            curl_setopt($handle, CURLOPT_RETURNTRANSFER, true);
            curl_exec($handle);
            echo curl_errno($handle);
        }
    },
    'persistent database' => static function (): void {
        $database = new \PDO('sqlite::memory:', null, null, [\PDO::ATTR_PERSISTENT => true]);
        $database->exec('create table if not exists left_table (x); insert into left_table values (1)');
        echo $database->query('select count(*) from left_table')->fetchColumn();
    },
    'database in a file' => static function (): void {
        $file = sys_get_temp_dir() . '/nasty-' . getmypid() . '.sqlite';
        $GLOBALS['pdo'] = new \PDO("sqlite:$file");
        $GLOBALS['pdo']->exec('create table t (x); begin; insert into t values (1)');
        $GLOBALS['statement'] = $GLOBALS['pdo']->query('select * from t');
        echo $GLOBALS['statement']->fetchColumn();
        unlink($file);
        @unlink("$file-journal");
    },
    'database of the other extension' => static function (): void {
        if (class_exists('SQLite3')) {
            $GLOBALS['sqlite'] = new \SQLite3(':memory:');
            $GLOBALS['sqlite']->exec('create table t (x); insert into t values (5)');
            $GLOBALS['rows'] = $GLOBALS['sqlite']->query('select x from t');
            echo $GLOBALS['rows']->fetchArray()[0];
        }
    },
    'errors of openssl' => static function (): void {
        echo var_export(openssl_error_string(), true);
        @openssl_pkey_get_private('no key');
    },
    'keys of openssl' => static function (): void {
        Heir::$anything = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']);
        echo openssl_pkey_get_details(Heir::$anything)['bits'];
    },
    'sodium' => static function (): void {
        if (function_exists('sodium_crypto_box_keypair')) {
            Heir::$anything = sodium_crypto_secretstream_xchacha20poly1305_init_push(
                sodium_crypto_secretstream_xchacha20poly1305_keygen(),
            );
            echo count(Heir::$anything);
        }
    },
    'shared memory' => static function (): void {
        if (function_exists('shmop_open')) {
            $id = shmop_open(0x4e000000 | (getmypid() & 0xffffff), 'c', 0600, 100);
            shmop_write($id, 'left', 0);
            shmop_delete($id);
            Heir::$anything = $id;
            echo shmop_read($id, 0, 4);
        }
    },
    'shared variables' => static function (): void {
        if (function_exists('shm_attach')) {
            $id = shm_attach(0x4f000000 | (getmypid() & 0xffffff), 1000);
            shm_put_var($id, 1, 'left');
            echo shm_get_var($id, 1);
            shm_remove($id);
            Heir::$anything = $id;
        }
    },
    'semaphore' => static function (): void {
        if (function_exists('sem_get')) {
            $id = sem_get(0x50000000 | (getmypid() & 0xffffff));
            echo var_export(sem_acquire($id, true), true);
            sem_remove($id);
        }
    },
    'session' => static function (): void {
        session_id('nasty' . getmypid());
        session_start();
        $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
        echo $_SESSION['visits'];
        header_remove('Set-Cookie');
        session_destroy();
    },
    'session left open' => static function (): void {
        session_id('nastyopen' . getmypid());
        session_start(['use_cookies' => false]);
        echo count($_SESSION);
        $_SESSION['user'] = new Heir();
        register_shutdown_function(static fn () => session_destroy());
    },
    'session with a handler of the user' => static function (): void {
        session_set_save_handler(
            static fn (): bool => true,
            static fn (): bool => true,
            static fn (): string => 'user|s:5:"alice";',
            static fn (string $id, string $data): bool => (bool) print(" written $data"),
            static fn (): bool => true,
            static fn (): int => 0,
        );
        session_id('nastyuser');
        session_start(['use_cookies' => false, 'name' => 'LEFT']);
        echo $_SESSION['user'];
    },
    'session name and cookie' => static function (): void {
        session_name('LEFT');
        session_set_cookie_params(['lifetime' => 5, 'path' => '/left', 'httponly' => true]);
        session_save_path('/left');
        session_id('left');
        echo session_status();
    },
    'XML parser' => static function (): void {
        $parser = xml_parser_create();
        xml_set_character_data_handler($parser, static fn () => null);
        xml_parse($parser, '<open>');
        Heir::$anything = $parser;
        echo xml_get_current_line_number($parser);
    },
    'XML reader' => static function (): void {
        Heir::$anything = new \XMLReader();
        Heir::$anything->XML('<a><b/><c/></a>');
        Heir::$anything->read();
        Heir::$anything->read();
        echo Heir::$anything->name;
    },
    'style sheet' => static function (): void {
        if (class_exists('XSLTProcessor')) {
            $style = new \DOMDocument();
            $style->loadXML(<<<'XSL'
                <xsl:stylesheet version="1.0"
                    xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:php="http://php.net/xsl">
                    <xsl:template match="/"><xsl:value-of select="php:function('strrev', 'tfel')"/></xsl:template>
                </xsl:stylesheet>
                XSL);
            $processor = new \XSLTProcessor();
            $processor->importStylesheet($style);
            $processor->registerPHPFunctions();
            Heir::$anything = $processor;
            echo $processor->transformToXml(Booted::get()->document);
        }
    },
    'expressions' => static function (): void {
        for ($i = 0; $i < 50; ++$i) {
            preg_match("/left$i(a+)+b/u", "left{$i}aab");
        }
        echo var_export(@preg_match('/(?:\D+|<\d+>)*[!?]/', str_repeat('foobar ', 20)), true), preg_last_error();
    },
    'json' => static function (): void {
        echo var_export(json_decode('{broken'), true), json_last_error();
    },
    'date errors' => static function (): void {
        echo var_export(date_create('no date at all'), true), date_get_last_errors()['error_count'];
    },
    'time zones' => static function (): void {
        foreach (['Europe/Berlin', 'America/New_York', 'Asia/Tokyo', 'Africa/Cairo'] as $zone) {
            echo (new \DateTimeImmutable('2026-07-01 12:00', new \DateTimeZone($zone)))->format('P ');
        }
    },
    'picture' => static function (): void {
        if (function_exists('imagecreatetruecolor')) {
            Heir::$anything = imagecreatetruecolor(100, 100);
            imagefill(Heir::$anything, 0, 0, 255);
            echo imagecolorat(Heir::$anything, 5, 5);
        }
    },
    'collation' => static function (): void {
        if (class_exists('Collator')) {
            $format = new \NumberFormatter('de_DE', \NumberFormatter::CURRENCY);
            Heir::$anything = [new \Collator('sv_SE'), $format, \IntlCalendar::createInstance()];
            echo Heir::$anything[0]->compare('z', 'ö'), Heir::$anything[1]->formatCurrency(1.5, 'EUR');
        }
    },
    'zip' => static function (): void {
        if (class_exists('ZipArchive')) {
            $zip = new \ZipArchive();
            $zip->open(sys_get_temp_dir() . '/nasty-' . getmypid() . '.zip', \ZipArchive::CREATE);
            $zip->addFromString('left', 'left');
            echo $zip->count();
            $zip->unchangeAll();
            Heir::$anything = $zip;
        }
    },
    'phar functions' => static function (): void {
        if (class_exists('Phar')) {
            \Phar::interceptFileFuncs();
            \Phar::mungServer(['REQUEST_URI']);
            echo var_export(file_exists('/nowhere'), true);
        }
    },
    'file information' => static function (): void {
        if (class_exists('finfo')) {
            Heir::$anything = new \finfo(FILEINFO_MIME_TYPE);
            echo Heir::$anything->buffer('%PDF-1.4');
        }
    },
    'compression half-way' => static function (): void {
        Heir::$anything = deflate_init(ZLIB_ENCODING_GZIP);
        echo strlen(deflate_add(Heir::$anything, 'left', ZLIB_NO_FLUSH));
    },
    'class of C' => static function (): void {
        if (class_exists('FFI')) {
            Heir::$anything = \FFI::new('struct { int a; char b[100]; }', false);
            Heir::$anything->a = 5;
            echo \FFI::sizeof(Heir::$anything);
        }
    },
    'compiled scripts' => static function (): void {
        if (function_exists('opcache_invalidate')) {
            opcache_invalidate(Booted::get()->folder . '/late/leaves.php', true);
            opcache_is_script_cached(Booted::get()->folder . '/late/leaves.php');
        }
        echo 'invalid';
    },
    'hot loop' => static function (): void {
        for ($i = $sum = 0; $i < 20000; ++$i) {
            $sum = ($sum * 31 + $i) % 1000003;
        }
        echo $sum;
    },
];
