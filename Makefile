# `make` lists the targets.

CARGO       ?= cargo
# Another PHP is meant by PHP_VERSION alone: the lists of packages and the tests follow it.
PHP_VERSION ?= 8.2
PHP_CONFIG  ?= php-config$(PHP_VERSION)
TARGET      := $(or $(CARGO_TARGET_DIR),target)
export PHP_VERSION PHP_CONFIG

.DEFAULT_GOAL := help
.PHONY: help build demo test test-modern check unit ipc it contained parity-record phpt php-src-tests php bench attack soak chaos operate overload watch nasty nasty-sanitized legacy

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: packages-build ## build target/release/hearth and target/release/hearth-worker
	$(CARGO) build --release --locked --bin hearth --bin hearth-worker

demo: build ## build, then serve the Symfony demo on http://127.0.0.1:8080
	@dev/packages apps/symfony/packages.txt
	@printf '\nTry: the pages in a browser; curl http://127.0.0.1:8080/api/hello; /exit, /throw and /fatal, then reload;\n'
	@printf 'kill -9 a worker (pgrep -f "hearth: worker") and look at the log. Ctrl-C stops.\n\n'
	@dev/demo $(TARGET)/release/hearth

test: packages-test check unit ipc it contained wordpress sites phpt php-src-sample php test-modern ## everything: lints, unit, ipc, integration, phpt, PHPUnit, each PHP

test-modern: packages-check ## what meets PHP, with PHP 8.4, Symfony 7.4 and Laravel 13 in a root of Debian forky
	@# Built out here: Go's programs are the same there, and the root has no way to the modules.
	dev/go-tool $(TARGET)/modern/build/tools h2spec
	dev/go-tool $(TARGET)/modern/build/tools pebble
	dev/modern $(TARGET)/modern make it phpt php

tls-check: packages-check ## TLS as testssl.sh finds and grades it, in that root: nothing below A; two minutes
	dev/modern $(TARGET)/modern make tls-scan

.PHONY: tls-check tls-scan
tls-scan:
	$(CARGO) build --locked --bin hearth --bin hearth-worker
	HEARTH_TEST_TESTSSL=1 $(CARGO) test --locked -p hearth --test it -- tls::scan --nocapture

check: packages-test packages-check ## format, lints, style of the PHP, age of generated files
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	phpcs -q --standard=php/phpcs.xml
	dev/stub-hash crates/worker/sapi/functions.stub.php crates/worker/sapi/functions_arginfo.h

unit: packages-build ## unit tests of the server and the layering test
	$(CARGO) test --locked -p hearth --lib --bins --test layers

ipc: ## the shared-memory protocol: properties, processes, loom models
	$(CARGO) test --locked -p ipc
	RUSTFLAGS="--cfg loom" $(CARGO) test --locked -p ipc --release --test loom --target-dir $(TARGET)/loom

it: packages-test ## integration tests: real binaries, real PHP
	$(CARGO) build --locked --bin hearth --bin hearth-worker
	$(CARGO) test --locked -p hearth-worker
	export HEARTH_TEST_XDEBUG=$$(dev/xdebug $(TARGET)/xdebug) HEARTH_TEST_H2SPEC=$$(dev/go-tool $(TARGET)/tools h2spec) \
		HEARTH_TEST_PEBBLE=$$(dev/go-tool $(TARGET)/tools pebble) && \
		$(CARGO) test --locked -p hearth --test it

# What a container's engine refuses, and what older kernels lack; see deny.php beside the tests of isolation.
contained: packages-test ## what undoes requests once more: under Docker's seccomp profile, by scan and by reads
	$(CARGO) build --locked --bin hearth --bin hearth-worker
	for refused in docker docker,scan,new; do \
		HEARTH_TEST_REFUSED=$$refused $(CARGO) test --locked -p hearth --test it -- \
			isolation nasty leaky randomness children strict refusal endings recycling || exit 1; done

parity-record: packages-test ## ask nginx and php-fpm anew what tests/it/parity compares with, see docs/parity.md
	$(CARGO) build --locked --bin hearth --bin hearth-worker
	HEARTH_PARITY_RECORD=1 $(CARGO) test --locked -p hearth --test it parity::

