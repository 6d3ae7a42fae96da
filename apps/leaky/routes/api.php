<?php

/*
 * Pages that leave something in the application, in Laravel's statics or in PHP. Each answers what it found.
 */

declare(strict_types=1);

use Illuminate\Contracts\Http\Kernel;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Http\Request;
use Illuminate\Http\Resources\Json\JsonResource;
use Illuminate\Pagination\Paginator;
use Illuminate\Support\Carbon;
use Illuminate\Support\Collection;
use Illuminate\Support\Facades\App;
use Illuminate\Support\Facades\Blade;
use Illuminate\Support\Facades\Cache;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Event;
use Illuminate\Support\Facades\Hash;
use Illuminate\Support\Facades\Http;
use Illuminate\Support\Facades\Log;
use Illuminate\Support\Facades\Route;
use Illuminate\Support\Facades\URL;
use Illuminate\Support\Facades\Validator;
use Illuminate\Support\Facades\View;
use Illuminate\Support\Str;

/* The user of the first who asked. */
Route::get('/static/{user}', static function (string $user): string {
    static $current = null;
    $current ??= $user;

    return "user $current";
});

Route::get('/singleton/{user}', static function (string $user): string {
    if (!App::bound('tenant')) {
        App::singleton('tenant', static fn (): object => (object) ['user' => null, 'requests' => 0]);
    }
    App::make('tenant')->user ??= $user;

    return App::make('tenant')->user . ' ' . ++App::make('tenant')->requests;
});

Route::get('/config/{value}', static function (string $value): array {
    $before = config('app.name');
    config(['app.name' => $value, 'app.debug' => true, 'session.lifetime' => 1]);

    return [$before, config('app.name'), config('services.left', 'none')];
});

Route::get('/locale/{locale}', static function (string $locale): string {
    $before = App::getLocale();
    App::setLocale($locale);
    Carbon::setLocale($locale);

    return "$before " . __('texts.hello') . ' ' . Carbon::createFromTimestamp(1_780_000_000, 'UTC')->isoFormat('dddd');
});

Route::get('/zone/{zone}', static function (string $zone): string {
    $before = date_default_timezone_get();
    date_default_timezone_set(str_replace('-', '/', $zone));

    return "$before " . date('c', 1_780_000_000);
});

Route::get('/listener/{n}', static function (string $n): array {
    Event::listen('thing', static fn (): string => $n);

    return Event::dispatch('thing');
});

Route::get('/macro/{n}', static function (string $n): array {
    $before = [Str::hasMacro('left'), Collection::hasMacro('left'), Request::hasMacro('left')];
    Str::macro('left', static fn (): string => $n);
    Collection::macro('left', static fn (): string => $n);
    Request::macro('left', static fn (): string => $n);

    return [...$before, Str::left()];
});

Route::get('/bind/{n}', static function (string $n): array {
    $before = App::bound('left') ? App::make('left') : null;
    App::bind('left', static fn (): string => $n);
    App::extend('url', static function (object $url) use ($n): object {
        $url->defaults(['left' => $n]);

        return $url;
    });

    return [$before, App::make('left'), URL::getDefaultParameters()];
});

Route::get('/share/{user}', static function (string $user): mixed {
    View::share('user', View::shared('user') ?? $user);
    View::composer('shared', static fn (object $view) => $view->with('composed', "what $user composed"));

    return view('shared');
});

Route::get('/view', static fn (): mixed => view('shared'));

Route::get('/blade/{n}', static function (string $n): string {
    $before = count(Blade::getCustomDirectives());
    Blade::directive("left$n", static fn (): string => $n);

    return (string) $before;
});

Route::get('/url/{host}', static function (string $host): string {
    $before = url('/page');
    URL::forceRootUrl("https://$host.test");
    URL::forceScheme('https');

    return $before . ' ' . url('/page');
});

Route::get('/route/{n}', static function (string $n): array {
    $before = Route::has('left');
    Route::get("/left/$n", static fn (): string => "left $n")->name('left');
    Route::getRoutes()->refreshNameLookups();

    return [$before, Route::has('left')];
});

Route::get('/middleware/{n}', static function (string $n): array {
    App::bind('left.middleware', static fn (): object => new class ($n) {
        public function __construct(private string $n)
        {
        }

        public function handle(Request $request, Closure $next): mixed
        {
            $response = $next($request);
            $response->headers->set('X-Left', $this->n);

            return $response;
        }
    });
    $before = App::make(Kernel::class)->hasMiddleware('left.middleware');
    App::make(Kernel::class)->pushMiddleware('left.middleware');

    return [$before];
});

Route::get('/database/{n}', static function (string $n): array {
    DB::enableQueryLog();
    DB::statement('create table if not exists rows (n text)');
    DB::insert('insert into rows values (?)', [$n]);

    return [DB::select('select n from rows'), count(DB::getQueryLog()), DB::transactionLevel()];
});

Route::get('/transaction/{n}', static function (string $n): array {
    $before = DB::transactionLevel();
    DB::beginTransaction();

    return [$before, DB::transactionLevel(), $n];
});

