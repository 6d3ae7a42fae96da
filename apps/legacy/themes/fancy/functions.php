<?php

/*
 * The theme "fancy". Each theme declares the same functions.
 */

const THEME = 'fancy';

function theme_header($title)
{
    header('X-Theme: ' . THEME);
    echo "<html class=\"fancy\"><title>", CMS_TITLE, " - $title</title><body>\n";
    echo '<p id="', next_id(), '">', t('hello'), ', ', current_user()->name ?: t('guest'), "!</p>\n";
}

function theme_footer()
{
    global $cms_footers;
    $cms_footers++;
    echo '<p id="', next_id(), "\">fancy $cms_footers</p></body></html>\n";
}
