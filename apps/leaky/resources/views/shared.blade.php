<!doctype html>
<html lang="{{ app()->getLocale() }}">
<p>{{ $user ?? 'nobody' }} sees {{ $composed ?? 'nothing' }} at {{ url('/') }}</p>
@once
<p>once</p>
@endonce
@push('scripts')
<script>pushed</script>
@endpush
@stack('scripts')
</html>
