<?php

/*
 * Says who you are, and leaves.
 */

set_exception_handler(function ($e) {
    echo 'Sorry, ', $e->getMessage();
    exit;
});
if (current_user()->name === '') {
    throw new Exception('log in first');
}
if (!current_user()->may('read')) {
    trigger_error('banned', E_USER_WARNING);
    http_response_code(403);
    die('Go away, ' . current_user()->name);
}
echo '<p>Welcome', isset($cms_is_admin) ? ', administrator' : '', "</p>\n";