Route::get('/model/{n}', static function (string $n): array {
    $class = new class extends Model {
        protected $table = 'rows';
    };
    $before = [Model::isUnguarded(), $class->hasNamedScope('left'), Model::preventsLazyLoading()];
    Model::unguard();
    Model::preventLazyLoading();
    $class::addGlobalScope('left', static fn (object $query): object => $query->where('n', $n));

    return [...$before, count($class->getGlobalScopes())];
});

Route::get('/cache/{value}', static function (string $value): string {
    $before = Cache::get('left', 'none');
    Cache::put('left', $value, 600);

    return "$before " . Cache::get('left');
});

Route::get('/validator/{value}', static function (string $value): array {
    $data = ['value' => $value];
    try {
        $before = Validator::make($data, ['value' => 'left_rule'])->passes();
    } catch (BadMethodCallException) {
        $before = 'no such rule';
    }
    Validator::extend('left_rule', static fn (): bool => true);
    Validator::replacer('min', static fn (): string => 'replaced');

    return [$before, Validator::make($data, ['value' => 'left_rule|min:3'])->errors()->all()];
});

Route::get('/log/{user}', static function (string $user): array {
    $before = Log::sharedContext();
    Log::shareContext(['user' => $user]);

    return $before;
});

Route::get('/facade/{n}', static function (string $n): string {
    $class = Hash::getFacadeRoot()::class;
    Hash::swap(new class {
        public function make(string $value): string
        {
            return "swapped $value";
        }
    });

    return $class . ' ' . Hash::make($n);
});

Route::get('/http/{n}', static function (string $n): array {
    Http::fake(['*' => Http::response("faked $n")]);

    return [Http::get('http://127.0.0.1:1/')->body(), Http::recorded()->count()];
});

Route::get('/resource/{n}', static function (string $n): mixed {
    $resource = new JsonResource(['n' => $n]);
    $response = $resource->response();
    JsonResource::withoutWrapping();

    return $response;
});

Route::get('/pages/{page}', static function (string $page): array {
    $before = [Paginator::$defaultView, Paginator::resolveCurrentPage()];
    Paginator::useBootstrap();
    Paginator::currentPageResolver(static fn (): int => (int) $page);

    return [...$before, Paginator::resolveCurrentPage()];
});

Route::get('/carbon/{n}', static function (string $n): array {
    $before = [Carbon::hasTestNow(), Carbon::hasMacro('left')];
    Carbon::setTestNow(Carbon::createFromTimestamp(1_780_000_000 + (int) $n));
    Carbon::macro('left', static fn (): string => $n);

    return [...$before, now()->timestamp];
});

Route::get('/environment/{value}', static function (string $value): array {
    $before = [getenv('LEFT'), $_ENV['LEFT'] ?? null, $_SERVER['LEFT'] ?? null, env('LEFT')];
    putenv("LEFT=$value");
    $_ENV['LEFT'] = $_SERVER['LEFT'] = $value;
    chdir('/');
    umask(0);

    return [...$before, getenv('LEFT')];
});

Route::get('/constant/{value}', static function (string $value): string {
    defined('LEFT') || define('LEFT', $value);

    return constant('LEFT');
});

Route::get('/globals/{value}', static function (string $value): string {
    $GLOBALS['left'] ??= $value;

    return $GLOBALS['left'] . ' ' . ini_set('precision', (string) (strlen($value) + 2)) . ' ' . 1 / 3;
});

/* Ends of every kind. */
Route::get('/exit/{text}', static function (string $text): never {
    header("X-Exit: $text");
    http_response_code(202);
    ob_start();
    echo "left by $text";
    exit;
});

Route::get('/throw/{text}', static fn (string $text) => throw new RuntimeException($text));

Route::get('/abort/{code}', static fn (string $code) => abort((int) $code, 'on purpose'));

Route::get('/memory/{n}', static function (string $n): never {
    ini_set('memory_limit', '40M');
    for ($all = []; true;) {
        $all[] = str_repeat($n, 1 << 18);
    }
});

Route::get('/fatal/{n}', static fn (string $n) => eval("class Twice$n {} class Twice$n {}"));

Route::get('/handlers/{n}', static function (string $n): string {
    $error = set_error_handler(static fn (): bool => true);
    $exception = set_exception_handler(static fn () => print("handled $n"));
    register_shutdown_function(static fn () => print(" shut down $n"));
    ob_start(static fn (string $text): string => strtoupper($text));

    return get_debug_type($error) . ' ' . get_debug_type($exception);
});

Route::get('/terminating/{n}', static function (string $n): string {
    App::terminating(static fn () => $GLOBALS['terminated'][] = $n);
    defer(static fn () => $GLOBALS['terminated'][] = "deferred $n");
    $before = count($GLOBALS['terminated'] ?? []);

    return "$before before";
});

Route::get('/stream/{n}', static fn (string $n): mixed => response()->stream(static function () use ($n): void {
    static $streamed = 0;
    echo str_repeat("line $n\n", 1000), ++$streamed;
}));
