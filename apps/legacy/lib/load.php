<?php

/*
 * The library. Loaded once a process, or so its authors thought.
 */

require_once __DIR__ . '/Registry.php';
require_once __DIR__ . '/Database.php';
require_once __DIR__ . '/Visitor.php';
require_once __DIR__ . '/functions.php';
require_once __DIR__ . '/hooks.php';

$GLOBALS['cms_started'] = ($GLOBALS['cms_started'] ?? 0) + 1;
$GLOBALS['cms_queries'] = 0;
