# `make` alone lists the targets. Each fails on the first error it meets;
# `make -k lint` goes on and shows all of them.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Go's usual home is tried too, also by tests that build the binary.
export PATH := $(PATH):/usr/local/go/bin

GO       ?= go
PKGS     ?= ./...
BENCH    ?= .
FUZZTIME ?= 10s
ARGS     ?=

# Go stamps binaries with the commit, and fails to build where git refuses to
# answer: a clone owned by another user, or one without a commit.
ifneq ($(wildcard .git),)
ifeq ($(shell git log -1 --format=%h 2>/dev/null),)
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -buildvcs=false)
endif
endif

# Modules beside the main one: linters, and (if there) the measured peers.
SIDE_MODULES := tools $(patsubst %/go.mod,%,$(wildcard bench/go.mod))

say = @printf '\n== %s\n' '$(1)'

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' Makefile

# The race detector brings checks of pointer arithmetic along. SQLite, turned from
# C into Go, is nothing but that: it would spend two fifths of the tests' time.
NOCHECKPTR := -gcflags=modernc.org/sqlite/lib=-d=checkptr=0

.PHONY: test
test: ## run all tests, shuffled, under the race detector (PKGS=./limit/...)
	$(call say,tests)
	@race=$$(tools/race-flag); \
	if [ -n "$$race" ]; then export CGO_ENABLED=1; fi; \
	tools/pgtest; \
	set -x; exec bin/pgtest $(GO) test $$race $(NOCHECKPTR) -shuffle=on -timeout 15m $(PKGS)

# Packages that talk to PostgreSQL, and its oldest and newest versions.
PGPKGS ?= ./store/postgres/...
MAJORS ?= 14 18

.PHONY: test-majors
test-majors: ## test on other versions of PostgreSQL, fetched by npm (MAJORS="14 15 16 17 18")
	$(call say,tests on PostgreSQL $(MAJORS))
	@tools/postgres-majors $(MAJORS) -- $(GO) test -count=1 -timeout 15m $(PGPKGS)

.PHONY: lint lint-fmt lint-vet lint-static lint-rooms lint-tidy
lint: lint-fmt lint-vet lint-static lint-rooms lint-tidy ## gofmt, vet, staticcheck, room rules, tidy go.mod files
	$(call say,lint: all clean)

lint-fmt:
	$(call say,gofmt)
	@odd=$$(gofmt -l .); \
	if [ -n "$$odd" ]; then printf 'gofmt would change these; run: gofmt -w .\n%s\n' "$$odd"; exit 1; fi

lint-vet:
	$(call say,go vet)
	$(GO) vet ./...
	@if [ -f bench/go.mod ]; then set -x; $(GO) -C bench vet ./...; fi

lint-static:
	$(call say,staticcheck)
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

lint-rooms:
	$(call say,room rules)
	$(GO) test -count=1 ./internal/rooms

lint-tidy:
	$(call say,go.mod files tidy)
	$(GO) mod tidy -diff
	@for m in $(SIDE_MODULES); do (set -x; $(GO) -C "$$m" mod tidy -diff); done

.PHONY: build
build: ## build bin/penstock
	$(call say,build)
	$(GO) build -trimpath -o bin/penstock ./cmd/penstock

.PHONY: demo
demo: ## show the main job on a pretend API (ARGS="--cap 10")
	$(GO) run ./cmd/penstock demo $(ARGS)

.PHONY: bench
bench: ## measure beside River, goqite and gue (ARGS="-quick -only drain")
	$(call say,bench)
	$(GO) -C bench run . $(ARGS)

.PHONY: gobench
gobench: ## run the Go benchmarks of the packages (BENCH=regexp, PKGS=./store/...)
	$(call say,benchmarks)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKGS)

.PHONY: sim
sim: ## play 10,000 seeds of the simulation, some four days in all (SEEDS=100000)
	$(call say,simulation)
	$(GO) test ./internal/sim -run 'TestWeek$$' -sim.seeds=$(or $(SEEDS),10000) -timeout 0

.PHONY: fuzz
fuzz: ## fuzz every Fuzz target for a short while (FUZZTIME=10s, PKGS=./limit/...)
	$(call say,fuzz)
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' tools/fuzz $(PKGS)

.PHONY: cover
cover: ## measure test coverage into bin/cover.out
	$(call say,coverage)
	@mkdir -p bin
	$(GO) test -covermode=atomic -coverprofile=bin/cover.out $(PKGS)
	@$(GO) tool cover -func=bin/cover.out | tail -n 1
	@echo 'line by line: go tool cover -html=bin/cover.out'

.PHONY: clean
clean: ## remove what the targets above built
	rm -rf bin
