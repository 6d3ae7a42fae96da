#!/bin/sh
# PHP's own test scripts, run as web requests under php-cgi and under Hearth: the same must pass.
#
#   crates/worker/tests/php-src/run.sh target/release/hearth-worker FOLDER [--sample N] [TEST…]
#
# The tests are those of PHP's source, as Debian's archive has it; they are fetched into FOLDER, which keeps them. Each is
# one classic request (as-request.sh) with the same ini settings and extensions on both sides. What passes under one alone is
# run again under both; what then still differs must be in differences.txt beside this file, with its reason. --sample N takes
# every Nth test; TESTs are paths in PHP's source. JOBS says how many run at once, 2 if not set.
set -eu

FOLDERS="tests Zend/tests ext/standard/tests"
# What the tests there take from elsewhere: servers to talk to, an extension to load.
ELSEWHERE="ext/dl_test/tests ext/ftp/tests ext/openssl/tests sapi/cli/tests"
# What php-src builds unless it is told not to, and OPcache, which serves everybody. The tests load further ones by name.
EXTENSIONS="ctype dom fileinfo ftp iconv pdo phar posix simplexml tokenizer xml xmlreader xmlwriter"

die() { echo "php-src: $*" >&2; exit 1; }
say() { echo "php-src: $*"; }

