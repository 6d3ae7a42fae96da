<?php

/*
 * The same moment in the site's zone, and its text in the site's encoding.
 */

echo date('Y-m-d H:i T', 1_780_000_000), ' ', mb_strlen('äöü'), ' ', setlocale(LC_CTYPE, '0'), "\n";
