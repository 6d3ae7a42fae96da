<?php

declare(strict_types=1);

return [
    'use' => function (): void {
        mb_internal_encoding('EUC-JP');
        mb_regex_encoding('SJIS');
        mb_language('ja');
        mb_detect_order(['ASCII', 'SJIS', 'UTF-8']);
        mb_substitute_character(0x3013);
        mb_http_output('SJIS');
        mb_encode_numericentity('ü', [0x80, 0x10ffff, 0, 0x1fffff], 'UTF-8');
        same('3042', bin2hex(mb_convert_encoding('あ', 'UTF-16BE', 'UTF-8')));
        same('STRASSE', mb_strtoupper('straße', 'UTF-8'));
        same(1, mb_strlen("\xa4\xa2"));
        mb_ereg_search_init('aaabbb', 'b+');
        same([3, 3], mb_ereg_search_pos());
    },
    'options' => function (): void {
        same('pr', mb_regex_set_options());
        mb_regex_set_options('ixz');
    },
];
