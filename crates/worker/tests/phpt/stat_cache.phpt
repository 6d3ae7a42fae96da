--TEST--
The cache of file states starts empty
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    $file = __DIR__ . '/stat_cache.tmp';
    static $shell = null;
    static $pipes = [];
    if ($shell === null) {
        file_put_contents($file, 'a');
        // Another process writes, at a word of this one through sockets: writing to a file or a pipe may clear the cache.
        $write = ['sh', '-c', 'read go; printf abc > "$0"; echo done', $file];
        $shell = proc_open($write, [['socket'], ['socket']], $pipes);
        clearstatcache();
        filesize($file);
        fwrite($pipes[0], "go\n");
        fgets($pipes[1]);
        echo filesize($file), "\n";
    } else {
        echo filesize($file), "\n";
        unlink($file);
        proc_close($shell);
    }
});
--EXPECT--
1
3
