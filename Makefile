# Every command people and CI run. `make help` lists them.
#
# `make run` and `make test` do all of their own set-up on a fresh machine with git, make, cargo, node and apt.

SHELL := /bin/bash
CARGO ?= cargo
# Where `make run` listens, and where it keeps draws.
LISTEN ?= 127.0.0.1:8080
DATA ?= ./inkrelay-data

.PHONY: help run test lint docs unit redis fuzz fuzz-build conformance audit measure demo clean

help: ## List these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: ## Start the relay with its embedded store
	$(CARGO) run --release --package inkrelay-server --bin inkrelay -- serve --listen $(LISTEN) --data $(DATA)

test: redis lint docs unit fuzz-build ## All tests, with all of their own set-up

redis: ## Install redis-server by apt if it is missing; tests start their own on free ports
	@deploy/install-missing redis-server redis-server

lint: ## Format and clippy, warnings as errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings

docs: ## The documentation of the code, warnings as errors
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --no-deps --locked

unit: redis ## All tests, without lint and docs
	$(CARGO) test --workspace --locked

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

measure: redis ## A first measure of speed, memory and losses; takes a few minutes
	$(CARGO) build --release --package inkrelay-server --bins --examples
	$(CARGO) run --release --package inkrelay-server --example measure

clean: ## Remove what was built; draws stay
	$(CARGO) clean
