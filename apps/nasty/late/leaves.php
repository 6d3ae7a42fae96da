<?php

declare(strict_types=1);

function declaredAndLeft(): void
{
}

$GLOBALS['leftByInclude'] = true;

exit('left by a file');
