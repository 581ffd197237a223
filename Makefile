# Millstream: make help lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE  := $(CURDIR)/.cache
BIN    := $(CURDIR)/bin
PKGS   ?= ./...
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
export PATH := $(CACHE)/bin:$(PATH)

VERSITYGW := $(CACHE)/bin/versitygw
VERSITYGW_VERSION := v1.8.0
OTELCOL := $(CACHE)/bin/otelcol
PROMETHEUS := $(CACHE)/bin/prometheus
PROTO_TOOL := go tool -modfile=$(CURDIR)/tools/protoc/go.mod -n

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install what building and running needs: a C++ compiler and PostgreSQL (Debian packages)
	@scripts/deps.sh

.PHONY: build
build: deps ## build bin/millstream
	go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/millstream ./cmd/millstream

.PHONY: run
run: build ## build and start a standalone node in ./data, without any configuration
	exec $(BIN)/millstream serve

.PHONY: dev
dev: build ## start a node in ./data/dev with a known owner (dev@localhost.test / millstream-dev)
	MS_NODE_DATA_DIR=$(CURDIR)/data/dev MS_AUTH_ROOT_EMAIL=dev@localhost.test MS_AUTH_ROOT_PASSWORD=millstream-dev MS_TELEMETRY_LOG_LEVEL=debug $(BIN)/millstream serve

.PHONY: cluster
cluster: build ## start a small cluster of split roles in ./data/cluster, to play with; ARGS='-port 6080 -dir DIR' for other ports or another place
	go run ./scripts/cluster -binary $(BIN)/millstream $(ARGS)

.PHONY: test
test: deps $(VERSITYGW) ## run every test: Go with the race detector against real PostgreSQL and a real S3 server, then the pages in a real browser
	$(MAKE) check
	go test -race -timeout 25m $(PKGS)
	$(MAKE) ui-check browser

.PHONY: race
race: test ## the same as test: the race detector is always on

.PHONY: check
check: ## formatting, vet and layers: the quick part of lint
	@unformatted=$$(gofmt -l $$(git ls-files '*.go' | grep -v '_templ\.go$$')); if [ -n "$$unformatted" ]; then echo "not gofmt-ed: $$unformatted"; exit 1; fi
	go vet ./...
	go test -count=1 ./internal/layers

.PHONY: lint
lint: check ## check and golangci-lint (built from its module the first time: minutes)
	go tool -modfile=tools/golangci/go.mod golangci-lint run ./...

.PHONY: generate
generate: ## regenerate sqlc, templ, the protocol between nodes and the configuration reference
	go tool -modfile=tools/sqlc/go.mod sqlc generate
	go tool -modfile=tools/templ/go.mod templ generate ./ui
	scripts/deps.sh protoc
	cd rpc && protoc --plugin="$$($(PROTO_TOOL) protoc-gen-go)" --plugin="$$($(PROTO_TOOL) protoc-gen-go-grpc)" \
		--go_out=rpcpb --go_opt=paths=source_relative --go-grpc_out=rpcpb --go-grpc_opt=paths=source_relative rpc.proto
	go test -count=1 ./internal/config -update

.PHONY: verify
verify: generate ## generated files are what generate makes
	git diff --exit-code -- store/db ui rpc/rpcpb docs/reference.md

.PHONY: bench
bench: build ## the figures of BENCHMARKS.md: package benchmarks, then the product under load
	go test -run '^$$' -bench . -benchmem $(PKGS)
	scripts/bench.sh

UI_MODULES := ui/node_modules/.package-lock.json

$(UI_MODULES): ui/package-lock.json
	scripts/deps.sh node
	npm ci --prefix ui --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: ui
ui: $(UI_MODULES) ## build the browser's files into ui/dist, which is committed (needs Node.js)
	node ui/build.mjs

.PHONY: ui-check
ui-check: $(UI_MODULES) ## types and units of the browser's code, and that ui/dist is what it builds
	npm --prefix ui run check
	npm --prefix ui run unit
	node ui/build.mjs
	git diff --exit-code --stat -- ui/dist

.PHONY: browser
browser: build $(UI_MODULES) ## every page in headless Chromium against a real node; Chromium is installed if it is missing
	scripts/deps.sh chromium
	MS_TEST_BINARY=$(BIN)/millstream npm --prefix ui run e2e

.PHONY: browser-bench
browser-bench: build $(UI_MODULES) ## when pages are seen on a slow machine, and the memory of half an hour of following (10 min; quietly)
	scripts/deps.sh chromium
	MS_FIGURES=full MS_TEST_BINARY=$(BIN)/millstream npm --prefix ui run e2e -- figures

.PHONY: e2e
e2e: build browser $(OTELCOL) $(PROMETHEUS) ## real senders against a real node, also a real Collector and Prometheus (built the first time: 10 CPU minutes); test replays what those two sent
	MS_E2E=full MS_TEST_BINARY=$(BIN)/millstream go test -count=1 -timeout 20m -v ./internal/e2e

.PHONY: faults
faults: build $(VERSITYGW) ## the long fault campaigns; their short versions run in test
	MS_FAULTS=full go test -count=1 -timeout 120m ./internal/faults ./ingest/... ./store/... ./compactor

.PHONY: cluster-test
cluster-test: build $(VERSITYGW) ## the long campaign against a cluster of processes: 2 routers, 3 intakes, 3 queriers, 2 compactors, 2 alert nodes; its short version runs in test
	MS_CLUSTER=full MS_TEST_BINARY=$(BIN)/millstream go test -count=1 -timeout 120m -v -run 'TestProcesses' ./internal/clustertest

$(VERSITYGW):
	GOBIN=$(CACHE)/bin go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)

$(OTELCOL): tools/collector/main.go tools/collector/go.mod
	nice go -C tools/collector build -ldflags "-s -w" -o $@ .

$(PROMETHEUS): # of the version that the product's engine is; without service discovery, which is most of its code
	GOBIN=$(CACHE)/bin nice go install -ldflags "-s -w" -tags remove_all_sd github.com/prometheus/prometheus/cmd/prometheus@$$(go list -m -f '{{.Version}}' github.com/prometheus/prometheus)
