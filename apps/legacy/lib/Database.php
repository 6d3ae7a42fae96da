<?php

/** The articles; one connection for all. */
class Database
{
    private static $instance;
    private $pdo;
    private $cache = [];
    public $hits = 0;

    private function __construct()
    {
        $this->pdo = new PDO('sqlite::memory:');
        $this->pdo->exec('create table articles (id integer primary key, title text, hits integer default 0)');
        for ($i = 1; $i <= 20; $i++) {
            $this->pdo->exec("insert into articles (id, title) values ($i, 'Article number $i')");
        }
    }

    public static function getInstance()
    {
        return self::$instance ??= new self();
    }

    public function article($id)
    {
        $GLOBALS['cms_queries']++;
        if (isset($this->cache[$id])) {
            $this->hits++;
        }
        // "Read" counts up in the database of the process.
        $this->pdo->exec('update articles set hits = hits + 1 where id = ' . (int) $id);

        return $this->cache[$id] ??= $this->pdo->query('select * from articles where id = ' . (int) $id)->fetch();
    }

    public function __destruct()
    {
        $this->pdo->exec('delete from articles');
    }
}
