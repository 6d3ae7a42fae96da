<?php

/*
 * For those who may; the others are sent away.
 */

if (!current_user()->may('write')) {
    cms_redirect('/login?from=admin');
}
$cms_is_admin = true;
error_reporting(0);
echo "<p>Secret of the administrator</p>\n";
