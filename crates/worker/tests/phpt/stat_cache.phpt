--TEST--
The cache of file states starts empty
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    $file = __DIR__ . '/stat_cache.tmp';
    static $n = 0;
    if ($n++ === 0) {
        file_put_contents($file, 'a');
        clearstatcache();
        filesize($file);
        exec('printf abc > ' . escapeshellarg($file));
        echo filesize($file), "\n";
    } else {
        echo filesize($file), "\n";
        unlink($file);
    }
});
--EXPECT--
1
3
