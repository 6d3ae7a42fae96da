<?php

/*
 * The front controller: /PAGE?lang=…&id=…, the site by the host, the user by a cookie or by the session.
 */

require_once __DIR__ . '/../lib/load.php';
require_once __DIR__ . '/../lib/config.php';

$page = trim(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), '/');
$page = $page === '' ? 'home' : $page;

if (isset($_GET['lang'])) {
    define('CMS_LANG', $_GET['lang']);
}
require_once __DIR__ . '/../lib/language.php';
require_once __DIR__ . '/../themes/' . $GLOBALS['cfg']['theme'] . '/functions.php';

Registry::set('page', $page);
Registry::set('user', current_user());
register_shutdown_function('cms_statistics');
ob_start('cms_filter');

$file = __DIR__ . '/../pages/' . basename($page) . '.php';
if (!is_file($file)) {
    cms_not_found();
}
theme_header(ucfirst($page));
include $file;
theme_footer();
