<?php

declare(strict_types=1);

return [
    'use' => function (): void {
        Locale::setDefault('de_DE');
        ini_set('intl.use_exceptions', '0');
        $number = new NumberFormatter('de_DE', NumberFormatter::DECIMAL);
        same('1.234,5', $number->format(1234.5));
        $collator = new Collator('sv_SE');
        same(1, $collator->compare('ö', 'z'));
        $date = new IntlDateFormatter('fr_FR', IntlDateFormatter::LONG, IntlDateFormatter::NONE, 'Europe/Paris');
        same('21 novembre 2026', $date->format(1795258800));
        $words = IntlBreakIterator::createWordInstance('en');
        $words->setText('one two');
        same([0, 3, 4, 7], iterator_to_array($words));
        $latin = Transliterator::create('Greek-Latin');
        same('alpha', $latin->transliterate('αλφα'));
        same('Å', Normalizer::normalize("A\u{030a}"));
        same('xn--mller-kva.example', idn_to_ascii('müller.example'));
        same('2 Dateien', MessageFormatter::formatMessage('de', '{0, plural, one{# Datei} other{# Dateien}}', [2]));
        // Leaves an error behind.
        same(null, NumberFormatter::create('de', 99));
        same(true, intl_get_error_code() !== 0);
        Kept::keep($number, $collator, $date, $words, $latin, new ResourceBundle('de', null), IntlCalendar::createInstance());
    },
];
