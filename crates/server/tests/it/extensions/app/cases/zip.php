<?php

declare(strict_types=1);

return [
    // The archive is written when the object ends, which is at the end of the request.
    'use' => function (): void {
        $zip = new ZipArchive();
        same(true, $zip->open(file_of_test('archive.zip'), ZipArchive::CREATE | ZipArchive::OVERWRITE));
        $zip->addFromString('number', $_GET['number']);
        Kept::keep($zip);
    },
    'check' => function (): void {
        $zip = new ZipArchive();
        same(true, $zip->open(file_of_test('archive.zip')));
        same($_GET['number'], $zip->getFromName('number'));
        same($_GET['number'], file_get_contents('zip://' . file_of_test('archive.zip') . '#number'));
        Kept::keep($zip, $zip->getStream('number'));
    },
];
