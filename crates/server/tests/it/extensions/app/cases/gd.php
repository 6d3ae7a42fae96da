<?php

declare(strict_types=1);

return [
    'use' => function (): void {
        $image = imagecreatetruecolor(200, 100);
        imagefilledrectangle($image, 10, 10, 50, 50, imagecolorallocate($image, 255, 0, 0));
        imageinterlace($image, true);
        imagesetinterpolation($image, IMG_BICUBIC);
        same([40, 20], [imagesx($small = imagescale($image, 40, 20)), imagesy($small)]);
        ob_start();
        imagepng($image);
        $png = ob_get_clean();
        same([200, 100], array_slice(getimagesizefromstring($png), 0, 2));
        same(0xff0000, imagecolorat(imagecreatefromstring($png), 20, 20));
        Kept::keep($image, $small);
    },
];
