<?php

/*
 * Pages with a session.
 */

declare(strict_types=1);

use Illuminate\Auth\GenericUser;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Auth;
use Illuminate\Support\Facades\Cookie;
use Illuminate\Support\Facades\Route;
use Illuminate\Support\Facades\Session;

Route::get('/session/visit/{user}', static function (Request $request, string $user): array {
    $visits = $request->session()->increment('visits');
    $known = $request->session()->get('user', 'nobody');
    $request->session()->put('user', $user);

    return ['visits' => $visits, 'user' => $known, 'flashed' => session('flashed')];
});

Route::get('/session/flash/{text}', static function (string $text): mixed {
    Session::flash('flashed', $text);

    return redirect('/session/visit/flash');
});

Route::get('/session/exit/{user}', static function (Request $request, string $user): never {
    $request->session()->put('user', $user);
    echo $request->session()->get('user');
    exit;
});

/* Whoever is logged in for this request. */
Route::get('/auth/{user}', static function (string $user): array {
    $before = Auth::user()?->getAuthIdentifier();
    Auth::setUser(new GenericUser(['id' => $user]));

    return ['before' => $before, 'now' => Auth::id()];
});

Route::get('/cookie/{value}', static function (string $value): array {
    $queued = count(Cookie::getQueuedCookies());
    Cookie::queue('left', $value, 5);

    return ['queued' => $queued];
});
