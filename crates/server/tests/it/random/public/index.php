<?php

declare(strict_types=1);

$query = $_GET;
require __DIR__ . '/../draw.php';

$_GET = $query;
draw();
