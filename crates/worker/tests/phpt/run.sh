#!/bin/sh
# Runs the .phpt tests of this folder (or those named) against a built hearth-worker.
#
#   crates/worker/tests/phpt/run.sh target/debug/hearth-worker [TEST…]
#
# PHP_CONFIG chooses the php-config, as in the build; run-tests.php is the one of its development files. Outputs of
# failed tests stay beside the copies in the folder that is printed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "usage: $0 HEARTH-WORKER [TEST…]" >&2; exit 2; }
worker=$(realpath "$1")
shift
[ -x "$worker" ] || { echo "$0: $worker cannot be run: build it first" >&2; exit 2; }

config=${PHP_CONFIG:-$(command -v php-config8.2 || command -v php-config)}
cli=$("$config" --php-binary)
tests=$("$config" --prefix)/lib/php/$("$config" --phpapi)/build/run-tests.php
[ -f "$tests" ] || { echo "$0: $tests is missing: install PHP's development files" >&2; exit 2; }

work=$(mktemp -d "${TMPDIR:-/tmp}/hearth-phpt.XXXXXX")
cp "$here"/*.phpt "$here"/*.inc "$work"/
# run-tests.php asks its PHP a few questions with -r; those go to php-cli.
cat > "$work/php" <<SCRIPT
#!/bin/sh
for argument; do
	if [ "\$argument" = -r ]; then
		exec "$cli" "\$@"
	fi
done
exec "$worker" run "\$@" 2>&1
SCRIPT
chmod +x "$work/php"

if [ $# -eq 0 ]; then
	set -- "$work"
else
	for test; do
		shift
		set -- "$@" "$work/$(basename "$test")"
	done
fi
cd "$work"
status=0
# OF_PROCESS shows that the environment reaches $_SERVER.
OF_PROCESS=1 NO_INTERACTION=1 TEST_PHP_EXECUTABLE="$work/php" REPORT_EXIT_STATUS=1 \
	"$cli" -n "$tests" -q --show-diff --no-color "$@" > "$work/log" 2>&1 || status=$?
sed -n '/^=*DIFF/,/^FAIL/p; /^Number of tests/,$p' "$work/log"
if ! grep -q '^Tests passed' "$work/log"; then
	cat "$work/log"
	status=1
fi
if [ $status -ne 0 ]; then
	echo "phpt: failed; see $work" >&2
	exit 1
fi
rm -rf "$work"
