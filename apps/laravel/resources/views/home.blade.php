<!doctype html>
<title>Hearth and Laravel {{ app()->version() }}</title>
<h1>Hello, {{ $name }}!</h1>
<p>Visits in this session: {{ $visits }}. Counted by this application: {{ $counted }}.</p>
