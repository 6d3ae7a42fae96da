<?php

/*
 * The theme "night". Each theme declares the same functions.
 */

const THEME = 'night';

function theme_header($title)
{
    header('X-Theme: ' . THEME);
    echo "<html class=\"night\"><title>", CMS_TITLE, " - $title</title><body>\n";
    echo '<p id="', next_id(), '">', t('hello'), ', ', current_user()->name ?: t('guest'), "!</p>\n";
}

function theme_footer()
{
    global $cms_footers;
    $cms_footers++;
    echo '<p id="', next_id(), "\">night $cms_footers</p></body></html>\n";
}
