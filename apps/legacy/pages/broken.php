<?php

/*
 * A page with a bug that nobody ever mended.
 */

class Twig
{
    public static $broken = 0;
}

ini_set('memory_limit', '8M');
echo "<p>about to fail</p>\n";
Twig::$broken++;
switch ($_GET['how'] ?? '') {
    case 'memory':
        $all = range(1, 10_000_000);
        break;
    case 'type':
        echo strlen(Registry::get('nothing')->name);
        break;
    default:
        echo undefined_function();
}
