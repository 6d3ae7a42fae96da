--TEST--
A save handler set while booting serves every request
--INI--
session.use_cookies=0
session.cache_limiter=
output_buffering=4096
--ARGS--
--resident --request 'GET /?id=a' --request 'GET /?id=b' --request 'GET /?id=a'
--FILE--
<?php
require __DIR__ . '/worker.inc';

class Memory implements SessionHandlerInterface
{
    public array $data = [];
    public function open($path, $name): bool { return true; }
    public function close(): bool { return true; }
    public function read($id): string|false { return $this->data[$id] ?? ''; }
    public function write($id, $data): bool { $this->data[$id] = $data; return true; }
    public function destroy($id): bool { unset($this->data[$id]); return true; }
    public function gc($life): int|false { return 0; }
}
session_set_save_handler(new Memory(), false);
serve(function () {
    session_id($_GET['id']);
    session_start();
    $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
    echo $_SESSION['n'], "\n";
});
--EXPECT--
1
1
2