[ $# -ge 2 ] || { echo "usage: $0 HEARTH-WORKER FOLDER [--sample N] [TEST…]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
worker=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
shift 2
sample=1
if [ "${1-}" = --sample ]; then
	sample=$2
	shift 2
fi
version=${PHP_VERSION:-8.2}
cli=$(command -v "php$version") || die "php$version is missing: install php$version-cli"
cgi=$(command -v "php-cgi$version") || die "php-cgi$version is missing: install php$version-cgi"
[ -x "$worker" ] || die "$worker cannot be run: build it first"
for program in apt-get dpkg-query xz; do
	command -v $program > /dev/null || die "$program is missing"
done

# {{{ The sources

# apt with this machine's archive as a source of sources, and lists of its own.
apt() {
	program=$1
	shift
	"$program" -q -o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::State::lists="$folder/apt/lists" -o APT::Sandbox::User=root "$@"
}

# The source of the installed PHP; where the archive has dropped it for a newer one, the best that can be had: the tests
# are the same for both sides whatever their age.
fetch() {
	wanted=$(dpkg-query -W -f '${source:Version}' "php$version-cli")
	[ "$(cat "$folder/wanted" 2>/dev/null)" != "$wanted" ] || return 0
	mkdir -p "$folder/apt/lists/partial"
	apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		sort -u > "$folder/apt/sources.list"
	[ -s "$folder/apt/sources.list" ] || die "apt knows no archive on this machine (apt-get indextargets names none)"
	apt apt-get update > "$folder/apt/log" 2>&1 || say "some lists of sources cannot be had, see $folder/apt/log"
	others=$(apt apt-cache showsrc "php$version" | sed -n 's/^Version: //p' | sort -Vr)
	rm -f "$folder"/*.orig.tar.*
	for candidate in $wanted $others; do
		if (cd "$folder" && apt apt-get source --download-only "php$version=$candidate") >> "$folder/apt/log" 2>&1; then
			[ "$candidate" = "$wanted" ] || say "no source of $wanted in the archive: taking the tests of $candidate"
			echo "$wanted" > "$folder/wanted"
			return 0
		fi
	done
	die "no source of php$version can be fetched; what apt said is in $folder/apt/log"
}

# Anew for each run: tests that fail leave files behind.
unpack() {
	rm -rf "$folder/source"
	mkdir "$folder/source"
	# In the empty folder, where the shell finds nothing that the patterns mean.
	# shellcheck disable=SC2046,SC2086 # lists
	(cd "$folder/source" && tar -xf "$(echo "$folder"/*.orig.tar.xz)" --strip-components=1 --wildcards --no-wildcards-match-slash \
		'*/run-tests.php' $(printf '*/%s ' $FOLDERS $ELSEWHERE))
}
# }}}

# {{{ The runs

settings() {
	for extension in $EXTENSIONS; do
		echo "extension=$extension"
	done
	echo zend_extension=opcache
}

# As one file that run-tests.php can start.
program() {
	printf '#!/bin/sh\nexec "%s" %s "%s" "%s" "$0" "$@"\n' "$here/as-request.sh" "$1" "$2" "$cli" > "$folder/$1"
	chmod +x "$folder/$1"
}

# run cgi|hearth LIST: leaves LIST's states in SAPI.results and SAPI.log.
run() {
	unpack
	(
		cd "$folder/source"
		export TEST_PHP_EXECUTABLE="$folder/$1" TEST_PHP_CGI_EXECUTABLE="$folder/$1"
		export PHPRC="$folder/php.ini" PHP_INI_SCAN_DIR="$folder/none" NO_INTERACTION=1 SKIP_ONLINE_TESTS=1 REPORT_EXIT_STATUS=0
		export LC_ALL=C TEST_PHP_SRCDIR="$folder/source"
		# Five minutes a test, for those that copy gigabytes.
		"$cli" -n -d extension=posix -d extension=tokenizer run-tests.php -q -j"${JOBS:-2}" --no-color --no-progress -g FAIL \
			--set-timeout 300 -W "$folder/$1.results" -r "$2" < /dev/null > "$folder/$1.log" 2>&1
	) || die "run-tests.php failed; see $folder/$1.log"
}

# The file of results has a test a line, "PASSED<tab>PATH".
passed() { sed -n 's/^PASSED\t//p' "$folder/$1.results" | LC_ALL=C sort; }

# Passes under one of both alone: "cgi PATH", "hearth PATH".
compare() {
	passed cgi > "$folder/cgi.passed"
	passed hearth > "$folder/hearth.passed"
	comm -23 "$folder/cgi.passed" "$folder/hearth.passed" | sed 's/^/cgi /'
	comm -13 "$folder/cgi.passed" "$folder/hearth.passed" | sed 's/^/hearth /'
}

both() {
	for side in cgi hearth; do
		started=$(date +%s)
		run $side "$1"
		say "$side: $(passed $side | wc -l) of $(wc -l < "$folder/$side.results") pass ($(($(date +%s) - started)) s)"
	done
}
# }}}

fetch
unpack
settings > "$folder/php.ini"
program cgi "$cgi"
program hearth "$worker"
if [ $# -gt 0 ]; then
	printf '%s\n' "$@" > "$folder/list"
else
	# shellcheck disable=SC2086 # a list
	(cd "$folder/source" && find $FOLDERS -name '*.phpt' | LC_ALL=C sort | awk "NR % $sample == 0") > "$folder/list"
fi
both "$folder/list"
compare > "$folder/differing"
[ -s "$folder/cgi.passed" ] || [ -s "$folder/hearth.passed" ] || die "no test passed; see $folder/cgi.log"
if [ -s "$folder/differing" ]; then
	say "once more, as some depend on the moment: $(wc -l < "$folder/differing") tests that pass under one alone"
	cut -d ' ' -f 2 "$folder/differing" > "$folder/again"
	both "$folder/again"
	compare > "$folder/differing"
fi
# "SIDE PATH: why" => "SIDE PATH"
sed -n 's/^\(cgi\|hearth\) \([^:]*\): .*/\1 \2/p' "$here/differences.txt" | LC_ALL=C sort > "$folder/expected"
LC_ALL=C sort -o "$folder/differing" "$folder/differing"
LC_ALL=C comm -23 "$folder/differing" "$folder/expected" > "$folder/unexpected"
say "$(wc -l < "$folder/differing") tests pass under one alone, $(wc -l < "$folder/unexpected") of them without a reason in differences.txt"
if [ -s "$folder/unexpected" ]; then
	sed 's/^/  only under /' "$folder/unexpected"
	die "outputs and what was expected are beside the tests in $folder/source"
fi
