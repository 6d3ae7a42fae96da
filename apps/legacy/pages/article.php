<?php

/*
 * One article. A plugin changes titles for whoever asks for it.
 */

$id = (int) ($_GET['id'] ?? 0);
if ($id < 1 || $id > 20) {
    cms_not_found();
}
if (isset($_GET['loud'])) {
    add_hook('title', 'strtoupper');
}
$article = Database::getInstance()->article($id);
echo '<h1 id="', next_id(), '">', run_hooks('title', $article['title']), '</h1>', $article['hits'];
echo ' ', Database::getInstance()->hits, ' ', 1 / 3, "\n";
