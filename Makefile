# The commands a person types. Each does its own set-up, says what it does, and is quick the second time.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo kafka test build check-format codegen soak crash bench bench-operator clean packages services

CACHE := $(or $(WEIR_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/weir)

# A fresh clone on the same machine finds the last build again: outside the checkout where CI is set, else cargo's own place.
ifdef CI
export CARGO_TARGET_DIR ?= $(CACHE)/target
export CARGO_INCREMENTAL ?= 0
endif
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)

# Tests need the failpoints, users do not get them.
TESTING := --workspace --features weir-core/failpoints

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## stream real weather readings into a Delta table and show its rows
	@PATH="$(CURDIR)/bin:$$PATH" bash examples/quickstart/run.sh

KAFKA_PORT ?= 9092

kafka: packages ## run a Kafka broker on localhost:9092 (KAFKA_PORT=…) until Ctrl-C, to try Kafka jobs with
	@scripts/kafka.sh $(KAFKA_PORT)

test: packages services ## run every test, on a real Kafka broker, S3 store, Spark and Kubernetes API server
	@scripts/test.sh $(TESTING)

build: ## build bin/weir and bin/weir-operator
	@scripts/setup-packages.sh --build
	cargo build -p weir -p weir-operator --features weir-operator/test-clock
	@mkdir -p bin && ln -sfn "$(TARGET)/debug/weir" bin/weir && ln -sfn "$(TARGET)/debug/weir-operator" bin/weir-operator

check-format: ## say which files are not formatted
	cargo fmt --all --check

codegen: ## write the generated files anew: CRDs, reference pages
	cargo xtask codegen

soak: packages services ## the long form of the soak tests (hours)
	@WEIR_TEST_LENGTH=long scripts/test.sh $(TESTING) -- soak m13 --nocapture

crash: packages services ## the long form of the crash tests: WEIR_CRASHES (1000) of them by WEIR_SEED; ONLY=… takes one pair
	@WEIR_TEST_LENGTH=long scripts/test.sh $(TESTING) -- $(or $(ONLY),crash) --nocapture

bench: packages services ## measure a release build beside Spark and print the figures
	cargo build --release -p weir
	@WEIR="$(TARGET)/release/weir" bash bench/run.sh

bench-operator: packages ## measure a release build of the operator with 10 000 jobs on a real API server
	@scripts/setup-kubernetes.sh >/dev/null
	cargo build --release -p weir-operator
	@WEIR_OPERATOR="$(TARGET)/release/weir-operator" bash bench/operator.sh

clean: ## remove what was built here (the cache outside the checkout stays)
	cargo clean
	rm -rf bin .weir
	@echo "downloads and services are kept in $(CACHE)"

packages:
	@scripts/setup-packages.sh

services:
	@scripts/setup-services.sh
