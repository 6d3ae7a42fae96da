<?php

declare(ticks=1);

// A tick function that is still registered runs here, and what it prints is seen.
$tick = 1;
$tick = 2;
unset($tick);
