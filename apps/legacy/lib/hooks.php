<?php

/*
 * Plugins hang themselves in here.
 */

function add_hook($name, $function)
{
    global $cms_hooks;
    $cms_hooks[$name][] = $function;
}

function run_hooks($name, $value)
{
    global $cms_hooks;
    foreach ($cms_hooks[$name] ?? [] as $function) {
        $value = $function($value);
    }

    return $value;
}
