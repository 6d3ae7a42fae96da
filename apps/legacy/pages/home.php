<?php

/*
 * The first articles.
 */

for ($i = 1; $i <= CMS_PER_PAGE; $i++) {
    $article = Database::getInstance()->article($i);
    echo '<h2 id="', next_id(), '">', $article['title'], '</h2>', $article['hits'], "\n";
}
