<?php

/*
 * Counts in the session.
 */

session_name('CMS');
session_start();
$_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
$_SESSION['user'] ??= current_user();
echo '<p>visit ', $_SESSION['visits'], ' of ', $_SESSION['user']->name ?: t('guest'), "</p>\n";
