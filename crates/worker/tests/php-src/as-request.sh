#!/bin/bash
# One script as one web request, under php-cgi or under Hearth, called as run-tests.php calls its PHP.
#
#   as-request.sh cgi|hearth BINARY PHP-CLI SELF OPTION…
#
# SELF is the command that leads here. It is also what PHP_BINARY says under php-cgi: in a CGI environment, which the
# processes of a test inherit, php-cgi itself would run the test again, and again.
#
# Both get the same variables. The request comes from the environment, where run-tests.php puts it (REQUEST_METHOD,
# QUERY_STRING, CONTENT_TYPE, HTTP_…), its body from standard input. With -C, by which run-tests.php marks the tests that
# look at headers, the head of the response is printed too. What is no request (-r, -i, -S …) goes to php-cli.
set -u

sapi=$1 binary=$2 cli=$3 self=$4
shift 4
# In case a test finds another way to run itself.
export AS_REQUEST_DEPTH=$((${AS_REQUEST_DEPTH:-0} + 1))
[ $AS_REQUEST_DEPTH -lt 6 ] || exit 1
# A test that waits in a loop for a process that cannot start would do so for ever: run-tests.php ends the shell alone.
ulimit -t 60

for argument; do
	case $argument in
		--) break ;;
		-[rimvSswlaBR] | --*) exec "$cli" "$@" ;;
	esac
done

# The ini settings stay in "$@"; `arguments` become the query string, which is how a request has any (RFC 3875 §4.4).
script='' head='' arguments=''
left=$#
while [ $left -gt 0 ]; do
	argument=$1
	shift
	left=$((left - 1))
	case $argument in
		-c | -d)
			set -- "$@" "$argument" "$1"
			shift
			left=$((left - 1))
			;;
		-d*) set -- "$@" -d "${argument#-d}" ;;
		-n) set -- "$@" -n ;;
		-C) head=yes ;;
		-q | -f | --) ;;
		*)
			if [ -z "$script" ]; then
				script=$argument
			else
				arguments=$arguments${arguments:++}$argument
			fi
			;;
	esac
done
[ -n "$script" ] || exec "$cli" "$@"
case $script in
	/*) ;;
	*) script=$PWD/$script ;;
esac
method=${REQUEST_METHOD:-GET}
query=${QUERY_STRING:-$arguments}
name=/${script##*/}

# What nginx sends for a request without a Content-Length is an empty one.
with_body() { [ -n "${CONTENT_LENGTH:-}" ]; }

run_cgi() {
	unset PATH_TRANSLATED
	export SCRIPT_FILENAME="$script" SCRIPT_NAME="$name" DOCUMENT_URI="$name" REQUEST_URI="$name${query:+?$query}"
	export QUERY_STRING="$query" REQUEST_METHOD="$method" DOCUMENT_ROOT="${script%/*}" REDIRECT_STATUS=200
	export CONTENT_TYPE="${CONTENT_TYPE:-}" CONTENT_LENGTH="${CONTENT_LENGTH:-}" PATH_INFO=''
	export SERVER_NAME=localhost SERVER_PORT=80 SERVER_ADDR=127.0.0.1 REMOTE_ADDR=127.0.0.1 REMOTE_PORT=40000
	export SERVER_SOFTWARE=hearth SERVER_PROTOCOL=HTTP/1.1 GATEWAY_INTERFACE=CGI/1.1 REQUEST_SCHEME=http
	if [ -n "$head" ]; then
		exec -a "$self" "$binary" "$@"
	fi
	# The head ends at the first empty line. A second one, in the body, is php-cgi's own: it comes when a process that the
	# script forked ends in good time, and behind what header_register_callback() prints once the script has ended.
	(exec -a "$self" "$binary" "$@") | LC_ALL=C sed '1,/^\r*$/d' |
		LC_ALL=C sed -z 's/X-Powered-By: PHP[^\r\n]*\r\nContent-type: text\/html; charset=UTF-8\r\n\r\n//g'
}

run_hearth() {
	set -- "$@" --request "$method $name${query:+?$query}"
	# Each HTTP_NAME of the environment is a header.
	for variable in ${!HTTP_@}; do
		header=${variable#HTTP_}
		set -- "$@" --header "${header//_/-}: ${!variable}"
	done
	[ -z "${CONTENT_TYPE:-}" ] || set -- "$@" --header "Content-Type: $CONTENT_TYPE"
	if with_body; then
		set -- "$@" --body @/dev/stdin
	fi
	[ -z "$head" ] || set -- "$@" --head
	exec "$binary" run "$@" "$script"
}

"run_$sapi" "$@"
