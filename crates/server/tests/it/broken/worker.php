<?php

declare(strict_types=1);

// An application that does not boot.
throw new LogicException('the database is on holiday');
