<?php

/*
 * Globals and superglobals.
 */

declare(strict_types=1);

namespace Nasty;

return [
    'new variable' => static function (): void {
        echo isset($GLOBALS['user']) ? 'left' : 'none';
        $GLOBALS['user'] = 'alice';
    },
    'variable of the boot' => static function (): void {
        echo ++$GLOBALS['bootedNumber'];
    },
    'array of the boot' => static function (): void {
        $GLOBALS['bootedArray']['nested']['two'] *= 2;
        $GLOBALS['bootedArray'][] = 'left';
        echo json_encode($GLOBALS['bootedArray']);
    },
    'unset of the boot' => static function (): void {
        echo isset($GLOBALS['bootedArray']) ? 'there' : 'gone';
        unset($GLOBALS['bootedArray'], $GLOBALS['bootedNumber']);
    },
    'reference' => static function (): void {
        global $bootedNumber, $fresh;
        $fresh = &$bootedNumber;
        $fresh += 5;
        echo $bootedNumber;
    },
    'reference into an array of the boot' => static function (): void {
        $inside = &$GLOBALS['bootedArray']['nested']['two'];
        $GLOBALS['kept'] = &$inside;
        $copy = $GLOBALS['bootedArray'];
        $inside += 1;
        echo $copy['nested']['two'];
    },
    'many variables' => static function (): void {
        $left = 0;
        for ($i = 0; $i < 500; ++$i) {
            $left += isset($GLOBALS["many$i"]) ? 1 : 0;
            $GLOBALS["many$i"] = str_repeat('x', $i);
        }
        echo $left;
    },
    'server' => static function (): void {
        echo $_SERVER['USER_LEFT'] ?? 'none', $_SERVER['REQUEST_METHOD'];
        $_SERVER['USER_LEFT'] = 'alice';
        $_SERVER['REQUEST_METHOD'] = 'LEFT';
        unset($_SERVER['DOCUMENT_ROOT'], $_SERVER['argv']);
    },
    'env' => static function (): void {
        echo $_ENV['USER_LEFT'] ?? 'none';
        $_ENV['USER_LEFT'] = 'alice';
        unset($_ENV['PATH']);
    },
    'input' => static function (): void {
        echo json_encode([$_COOKIE, $_POST, $_FILES, isset($_REQUEST['left'])]);
        $_COOKIE = ['left' => 'cookie'];
        $_POST['left'] = $_GET['left'] = $_REQUEST['left'] = 'left';
        $_FILES['left'] = ['tmp_name' => '/etc/passwd'];
    },
    'session array without a session' => static function (): void {
        echo isset($_SESSION) ? 'left' : 'none';
        $_SESSION = ['user' => 'alice'];
    },
    'object' => static function (): void {
        echo isset($GLOBALS['keeper']) ? 'left' : 'none';
        $GLOBALS['keeper'] = new class {
            public function __destruct()
            {
                $GLOBALS['keeper'] = $this;
            }
        };
    },
];
