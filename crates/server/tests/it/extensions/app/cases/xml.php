<?php

declare(strict_types=1);

final class OwnElement extends DOMElement
{
}

return [
    'use' => function (): void {
        libxml_use_internal_errors(true);
        libxml_set_streams_context(stream_context_create(['http' => ['user_agent' => 'left']]));
        libxml_set_external_entity_loader(fn (): ?string => null);
        $broken = new DOMDocument();
        same(false, $broken->loadXML('<a><b></a>'));
        same(true, count(libxml_get_errors()) > 0);

        $document = new DOMDocument();
        $document->loadXML('<list><item n="1"/><item n="2"/></list>');
        $path = new DOMXPath($document);
        $path->registerNamespace('php', 'http://php.net/xpath');
        $path->registerPhpFunctions('strrev');
        same('21', $path->evaluate('php:functionString("strrev", "12")'));
        $document->registerNodeClass(DOMElement::class, OwnElement::class);
        same(OwnElement::class, $document->createElement('own')::class);
        $simple = simplexml_import_dom($document);
        same('2', (string) $simple->item[1]['n']);

        $sheet = new DOMDocument();
        $sheet->loadXML('<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
            xmlns:php="http://php.net/xsl"><xsl:output method="text"/><xsl:template match="/">
            <xsl:value-of select="php:function(\'strtoupper\', \'done\')"/></xsl:template></xsl:stylesheet>');
        $transform = new XSLTProcessor();
        $transform->registerPHPFunctions();
        same(true, $transform->importStylesheet($sheet));
        same('DONE', trim($transform->transformToXml($document)));

        file_put_contents(file_of_test('read.xml'), '<a><b/></a>');
        $reader = XMLReader::open(file_of_test('read.xml'));
        same(true, $reader->read());
        $parser = xml_parser_create();
        xml_set_element_handler($parser, fn () => null, fn () => null);
        same(1, xml_parse($parser, '<a><b>'));
        Kept::keep($broken, $document, $path, $simple, $transform, $reader, $parser);
    },
];
