# Everything needs Go alone; the main binary is built without cgo.
#
#   make demo     two minutes: build, load, sweep, the answer and a report in demo/
#   make test     what CI runs
#   make help     the rest

GO := go
MODULE := github.com/statelab/statelab
export CGO_ENABLED := 0

.PHONY: help build demo test tools format vet unit e2e fixtures slow race fuzz bench clean

help:
	@echo "build     bin/statelab"
	@echo "demo      load a database, sweep its cache, print the answer, write demo/sweep/report.html"
	@echo "test      format, vet, all tests of both modules"
	@echo "slow      every published point predicted, every access resolved: half an hour"
	@echo "race      tests of the concurrent packages under the race detector (needs a C compiler)"
	@echo "fuzz      every fuzz test for FUZZ_SECONDS (default 10)"
	@echo "bench     all benchmarks"
	@echo "clean     remove bin and demo"

build: tools
	$(GO) build -o bin/statelab ./cmd/statelab

# Six caches around the inflection points, so that all three phases show.
DEMO_KEYS := 800k
DEMO_CACHES := 0.3%,0.6%,1%,1.5%,2%,4%

demo: build
	rm -rf demo
	mkdir demo
	bin/statelab load --db demo/db --keys $(DEMO_KEYS)
	bin/statelab sweep --db demo/db --cache $(DEMO_CACHES) --gets 100k --name demo --out demo/sweep
	@echo
	@echo "Open demo/sweep/report.html, or measure a database of your own:"
	@echo "  bin/statelab sweep --db DIR --use-existing --cache $(DEMO_CACHES) --out S"

test: tools format vet unit e2e fixtures
	@echo "make test: all passed"

tools:
	@command -v $(GO) >/dev/null || { echo "make: Go is missing: install Go 1.26 or newer (https://go.dev/dl)" >&2; exit 1; }

format:
	@unformatted=$$(gofmt -l . ); test -z "$$unformatted" || { echo "make: not formatted, run gofmt -w:" $$unformatted >&2; exit 1; }

vet:
	$(GO) vet ./...
	cd fixtures/gethchain && $(GO) vet ./...

# The slow ones, marked by testing.Short, have a target of their own.
unit:
	$(GO) test -short -timeout 30m $$($(GO) list ./... | grep -vxF -e $(MODULE) -e $(MODULE)/cmd/statelab)

# Go's test cache does not see what a child process read: never cached.
e2e:
	$(GO) test -count=1 -timeout 30m . ./cmd/statelab

fixtures:
	cd fixtures/gethchain && $(GO) test ./...

slow:
	$(GO) test -timeout 60m ./internal/predict ./internal/resolve

race:
	CGO_ENABLED=1 $(GO) test -race ./internal/measure ./internal/bench ./internal/supervise ./internal/sweep ./internal/blockio/... ./engines/...

FUZZ_SECONDS := 10

fuzz:
	@set -e; grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | while IFS=: read -r file target; do \
		target=$${target#func }; \
		echo "fuzz $$(dirname $$file) $$target"; \
		(cd "$$(dirname $$file)" && $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_SECONDS)s . </dev/null); \
	done

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

clean:
	rm -rf bin demo
