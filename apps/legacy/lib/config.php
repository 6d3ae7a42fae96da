<?php

/*
 * The site's configuration: read once, by the host of the first who asks.
 */

$host = $_SERVER['HTTP_HOST'];
$sites = [
    'one.test' => ['Site One', 'plain', 'Europe/Berlin', 'C', 2],
    'two.test' => ['Site Two', 'fancy', 'Asia/Tokyo', 'C.UTF-8', 3],
    'three.test' => ['Site Three', 'night', 'America/New_York', 'C', 5],
];
$names = ['title', 'theme', 'zone', 'locale', 'per_page'];
$GLOBALS['cfg'] = array_combine($names, $sites[$host] ?? $sites['one.test']);

define('CMS_TITLE', $GLOBALS['cfg']['title']);
define('CMS_PER_PAGE', $GLOBALS['cfg']['per_page']);
date_default_timezone_set($GLOBALS['cfg']['zone']);
setlocale(LC_ALL, $GLOBALS['cfg']['locale']);
ini_set('precision', (string) (CMS_PER_PAGE + 3));
mb_internal_encoding(CMS_PER_PAGE === 3 ? 'EUC-JP' : 'UTF-8');
putenv('CMS_SITE=' . CMS_TITLE);
