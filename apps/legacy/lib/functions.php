<?php

/*
 * What every page uses.
 */

function current_user()
{
    static $user = null;
    if ($user === null) {
        $user = Visitor::find();
    }

    return $user;
}

function next_id()
{
    static $id = 0;

    return 'id-' . ++$id;
}

function cms_redirect($to)
{
    header("Location: $to");
    die();
}

function cms_not_found()
{
    header('HTTP/1.0 404 Not Found');
    echo t('missing'), ': ', htmlspecialchars(Registry::get('page')), "\n";
    exit;
}

function cms_filter($text)
{
    static $calls = 0;
    $calls++;

    return str_replace('{calls}', (string) $calls, $text);
}

function cms_statistics()
{
    echo "\n<!-- ", CMS_TITLE, ': ', $GLOBALS['cms_queries'], ' queries, ', Registry::$reads, ' reads, ';
    echo count($GLOBALS['cms_hooks'] ?? []), ' hooks, ', Registry::names(), ', ', getenv('CMS_SITE'), ", {calls} -->\n";
}
