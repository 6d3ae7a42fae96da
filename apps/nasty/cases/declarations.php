<?php

/*
 * What can be declared while a request runs. Twice in one process is a fatal error: then the answer is a wrong one.
 */

declare(strict_types=1);

namespace Nasty;

return [
    'function' => static function (): void {
        eval('function left_function() { static $n = 0; return ++$n; }');
        echo \left_function();
    },
    'function in front of one of PHP' => static function (): void {
        eval('namespace Nasty; function strrev(string $s): string { return "left"; }');
        echo strrev('abc');
    },
    'function in front of one that was called' => static function (): void {
        echo lcfirst('Called'), ' ';
        if (!function_exists('Nasty\lcfirst')) {
            eval('namespace Nasty; function lcfirst(string $s): string { return "left"; }');
        }
    },
    'class' => static function (): void {
        eval('class LeftClass { public static int $n = 0; const WHO = "alice"; }');
        echo ++\LeftClass::$n;
    },
    'class below one of the boot' => static function (): void {
        eval('class LeftHeir extends \Nasty\Ancestor { public static int $own = 0; }');
        \LeftHeir::$shared[] = 'left';
        echo \LeftHeir::countInherited(), count(Ancestor::$shared);
    },
    'class that depends on the request' => static function (): void {
        if (count(Heir::$shared) % 2 === 0) {
            eval('class Depends { const VALUE = "even"; }');
        } else {
            eval('class Depends { const VALUE = "odd"; }');
        }
        Heir::$shared[] = 'left';
        echo \Depends::VALUE;
    },
    'interface, trait and enum' => static function (): void {
        eval('interface LeftInterface {} trait LeftTrait { public static $t = 0; } enum LeftEnum { case A; }');
        eval('final class LeftUser implements LeftInterface { use LeftTrait; }');
        echo ++\LeftUser::$t, \LeftEnum::A->name;
    },
    'alias' => static function (): void {
        echo var_export(class_alias(Heir::class, 'LeftAlias'), true);
    },
    'anonymous class' => static function (): void {
        $object = new class extends Ancestor {
            public static int $count = 0;
        };
        echo ++$object::$count;
    },
    'constant' => static function (): void {
        echo var_export(define('LEFT_CONSTANT', 'alice'), true), \LEFT_CONSTANT;
    },
    'constant in a namespace' => static function (): void {
        eval('namespace Nasty; const LEFT_INSIDE = [1, 2];');
        echo count(constant('Nasty\LEFT_INSIDE'));
    },
    'constant that depends on the request' => static function (): void {
        defined('LEFT_TENANT') || define('LEFT_TENANT', $GLOBALS['bootedNumber']++);
        echo constant('LEFT_TENANT');
    },
    'include once' => static function (): void {
        echo var_export(require_once Booted::get()->folder . '/late/declares.php', true);
        new Late\DeclaredLate();
        echo Late\DeclaredLate::$made;
    },
    'include of a generated file' => static function (): void {
        $file = sys_get_temp_dir() . '/nasty-' . getmypid() . '.php';
        file_put_contents($file, '<?php function generated() { return "generated"; } return ' . random_int(0, 9) . ';');
        require $file;
        unlink($file);
        echo \generated(), count(array_filter(get_included_files(), static fn ($name) => $name === $file));
    },
    'autoloader' => static function (): void {
        spl_autoload_register(static function (string $class): void {
            echo "[$class]";
        });
        echo count(spl_autoload_functions()), var_export(class_exists('Nobody' . 'Here'), true);
    },
    'autoloader in front that throws' => static function (): void {
        spl_autoload_register(static fn (string $class) => throw new \LogicException($class), true, true);
        try {
            class_exists('Nasty\Nobody');
        } catch (\LogicException $e) {
            echo $e->getMessage();
        }
    },
    'autoloader that declares' => static function (): void {
        spl_autoload_register(static function (string $class): void {
            eval("class $class { public static int \$n = 0; }");
        });
        echo ++\LoadedLate::$n;
    },
    'autoload extensions' => static function (): void {
        echo spl_autoload_extensions();
        spl_autoload_extensions('.left');
    },
    'callback of unserialize' => static function (): void {
        ini_set('unserialize_callback_func', 'Nasty\countInFunction');
        echo get_class(@unserialize('O:7:"Missing":0:{}'));
    },
    'failed declaration' => static function (): void {
        try {
            eval('class Broken extends NotThere {}');
        } catch (\Error $e) {
            echo $e->getMessage();
        }
    },
];
