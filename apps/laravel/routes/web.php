<?php

declare(strict_types=1);

use Illuminate\Http\Request;
use Illuminate\Support\Facades\App;
use Illuminate\Support\Facades\Route;
use Illuminate\View\View;

/* Counts the visits of a session, and what the application has counted itself: always 1, as it is new each time. */
Route::get('/', static function (Request $request): View {
    App::instance('counted', App::bound('counted') ? App::make('counted') + 1 : 1);

    return view('home', [
        'name' => $request->query('name', 'world'),
        'visits' => $request->session()->increment('visits'),
        'counted' => App::make('counted'),
    ]);
});
