# make help says what there is. Debian's make and bash, Go and gcc are all that is needed.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# What ships is static. The same settings for build, lint and generate let them share one build cache.
GO_STATIC := CGO_ENABLED=0 GOFLAGS="$${GOFLAGS:-} -trimpath"
BUILD := $(GO_STATIC) go build -ldflags '$(LDFLAGS)'

# Process tests run this binary. The path is absolute, because a test runs in its package's folder.
export GRAPHSUBD_BIN := $(CURDIR)/bin/graphsubd

# The race detector needs cgo. No result is taken from the cache: -shuffle=on rules it out.
TEST_FLAGS := -race -shuffle=on $(if $(SHORT),-short)
GO_TEST := CGO_ENABLED=1 go test $(TEST_FLAGS)

# One golangci-lint per version, built from tools/go.mod and kept outside the tree.
GOLANGCI_VERSION := $(shell sed -n 's|^.*github.com/golangci/golangci-lint/v2 \(v[^ ]*\).*|\1|p' tools/go.mod)
TOOL_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/graphsubd/tools
GOLANGCI_LINT := $(TOOL_CACHE)/golangci-lint-$(GOLANGCI_VERSION)

FUZZTIME ?= 1m

.PHONY: help
help: ## Say what there is.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/graphsubd, static.
	@$(BUILD) -o '$(GRAPHSUBD_BIN)' ./cmd/graphsubd

.PHONY: build-timed
build-timed: ## Build with an empty build cache and print build_cold_s.
	@dir=$$(mktemp -d)
	trap 'rm -rf "$$dir"' EXIT
	start=$${EPOCHREALTIME/[.,]/}
	GOCACHE=$$dir/cache $(BUILD) -o "$$dir/graphsubd" ./cmd/graphsubd
	echo "build_cold_s $$(( ($${EPOCHREALTIME/[.,]/} - start) / 1000000 ))"

.PHONY: test
test: ## Run all tests with the race detector. SHORT=1 leaves out the long ones and those whose programs are missing.
	@command -v "$${CC:-gcc}" >/dev/null || { echo 'make test: the race detector needs a C compiler (gcc)' >&2; exit 1; }
	tools/part programs tools/programs
	tools/part build $(MAKE) build
	all=$$(go list ./...)
	packages=$$(grep -vE '^[^/]+/[^/]+/[^/]+/test(/|$$)' <<<"$$all")
	processes=$$(grep -E '^[^/]+/[^/]+/[^/]+/test(/|$$)' <<<"$$all")
	failed=0
	# Tests on a real Kubernetes API fail without these; SHORT leaves them out.
	[[ -n '$(SHORT)' ]] || { set -a; eval "$$(tools/controlplane/build || echo failed=1)"; set +a; }
	tools/part packages env $(GO_TEST) $$packages || failed=1
	# They wait for processes most of the time, so more of them run than there are cores.
	tools/part processes env $(GO_TEST) -parallel 12 $$processes || failed=1
	exit $$failed

.PHONY: test-short
test-short: ## Run the short tests only.
	@$(MAKE) test SHORT=1

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver and helm for tests; the first time takes a quarter of an hour.
	@tools/controlplane/build

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run golangci-lint, formatting included.
	@$(GO_STATIC) '$(GOLANGCI_LINT)' run ./...

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the Go code.
	@'$(GOLANGCI_LINT)' fmt ./...

$(GOLANGCI_LINT):
	@echo 'building golangci-lint $(GOLANGCI_VERSION); the first time takes minutes' >&2
	mkdir -p '$(TOOL_CACHE)'
	$(GO_STATIC) go -C tools build -ldflags '-s -w' -o '$@.'$$$$ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	mv -f '$@.'$$$$ '$@'

.PHONY: bench
bench: ## Run one group of benchmarks: make bench BENCH=group. A group is a program in test/bench/group.
	@if [[ -z '$(BENCH)' || ! -e 'test/bench/$(BENCH)/main.go' ]]; then
		echo "make bench: no group '$(BENCH)'; there is:" $$(cd test/bench 2>/dev/null && ls */main.go 2>/dev/null | xargs -rn1 dirname) >&2
		exit 2
	fi
	$(MAKE) build >&2
	[[ '$(BENCH)' != failover ]] || { set -a; eval "$$(tools/controlplane/build)"; set +a; }
	$(GO_STATIC) go run './test/bench/$(BENCH)'

.PHONY: crash
crash: build ## Kill the binary 200 times while notifications arrive, and look for what was acknowledged and is lost.
	@$(GO_STATIC) go run ./test/crash/cmd

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME, a minute unless set.
	@found=$$(grep -roE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' cmd internal test | sed -E 's|^(.*)/[^/]*:func (.*)$$|\1 \2|' || true)
	[[ -n $$found ]] || { echo 'make fuzz: there is no fuzz test' >&2; exit 1; }
	while read -r dir name; do
		tools/part "$$name" go test -run '^$$' -fuzz "^$$name\$$" -fuzztime '$(FUZZTIME)' "./$$dir"
	done <<<"$$found"

SEEDS ?= 5000

.PHONY: soak
soak: ## Play SEEDS random histories of the renewal, 5000 unless set, and print their seed.
	@$(GO_TEST) -v -timeout 24h ./internal/renewal -run '^(TestHistories|TestPlantedFaultsAreFound)$$' -rapid.checks='$(SEEDS)'

.PHONY: demo
demo: build ## Show the whole way of a subscription, with a simulator in place of Graph.
	@'$(GRAPHSUBD_BIN)' demo

.PHONY: generate
generate: ## Write the generated files anew.
	@$(GO_STATIC) go generate ./...

.PHONY: verify
verify: ## Fail when generated files are not up to date.
	@state() { git status --porcelain; git diff HEAD; }
	before=$$(state)
	$(MAKE) generate
	[[ $$(state) == "$$before" ]] || { git status --short; echo 'make verify: run make generate and commit the result' >&2; exit 1; }

.PHONY: ci
ci: ## Run what CI runs.
	@.ci/run

.PHONY: clean
clean: ## Remove what was built here.
	@rm -rf bin dist coverage.out
