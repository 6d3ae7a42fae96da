<?php

/*
 * Objects that outlive their request, and objects of the boot that are changed.
 */

declare(strict_types=1);

namespace Nasty;

return [
    'destructor that speaks' => static function (): void {
        $GLOBALS['speaker'] = new class {
            public function __destruct()
            {
                echo ' destroyed';
            }
        };
        echo 'said';
    },
    'destructor that resurrects' => static function (): void {
        echo count(Heir::$shared);
        new class {
            public function __destruct()
            {
                Heir::$shared[] = $this;
            }
        };
    },
    'destructor that makes objects' => static function (): void {
        $GLOBALS['maker'] = new class {
            public function __destruct()
            {
                if (count(Heir::$shared) < 30) {
                    Heir::$shared[] = clone $this;
                }
            }
        };
    },
    'destructor that throws' => static function (): void {
        $GLOBALS['thrower'] = new class {
            public function __destruct()
            {
                throw new \RuntimeException('destroyed');
            }
        };
        echo 'said';
    },
    'cycles not collected' => static function (): void {
        for ($i = 0; $i < 200; ++$i) {
            $a = new class {
                public ?object $other = null;

                public function __destruct()
                {
                    ++Heir::$typed;
                }
            };
            $a->other = $a;
        }
        echo Heir::$typed;
    },
    'generator with finally' => static function (): void {
        $GLOBALS['generator'] = (static function (): \Generator {
            try {
                yield 1;
            } finally {
                echo ' finally ', ++Heir::$typed;
            }
        })();
        echo $GLOBALS['generator']->current();
    },
    'fiber suspended' => static function (): void {
        $GLOBALS['fiber'] = new \Fiber(static function (): void {
            try {
                \Fiber::suspend(1);
            } finally {
                echo ' unwound';
            }
        });
        echo $GLOBALS['fiber']->start();
    },
    'many fibers' => static function (): void {
        for ($i = 0; $i < 20; ++$i) {
            Heir::$shared[] = $fiber = new \Fiber(static fn () => \Fiber::suspend());
            $fiber->start();
        }
        echo count(Heir::$shared);
    },
    'weak map' => static function (): void {
        $map = Booted::get()->weak;
        $map[Booted::get()->kernel] = 'left';
        $map[$GLOBALS['key'] = new \stdClass()] = 'left';
        echo count($map);
    },
    'weak reference' => static function (): void {
        $GLOBALS['weak'] = \WeakReference::create(Booted::get()->kernel);
        Heir::$anything = \WeakReference::create(new \stdClass());
        echo var_export(Heir::$anything->get(), true);
    },
    'object storage' => static function (): void {
        Booted::get()->storage->attach(new \stdClass(), 'left');
        Booted::get()->storage[Booted::get()->kernel] = 'left';
        echo count(Booted::get()->storage);
    },
    'kernel' => static function (): void {
        $kernel = Booted::get()->kernel;
        echo $kernel->user ?? 'nobody', ++$kernel->served;
        $kernel->user = 'alice';
        $kernel->listeners[] = static fn () => $kernel;
        $kernel->leftProperty = new \stdClass();
    },
    'kernel replaced' => static function (): void {
        $booted = Booted::get();
        echo $booted->kernel === $booted->container['kernel'] ? 'same' : 'other';
        $booted->kernel = new Kernel();
    },
    'container' => static function (): void {
        $container = &Booted::get()->container;
        $container['lazy'] ??= new class {
            public int $count = 0;
        };
        $container['settings']['debug'] = true;
        echo ++$container['lazy']->count;
    },
    'read-only object' => static function (): void {
        $clone = clone Booted::get()->frozen;
        $clone->inside['user'] = 'alice';
        echo count(Booted::get()->frozen->inside), $clone->number;
    },
    'list' => static function (): void {
        Booted::get()->list[] = 'left';
        Booted::get()->list->left = 'property';
        echo count(Booted::get()->list);
    },
    'iterator half-way' => static function (): void {
        foreach (Booted::get()->iterator as $value) {
            if ($value === 3) {
                break;
            }
        }
        Booted::get()->iterator[] = 5;
        echo Booted::get()->iterator->key();
    },
    'heap broken' => static function (): void {
        $heap = Booted::get()->heap;
        $heap->insert(-1);
        Booted::get()->fixed->setSize(10);
        echo count($heap), count(Booted::get()->fixed);
    },
    'generator of the boot' => static function (): void {
        $generator = Booted::get()->generator;
        $generator->next();
        echo $generator->current();
    },
    'generator of the boot killed' => static function (): void {
        try {
            Booted::get()->generator->throw(new \RuntimeException('over'));
        } catch (\RuntimeException $e) {
            echo $e->getMessage();
        }
    },
    'fiber of the boot' => static function (): void {
        echo Booted::get()->fiber->resume(), Booted::get()->fiber->resume();
    },
    'fiber of the boot ended' => static function (): void {
        try {
            Booted::get()->fiber->throw(new \RuntimeException('over'));
        } catch (\RuntimeException $e) {
            echo $e->getMessage(), var_export(Booted::get()->fiber->isTerminated(), true);
        }
    },
    'date' => static function (): void {
        echo Booted::get()->date->modify('+1 day')->setTimezone(new \DateTimeZone('Asia/Tokyo'))->format('c');
    },
    'document' => static function (): void {
        $document = Booted::get()->document;
        $document->documentElement->appendChild($document->createElement('left', 'alice'));
        $document->documentElement->removeChild($document->documentElement->firstChild);
        Heir::$anything = $document->documentElement->firstChild;
        echo $document->documentElement->childNodes->length;
    },
    'hash' => static function (): void {
        hash_update(Booted::get()->hash, 'left');
        echo hash_final(hash_copy(Booted::get()->hash));
    },
    'hash ended' => static function (): void {
        echo hash_final(Booted::get()->hash);
    },
    'database' => static function (): void {
        $database = Booted::get()->database;
        $database->exec("insert into visits values ('alice')");
        $database->setAttribute(\PDO::ATTR_ERRMODE, \PDO::ERRMODE_SILENT);
        echo $database->query('select count(*) from visits')->fetchColumn();
    },
    'database in a transaction' => static function (): void {
        $database = Booted::get()->database;
        $database->beginTransaction();
        $database->exec("delete from visits; create table left_table (x)");
        Heir::$anything = $database->query('select * from visits');
        echo var_export($database->inTransaction(), true);
    },
    'database with a function' => static function (): void {
        $database = Booted::get()->database;
        $database->sqliteCreateFunction('left_function', static fn (): int => ++Heir::$typed);
        echo $database->query('select left_function()')->fetchColumn();
    },
    'long list' => static function (): void {
        $node = null;
        for ($i = 0; $i < 20000; ++$i) {
            $next = new \stdClass();
            $next->next = $node;
            $node = $next;
        }
        Heir::$anything = $node;
        echo $i;
    },
    'numbers of objects' => static function (): void {
        $before = spl_object_id(new \stdClass());
        for ($i = 0; $i < 300; ++$i) {
            Heir::$shared[] = new \stdClass();
        }
        echo spl_object_id(new \stdClass()) - $before;
    },
    'exception with its trace' => static function (): void {
        $make = static fn (array $big): \Throwable => new \RuntimeException('kept', 0, Heir::$anything);
        Heir::$anything = $make(range(1, 1000));
        echo Heir::$anything->getPrevious() === null ? 'first' : 'left';
    },
];