phpt: packages-build ## the SAPI, by PHP's own run-tests.php
	$(CARGO) build --locked --bin hearth-worker
	crates/worker/tests/phpt/run.sh $(TARGET)/debug/hearth-worker

php-src-tests: packages-php-src ## PHP's own tests as requests, under php-cgi and Hearth: some 15 minutes; SAMPLE=20 for each 20th
	$(CARGO) build --release --locked --bin hearth-worker
	crates/worker/tests/php-src/run.sh $(TARGET)/release/hearth-worker $(TARGET)/php-src $(if $(SAMPLE),--sample $(SAMPLE))

# In `make test`, too long in full.
.PHONY: php-src-sample
php-src-sample: packages-php-src
	$(CARGO) build --locked --bin hearth-worker
	crates/worker/tests/php-src/run.sh $(TARGET)/debug/hearth-worker $(TARGET)/php-src --sample 40

# A browser and WordPress are many packages; the roots of other PHP versions do without.
.PHONY: wordpress
wordpress: packages-test ## WordPress of Debian, installed and used in a browser
	@dev/packages dev/wordpress.packages
	$(CARGO) build --locked --bin hearth --bin hearth-worker
	HEARTH_TEST_WORDPRESS=1 $(CARGO) test --locked -p hearth --test it -- wordpress::

.PHONY: sites
sites: packages-test ## DokuWiki, MediaWiki and phpMyAdmin of Debian, unpacked: what is closed, and the front pages
	$(CARGO) build --locked --bin hearth --bin hearth-worker
	export HEARTH_TEST_SITES=$$(dev/unpack $(TARGET)/sites dokuwiki php-phpseclib php-random-compat mediawiki mediawiki-classes \
		phpmyadmin) && $(CARGO) test --locked -p hearth --test it -- sites::

php: packages-test ## the PHP package
	phpunit -c php

bench: build ## compare with nginx + php-fpm, php -S and bare hyper
	@dev/packages bench/packages.txt apps/symfony/packages.txt
	$(CARGO) build --release --locked --example bare_hyper
	python3 bench/run.py $(if $(SCENARIO),--scenario $(SCENARIO)) $(BENCH_FLAGS)

soak: build ## a million requests each: does memory stay flat?
	@dev/packages bench/packages.txt apps/symfony/packages.txt
	python3 bench/soak.py $(BENCH_FLAGS)

nasty: build ## a million requests that leave behind what they can: does another see a trace?
	python3 bench/nasty.py $(BENCH_FLAGS)

# A build of its own; without link-time optimisation, which says nothing here and takes minutes.
nasty-sanitized: build ## some thousand of them in each way of serving, with our C under ASAN and UBSAN
	HEARTH_SANITIZE=address,undefined CARGO_PROFILE_RELEASE_LTO=off \
		$(CARGO) build --release --locked --bin hearth-worker --target-dir $(TARGET)/sanitized
	python3 bench/sanitized.py $(TARGET)/sanitized/release/hearth-worker $(BENCH_FLAGS)

legacy: build ## an application that was never written for it, resident: is each answer right?
	python3 bench/legacy.py $(BENCH_FLAGS)

operate: build ## kill, stop, reload, deploy and replace under load: does a request fail?
	python3 bench/operate.py $(BENCH_FLAGS)

overload: build ## twice the capacity, and slow requests beside fast ones: who is served, how soon, with what memory?
	@dev/packages bench/packages.txt apps/symfony/packages.txt
	python3 bench/overload.py $(BENCH_FLAGS)

watch: build ## how long from a saved file to the first answer of its code?
	python3 bench/watch.py $(BENCH_FLAGS)

attack: build ## attack the server in every known way: does a normal client notice?
	python3 bench/attack.py $(BENCH_FLAGS)

chaos: build ## kill 200 workers under load: does each answer belong to its request?
	python3 bench/chaos.py $(BENCH_FLAGS)

.PHONY: packages-build packages-test packages-php-src packages-check
packages-build:
	@dev/packages dev/build.packages

packages-test:
	@dev/packages dev/build.packages dev/test.packages apps/symfony/packages.txt

packages-php-src:
	@dev/packages dev/build.packages dev/php-src.packages

packages-check:
	@dev/packages dev/check.packages
