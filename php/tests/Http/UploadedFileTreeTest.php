<?php

declare(strict_types=1);

namespace Hearth\Tests\Http;

use Hearth\Http\UploadedFile;
use Hearth\Http\UploadedFileTree;
use Hearth\Http\UploadError;
use Nyholm\Psr7\Factory\Psr17Factory;
use PHPUnit\Framework\TestCase;

final class UploadedFileTreeTest extends TestCase
{
    public function testASingleFileIsALeaf(): void
    {
        $tree = $this->build(['photo' => $this->file('a.png', 3)]);

        self::assertInstanceOf(UploadedFile::class, $tree['photo']);
        self::assertSame('a.png', $tree['photo']->getClientFilename());
        self::assertSame('image/png', $tree['photo']->getClientMediaType());
        self::assertSame(3, $tree['photo']->getSize());
    }

    public function testNestedFieldsKeepTheirShape(): void
    {
        $tree = $this->build(['form' => [
            'name' => ['photos' => ['a.png', 'b.png'], 'cv' => 'c.pdf'],
            'type' => ['photos' => ['image/png', 'image/png'], 'cv' => ''],
            'tmp_name' => ['photos' => ['/tmp/a', '/tmp/b'], 'cv' => '/tmp/c'],
            'error' => ['photos' => [0, 0], 'cv' => 0],
            'size' => ['photos' => [1, 2], 'cv' => 3],
        ]]);

        self::assertSame('b.png', $tree['form']['photos'][1]->getClientFilename());
        self::assertSame(2, $tree['form']['photos'][1]->getSize());
        self::assertSame('c.pdf', $tree['form']['cv']->getClientFilename());
        self::assertNull($tree['form']['cv']->getClientMediaType());
    }

    public function testAFileThatWasNotReceivedHasNoStream(): void
    {
        $file = $this->build(['photo' => $this->file('', 0, \UPLOAD_ERR_NO_FILE)])['photo'];

        self::assertSame(\UPLOAD_ERR_NO_FILE, $file->getError());
        self::assertNull($file->getSize());
        self::assertNull($file->getClientFilename());
        $this->expectException(UploadError::class);
        $file->getStream();
    }

    public function testOnlyUploadsOfTheRequestCanBeMoved(): void
    {
        $file = $this->build(['photo' => ['tmp_name' => __FILE__] + $this->file('a.png', 3)])['photo'];

        $this->expectException(UploadError::class);
        $file->moveTo(sys_get_temp_dir() . '/never');
    }

    /**
     * @param array<string, array<string, mixed>> $files
     *
     * @return array<array-key, mixed>
     */
    private function build(array $files): array
    {
        return (new UploadedFileTree(new Psr17Factory()))->build($files);
    }

    /** @return array<string, string|int> */
    private function file(string $name, int $size, int $error = \UPLOAD_ERR_OK): array
    {
        return ['name' => $name, 'type' => 'image/png', 'tmp_name' => '/tmp/a', 'error' => $error, 'size' => $size];
    }
}
