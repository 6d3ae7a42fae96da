<?php

declare(strict_types=1);

namespace Nasty;

/** What is there before the first request. */
final class Booted
{
    private static ?self $instance = null;

    public Kernel $kernel;
    public Frozen $frozen;
    /** @var array<string, mixed> */
    public array $container;
    /** @var resource */
    public $file;
    /** @var resource */
    public $memory;
    public \PDO $database;
    public \Closure $counter;
    public \Generator $generator;
    public \Fiber $fiber;
    public \WeakMap $weak;
    public \SplObjectStorage $storage;
    public \ArrayObject $list;
    public \ArrayIterator $iterator;
    public \SplFixedArray $fixed;
    public \SplMinHeap $heap;
    public \DateTime $date;
    public \DOMDocument $document;
    public \HashContext $hash;
    /** @var array<string, \Closure> */
    public array $cases = [];

    private function __construct(public readonly string $folder)
    {
        $this->kernel = new Kernel();
        $this->frozen = new Frozen(new \ArrayObject(['booted' => true]));
        $this->container = ['kernel' => $this->kernel, 'lazy' => null, 'settings' => ['debug' => false]];
        $this->counter = static function (): int {
            static $count = 0;

            return ++$count;
        };
        $this->openFiles();
        $this->fillCollections();
        $this->date = new \DateTime('2026-01-02 03:04:05', new \DateTimeZone('UTC'));
        $this->document = new \DOMDocument();
        $this->document->loadXML('<root><booted/></root>');
        $this->hash = hash_init('sha256');
        hash_update($this->hash, 'booted');
    }

    public static function boot(string $folder): void
    {
        self::$instance = new self($folder);
        self::$instance->loadCases();
    }

    public static function get(): self
    {
        return self::$instance;
    }

    private function openFiles(): void
    {
        $this->file = fopen($this->folder . '/late/lines.txt', 'r');
        fgets($this->file);
        $this->memory = fopen('php://memory', 'w+');
        fwrite($this->memory, "booted\n");
        $this->database = new \PDO('sqlite::memory:');
        $this->database->exec("create table visits (who text); insert into visits values ('boot')");
    }

    private function fillCollections(): void
    {
        $this->generator = (static function (): \Generator {
            for ($i = 0;; ++$i) {
                yield $i;
            }
        })();
        $this->generator->current();
        $this->fiber = new \Fiber(static function (): void {
            for ($i = 0;; ++$i) {
                \Fiber::suspend($i);
            }
        });
        $this->fiber->start();
        $this->weak = new \WeakMap();
        $this->weak[$this->kernel] = 'boot';
        $this->storage = new \SplObjectStorage();
        $this->storage[$this->kernel] = 'boot';
        $this->list = new \ArrayObject(['a' => 1]);
        $this->iterator = new \ArrayIterator([1, 2, 3, 4]);
        $this->fixed = \SplFixedArray::fromArray([1, 2, 3]);
        $this->heap = new \SplMinHeap();
        $this->heap->insert(1);
    }

    private function loadCases(): void
    {
        foreach (glob($this->folder . '/cases/*.php') as $file) {
            foreach (require $file as $name => $case) {
                $this->cases[basename($file, '.php') . '/' . $name] = $case;
            }
        }
    }
}
