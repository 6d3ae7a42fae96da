<?php

/*
 * Texts. Whoever did not choose a language gets English.
 */

defined('CMS_LANG') || define('CMS_LANG', 'en');

$texts = [
    'en' => ['hello' => 'Hello', 'guest' => 'guest', 'more' => 'More', 'missing' => 'Not here'],
    'de' => ['hello' => 'Hallo', 'guest' => 'Gast', 'more' => 'Weiter', 'missing' => 'Nicht hier'],
    'fr' => ['hello' => 'Bonjour', 'guest' => 'invité', 'more' => 'Plus', 'missing' => 'Pas ici'],
];
foreach ($texts[CMS_LANG] ?? $texts['en'] as $name => $text) {
    define('TEXT_' . strtoupper($name), $text);
}

function t($name)
{
    static $known = [];

    return $known[$name] ??= constant('TEXT_' . strtoupper($name));
}
