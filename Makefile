# Every command people and CI run. `make help` lists them.
#
# `make run` and `make test` do all of their own set-up on a fresh machine with git, make, cargo, node, npm and apt.

SHELL := /bin/bash
CARGO ?= cargo
# Where `make run` listens, and where it keeps draws. LAN=1 listens for the whole network,
# and is open to everyone in it; the relay says so when it starts.
LISTEN ?= $(if $(LAN),0.0.0.0:8080,127.0.0.1:8080)
DATA ?= ./inkrelay-data

WEB := clients/web
# What npm writes when it has installed everything.
MODULES := $(WEB)/node_modules/.package-lock.json
# Other servers, for comparison.
BASELINES := load-generator/baselines
BASELINE_MODULES := $(patsubst %,$(BASELINES)/%/node_modules/.package-lock.json,node-json socketio)
# Folders too: their time changes when a file is removed.
WEB_SOURCES := $(shell find $(WEB)/src $(WEB)/app $(WEB)/operators \( -name node_modules -o -name dist \) -prune -o -print) $(wildcard $(WEB)/*.json)

.PHONY: help run relay web test lint docs unit redis chromium need-node web-lint web-unit web-relay web-browser \
        web-measure browsers debug-relay fuzz fuzz-build conformance audit load measure demo clean \
        baselines baselines-node baselines-check messaging compare bounds proxies manifests small-machine

help: ## List these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

run: web relay ## Build the drawing board and start the relay with it; LAN=1 for iPads in this network

relay: ## Start the relay with its embedded store, and with the board if that was built
	$(CARGO) run --release --package inkrelay-server --bin inkrelay -- serve --listen $(LISTEN) $(if $(LAN),--open) --data $(DATA)

web: $(WEB)/dist/index.html ## Build the drawing board, where its sources are newer

$(WEB)/dist/index.html: $(MODULES) $(WEB_SOURCES)
	cd $(WEB) && npm run --silent build
	@touch $@

$(MODULES): $(WEB)/package-lock.json | need-node
	cd $(WEB) && npm ci --no-audit --no-fund
	@touch $@

need-node:
	@deploy/need-node

test: web web-lint web-unit redis lint docs unit fuzz-build web-relay web-browser ## All tests, with all of their own set-up

redis: ## Install redis-server by apt if it is missing; tests start their own on free ports
	@deploy/install-missing redis-server redis-server

lint: ## Format and clippy, warnings as errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings
	$(CARGO) clippy --package inkrelay-server --all-targets --features otel --locked -- --deny warnings

docs: ## The documentation of the code, warnings as errors
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --no-deps --locked

proxies: ## Install nginx, Caddy, promtool and openssl by apt where they are missing; tests start their own
	@deploy/install-missing nginx nginx-light
	@deploy/install-missing caddy caddy
	@deploy/install-missing promtool prometheus
	@deploy/install-missing openssl openssl

manifests: ## Hold the Kubernetes manifests against the schemas that Kubernetes publishes
	deploy/check-manifests

small-machine: redis load ## Hold the relay and its Redis to 524 MB under ten times the load of 2010 and 10,000 connections
	deploy/check-small-machine

unit: redis proxies chromium baselines-node ## All tests of the relay and the load generator, without lint and docs
	$(CARGO) test --workspace --locked

web-lint: $(MODULES) ## Types, format and lint of the web client
	cd $(WEB) && npx tsc --noEmit && npx biome check --error-on-warnings .

web-unit: $(MODULES) ## The web client's tests without a relay
	cd $(WEB) && npx vitest run --project unit

web-relay: $(MODULES) debug-relay ## The web client's tests against a relay
	cd $(WEB) && npx vitest run --project relay

web-browser: web debug-relay browsers ## The drawing board's tests in Chromium, Firefox and WebKitGTK
	cd $(WEB) && npx vitest run --project browser

web-measure: web debug-relay browsers ## How a board of 5,000 strokes feels in Chromium: frame times and times to join, as a table
	cd $(WEB) && npx vitest run --project measure

debug-relay: web
	$(CARGO) build --package inkrelay-server --bin inkrelay --locked

chromium:
	@deploy/install-missing chromium chromium

browsers: chromium ## Install the browsers by apt that are missing
	@deploy/install-missing firefox-esr firefox-esr
	@deploy/install-missing WebKitWebDriver webkit2gtk-driver
	@deploy/install-missing Xvfb xvfb

demo: redis ## The demonstration: two drawers, two servers, four readers and a late one; and what is killed meanwhile
	$(CARGO) test --package inkrelay-server --test it --locked -- --nocapture --test-threads 1 demonstration

fuzz-build: ## Build the fuzz targets
	$(CARGO) build --manifest-path protocol/fuzz/Cargo.toml --locked

fuzz: ## Fuzz the check of draws and the frames for a minute each
	protocol/fuzz/run.sh

conformance: ## The WebSocket conformance cases against an echo server with exactly our settings
	deploy/conformance

audit: ## Licences, sources and duplicate versions of what is depended on
	@command -v cargo-deny > /dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny --workspace check bans licenses sources

load: ## Build the load generator and a relay beside it: target/release/inkrelay-load --help
	$(CARGO) build --release --package inkrelay-server --package inkrelay-load --bins --locked

measure: redis load ## Speed, memory and losses on two stores; takes a few minutes, pictures in ./measured
	for store in embedded redis; do \
		target/release/inkrelay-load replay --speed max --store $$store --out measured/replay-$$store \
			--label "replay, $$store" && \
		target/release/inkrelay-load fanout --store $$store --out measured/fanout-$$store \
			--label "fanout, $$store" || exit 1; \
	done
	target/release/inkrelay-load report measured/*/report.json --out measured/report.html > /dev/null
	@echo "side by side: measured/report.html"

$(BASELINES)/%/node_modules/.package-lock.json: $(BASELINES)/%/package-lock.json | need-node
	cd $(BASELINES)/$* && npm ci --no-audit --no-fund
	@touch $@

baselines-node: $(BASELINE_MODULES)

baselines: redis baselines-node ## Install what the other servers need, by npm and apt
	@deploy/install-missing strace strace
	@deploy/install-missing javac default-jdk-headless
	@deploy/install-missing erl erlang-base
	@deploy/install-missing '/usr/lib/erlang/lib/inets-*' erlang-inets
	@deploy/install-missing '/usr/lib/erlang/lib/mochiweb*' erlang-mochiweb
	@deploy/install-missing '/usr/lib/erlang/lib/redis_client-*' erlang-redis-client
	@deploy/install-missing nginx nginx-light
	@deploy/install-missing /usr/lib/nginx/modules/ngx_nchan_module.so libnginx-mod-nchan

baselines-check: baselines ## Pass draws through each of the other servers, with all checks
	$(CARGO) build --package inkrelay-load --bin inkrelay-load --locked
	$(BASELINES)/check target/debug/inkrelay-load

messaging: baselines ## What it costs to pass 10,000,000 messages between two workers, in seven ways
	$(CARGO) run --release --package inkrelay-load --locked -- messaging

compare: baselines ## Measure the relay against the other servers and write docs/COMPARISON.md; under an hour, resumable
	$(CARGO) build --release --locked --package inkrelay-server --package inkrelay-load --bins
	target/release/inkrelay-load compare

bounds: baselines load ## Measure each bound that the relay is to hold, and say what is missed; a quarter of an hour, resumable
	target/release/inkrelay-load bounds

clean: ## Remove what was built; draws stay
	$(CARGO) clean
	rm -rf $(WEB)/dist $(WEB)/operators/dist $(WEB)/lib $(WEB)/node_modules $(BASELINES)/*/node_modules $(BASELINES)/erlang-binary/ebin $(BASELINES)/nchan/run
