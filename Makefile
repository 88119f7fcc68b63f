# The main binary is built without cgo: Go alone is enough for `make demo` and `make test`. Engines
# in C, C++ and Rust and the trees live in runner binaries of their own; `make ci` installs what
# those need, and says so before it does. `make help` lists all targets.

GO := go
MODULE := github.com/statelab/statelab
export CGO_ENABLED := 0
# Go's cache then serves every checkout, and builds with cgo and without it share the packages that
# use no C. Nothing is made for debuggers (stack traces need none of it), and a compiler that collects
# no garbage takes a third less CPU time. The target vet looks at tests, too: each test need not do so again.
export GOFLAGS := -trimpath -tags=netgo,osusergo -ldflags=-s -gcflags=all=-dwarf=false -vet=off \
	'-toolexec=env GOGC=off GOMEMLIMIT=2GiB' $(GOFLAGS)
# Some CI systems set no home, and Go and cargo keep what they build there.
export HOME ?= $(shell getent passwd $$(id -u) | cut -d: -f6)
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

# Engines whose runner needs a C compiler, and trees, each a module of its own.
C_ENGINES := rocksdb mdbx lmdb cengine
C_RUNNERS := pebble rocksdb mdbx lmdb native flatmdbx states
C_PACKAGES := $(C_ENGINES:%=./engines/%) ./internal/adapt/mmapdb ./internal/adapt/sharedlib ./internal/observe/pagefile ./layouts/clayout
# Libraries of layouts and engines in Rust: the package statelab-NAME is a layout, NAME-engine an engine.
RUST_LIBRARIES := $(shell cd native/rust && for crate in $$(sed -n 's/^members = //p' Cargo.toml | tr -d '[]",'); do \
	grep -q cdylib $$crate/Cargo.toml && sed -n '1,3s/^name = "\(.*\)"/lib\1.so/p' $$crate/Cargo.toml; done | tr - _)
# A crate outside their workspace, as others write one.
RUST_EXAMPLE := $(CURDIR)/examples/native-rust
RUST_VERSION := 1.95
# Outside the checkout, as Go's cache is: QMDB's dependencies take ten minutes of CPU.
RUST_TARGET := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/statelab/rust
CARGO := TARGET=$(RUST_TARGET) scripts/cargo
MODULES := $(patsubst %/go.mod,%,$(wildcard trees/*/go.mod layouts/*/go.mod))
# Modules of their own without a runner, an example among them.
FIXTURES := fixtures/gethchain fixtures/cosmos fixtures/erigon fixtures/browser fixtures/manifests examples/blockreads examples/blockreads-geth \
	examples/measure

# Runs the rings of tests, and go test within them: scripts/ring/main.go.
RINGS := GO=$(GO) $(GO) run ./scripts/ring
GOTEST := $(RINGS) gotest

# An exact version: what it finds is new because the code is. Go's checksum database
# holds what is run to it.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
REVIVE := github.com/mgechev/revive@v1.12.0
export NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.48.0

# What a cluster on loopback takes.
CLUSTER_NEEDS := slurmctld:slurmctld,slurm-wlm slurmd:slurmd,slurm-wlm munged:munge sbatch:slurm-client,slurm-wlm

.PHONY: help statelab build platforms go-runners runners rocksdb rust trees demo tools needs lint format vet
.PHONY: test ci slow check ci-under-load tidy test-unit test-e2e unit e2e c-engines rust-tests tree-modules fixtures
.PHONY: slow-parts staticcheck revive clippy shellcheck soak watched race fuzz bench dist dist-test dist-check clean
.PHONY: bpf ci-needs test-needs cluster-needs cluster-test storm damage audit bench-peers outdated site site-test

help:
	@sed -n 's/^#: \{0,1\}//p' Makefile

#: BUILD AND TRY
#:   demo      two minutes: load a database, sweep its cache, write a report
#:   build     bin/statelab; with a C compiler bin/statelab-run-pebble, too
#:   runners   engines and layouts in C, C++ and Rust (installs what is missing)
#:   trees     state trees and go-ethereum's layouts (needs a C compiler)
#:   clean     remove bin, demo, dist and peers
#: TEST
#:   check     a minute: the tests of what depends on the files you changed
#:   test      Go alone: no root, nothing is installed
#:   ci        everything else: engines, trees, Rust, browser, Slurm, race, fuzz,
#:             lint (installs what is missing, and says what before it does)
#:   slow      hours: published points, every access, 10,000 blocks, 50 kills
#:   unit e2e c-engines rust-tests tree-modules fixtures site-test race fuzz lint
#:             parts of ci; make e2e RUN=Budget runs the tests of that name
#:   watched storm damage soak cluster-test
#:             hours of one kind of test each (the Makefile says what they do)
#:   ci-under-load   ci beside busy loops, fsync and memory pressure
#: RELEASE AND MAINTAIN
#:   dist      a tarball, a package of Debian and more of bin/ in dist/ (ARCH=arm64;
#:             SIGN_KEY=file signs them); dist-test FILE=...: one in an empty Debian
#:   bench     all benchmarks; bench-peers: beside db_bench and others
#:   bpf       recompiles what watch runs in the kernel (installs clang 19)
#:   site      this documentation as pages that can be searched, in site/
#:   audit outdated   vulnerabilities; newer versions (both need the internet)

# go itself collects less garbage as well.
statelab: tools
	GOGC=400 $(GO) build -o bin/statelab ./cmd/statelab

# The runner is Pebble with cgo, as nodes run it. An old one must not outlive what it was built from.
build: statelab
	@if command -v $$($(GO) env CC) >/dev/null && echo "build bin/statelab-run-pebble" && \
		CGO_ENABLED=1 $(GO) build -o bin/statelab-run-pebble ./cmd/statelab-run-pebble; then :; else \
		rm -f bin/statelab-run-pebble; echo "no C compiler that works: Pebble is measured in pure Go, with more memory than a node (docs/engines.md)"; fi

# Runners that need Go alone.
go-runners: tools
	$(GO) build -o bin/ ./cmd/statelab-run-parquet ./cmd/statelab-run-badger

runners: needs rocksdb rust go-runners
	CGO_ENABLED=1 $(GO) build -o bin/ $(C_RUNNERS:%=./cmd/statelab-run-%)

rocksdb: needs
	@engines/rocksdb/fetch.sh

# install replaces a file: a process that has the old one mapped keeps it.
rust: needs
	$(CARGO) build
	mkdir -p bin/lib
	install $(RUST_LIBRARIES:%=$(RUST_TARGET)/release/%) bin/lib

trees: tools
	@scripts/needs cc:gcc
	@set -e; for module in $(MODULES); do runner=statelab-run-$${module##*/}; echo "build bin/$$runner"; \
		(cd $$module && CGO_ENABLED=1 $(GO) build -o ../../bin/$$runner ./cmd/$$runner); done

# One program is enough: Pebble is measured in pure Go unless its runner has been built before.
# Six caches around the inflection points, so that all three regimes show. Reads go to the device
# where the filesystem allows it.
#
# The reads of one Get scatter by 0.67 around their mean at most (at 0.6%, where filters and top
# indexes come and go). The standard error of 40,000 Gets is then 0.0034 reads: less than half a
# unit of the third digit of 2.30, as of 100,000 Gets. 5,000 Gets before them bring four times as
# many blocks as the largest cache has room for.
DEMO_KEYS := 800k
DEMO_CACHES := 0.3%,0.6%,1%,1.5%,2%,4%
DEMO_GETS := 40000
# On a slow disk a point has as many Gets as it makes in this time, or 6,000, whose standard error is
# 0.009 reads, and the demo says so.
DEMO_POINT_SECONDS := 4
DEMO_SWEEP = bin/statelab sweep --db demo/db --threads 8 --page-cache $$mode

demo: $(if $(wildcard bin/statelab-run-pebble),build,statelab)
	rm -rf demo
	mkdir demo
	bin/statelab load --db demo/db --keys $(DEMO_KEYS)
	@mode=direct; bin/statelab doctor --db demo | grep -q '^ok *O_DIRECT' || { mode=asis; \
		echo "demo/ is on a filesystem without O_DIRECT: block reads below can be served from memory by the operating system"; }; \
	gets=$$($(DEMO_SWEEP) --cache 0.6% --gets 2k --warmup 500 --access-gets 0 --out demo/speed --quiet --json 2>/dev/null | \
		sed -n 's/.*"gets_per_second": *\([0-9]*\).*/\1/p' | head -n 1); gets=$$(($${gets:-10000} * $(DEMO_POINT_SECONDS))); rm -rf demo/speed; \
	if [ "$$gets" -ge $(DEMO_GETS) ]; then gets=$(DEMO_GETS); else [ "$$gets" -ge 6000 ] || gets=6000; \
		echo "This disk is slow: $$gets Gets for each point instead of $(DEMO_GETS), and the last digits are less certain."; fi; \
	set -- $(DEMO_SWEEP) --cache $(DEMO_CACHES) --gets $$gets --warmup 5k --access-gets 5k --out demo/sweep; \
	echo "$$@"; "$$@" --name demo
	@echo
	@echo "Open demo/sweep/report.html, or measure a database of your own:"
	@echo "  bin/statelab sweep --db DIR --use-existing --cache $(DEMO_CACHES) --page-cache direct --out S"

# The inner ring: Go alone. Tests of what is not here skip and say so (internal/base/testring).
# The main binary comes first: what both parts link is then compiled once.
test: tools
	@$(RINGS) run test $(MAKE_COMMAND) $(MAKEOVERRIDES) tidy test-e2e test-unit

# The outer ring: all that the inner one skipped. What Debian has is installed at once, before
# anything else: the parts then find it there.
CI_PARTS := lint runners trees e2e platforms dist-check unit c-engines rust-tests tree-modules fixtures site-test race fuzz

ci: ci-needs
	@$(RINGS) run ci $(MAKE_COMMAND) $(MAKEOVERRIDES) $(CI_PARTS)

ci-needs: tools
	@echo "make ci installs what is missing: packages of Debian (as root; named below), Go's modules, crates of Rust, and with"
	@echo "Maven RocksDB's library into bin/lib. make test needs none of them."
	@PATH="$$PATH:/usr/sbin" scripts/needs $(RUNNER_NEEDS) $(TEST_NEEDS) $(CLUSTER_NEEDS) $(LINT_NEEDS) $(DIST_NEEDS) chromium:chromium python3:python3

# e2e takes longest and waits most: it begins before other tests, because they wait for what it needs.
ifeq ($(RING),ci)
platforms dist-check unit c-engines rust-tests tree-modules fixtures site-test race fuzz: | runners trees cluster-needs
endif

# What the outer rings run skips nothing for lack of a program. Tests look for it in the environment.
unit e2e c-engines tree-modules fixtures site-test race slow-parts cluster-test watched storm damage soak: export STATELAB_TEST_ALL := 1

# One more part at a time than there are cores: some wait for a disk or a clock.
ci-under-load: ci-needs
	$(GO) run ./scripts/load $(MAKE_COMMAND) $(MAKEOVERRIDES) ci

# What depends on the files that git says are changed, and no more than fits into a minute.
check: tools
	@$(RINGS) check

# The rules of the repository itself. Go's test cache does not see which files there are.
tidy: tools
	$(GOTEST) -short -count=1 .

# Runners of their own in Go alone, whose libraries take as long to compile as all others.
LARGE_PACKAGES := ./engines/badger ./cmd/statelab-run-badger ./cmd/statelab-run-parquet ./internal/chain/xatu

test-unit: tools | statelab
	@$(RINGS) skip 'make ci runs it: its libraries take long to compile' $(LARGE_PACKAGES)
	@$(RINGS) skip 'make ci runs it: it needs a C compiler, or is a module of its own' $(C_PACKAGES) $(MODULES) $(FIXTURES)
	$(GOTEST) -short -timeout 30m $$($(GO) list -find ./... | grep -vxF -e $(MODULE) -e $(MODULE)/cmd/statelab \
		$(LARGE_PACKAGES:./%=-e $(MODULE)/%))

test-e2e: statelab
	@$(RINGS) e2e '$(RUN)'

tools:
	@command -v $(GO) >/dev/null || { echo "make: Go is missing: install Go 1.26 or newer (https://go.dev/dl)" >&2; exit 1; }

# What the runners are built with. Installed from Debian's packages where that is
# possible, else named.
RUNNER_NEEDS := cc:gcc mvn:maven unzip:unzip cargo@$(RUST_VERSION):cargo-web,rustup,cargo fio:fio

needs:
	@scripts/needs $(RUNNER_NEEDS)

# What watch runs in the kernel is compiled by one version, whose bytes are in the repository. Headers have no command.
BPF_CLANG := 19.1.7
BPF_NEEDS := clang-19:clang-19 llvm-strip-19:llvm-19 $(if $(wildcard /usr/include/bpf/bpf_helpers.h),,libbpf:libbpf-dev)

bpf: tools
	@scripts/needs $(BPF_NEEDS) clang-19@$(BPF_CLANG):clang-19
	$(GO) generate ./internal/observe/probe

# What tests run beside our own programs.
TEST_NEEDS := prometheus:prometheus db_bench:rocksdb-tools aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu $(BPF_NEEDS)

test-needs: tools
	@scripts/needs $(TEST_NEEDS)

# What needs no Linux must build elsewhere: predict, simulate, inspect, advise, report, compare, serve. Files that hold tests
# are compiled on Linux alone. Windows has least in common with Linux; slow builds for macOS too.
PLATFORMS := windows/amd64

platforms: tools
	@set -e; for system in $(PLATFORMS); do echo "build for $$system"; \
		GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) build -o /dev/null ./cmd/statelab; done

lint: format vet staticcheck revive clippy shellcheck

format: tools
	@unformatted=$$($$($(GO) env GOROOT)/bin/gofmt -l .); test -z "$$unformatted" || { echo "make: not formatted, run gofmt -w:" $$unformatted >&2; exit 1; }

# Packages that have files for builds without cgo, as the main binary is built, are vetted so as well.
vet: needs
	$(GO) vet $$(grep -rlE --include='*.go' '^//go:build.*!cgo' . | xargs -n 1 dirname | sort -u)
	@set -e; for module in . $(FIXTURES) $(MODULES); do echo "vet $$module"; (cd $$module && CGO_ENABLED=1 $(GO) vet ./...); done

# It reads all that a module depends on. In ci the small modules are vetted alone; slow checks them.
staticcheck: needs
	@set -e; for module in . $(if $(filter ci,$(RING)),,$(FIXTURES) $(MODULES)); do echo "staticcheck $$module"; \
		(cd $$module && CGO_ENABLED=1 $(GO) run $(STATICCHECK) ./...); done

# Names and comments, by the rules in scripts/revive.toml. It takes seconds, most of them to build it.
revive: needs
	@set -e; for module in . $(FIXTURES) $(MODULES); do echo "revive $$module"; \
		(cd $$module && CGO_ENABLED=1 $(GO) run $(REVIVE) -config $(CURDIR)/scripts/revive.toml -set_exit_status ./...); done

# Our crates alone are looked at; those of others are the ones that the libraries and the tests link (scripts/cargo).
CLIPPY_NEEDS := rustfmt@1.8:rustfmt-web,rustfmt cargo-clippy@0.$(RUST_VERSION):rust-web-clippy,rust-clippy
LINT_NEEDS := $(CLIPPY_NEEDS) shellcheck:shellcheck

clippy: needs
	@scripts/needs $(CLIPPY_NEEDS)
	cargo fmt --all --check --manifest-path native/rust/Cargo.toml
	cargo fmt --check --manifest-path $(RUST_EXAMPLE)/Cargo.toml
	$(RINGS) step clippy env $(CARGO) clippy --all-targets

shellcheck:
	@scripts/needs shellcheck:shellcheck
	shellcheck .ci/run scripts/site/build internal/observe/probe/bpf/generate.sh \
		$$(find scripts -maxdepth 1 -type f ! -name '*.toml') engines/rocksdb/fetch.sh examples/run examples/*/*.sh

# The slow ones, marked by testing.Short, have a target of their own. In ci, race runs all tests of its packages.
unit: test-needs
	$(GOTEST) -short -timeout 30m $$($(GO) list -find ./... | grep -vxF -e $(MODULE) -e $(MODULE)/cmd/statelab \
		$(if $(filter ci,$(RING)),$$($(GO) list -find $(RACE_PACKAGES) | sed 's/^/-e /')))

# Pebble with cgo has other memory and another zstd: what depends on them. Unit has the whole suite without cgo, slow with it.
WITH_CGO := 'Test(Engine|Oracles[12])/(PutGet|ValueSizes|Buffers|Readers|GetAllocates|ReadsAre|Memory|GetMany|Survives|InCache|CacheReserved|LogTakes)'

c-engines: needs rocksdb test-needs
	CGO_ENABLED=1 $(GOTEST) -short -timeout 30m $(C_PACKAGES) ./cmd/statelab-run-native ./layouts/flat
	CGO_ENABLED=1 $(GOTEST) -short -timeout 30m -run BlockTablesAreBuilt ./internal/ask/tune
	CGO_ENABLED=1 $(GOTEST) -short -timeout 30m -run $(WITH_CGO) ./engines/pebble1 ./engines/pebble2 ./internal/adapt/pebbledb

# One test at a time: a child that one test forks holds the locks of another's database until it has called exec.
rust-tests: rust
	$(RINGS) step 'cargo test' env $(CARGO) test -- --test-threads=1
	$(CARGO) build --manifest-path $(RUST_EXAMPLE)/Cargo.toml
	@set -e; for library in $(RUST_LIBRARIES:%=$(CURDIR)/bin/lib/%) $(RUST_TARGET)/release/libhashlog_engine.so; do echo "admit $$library"; \
		case $$library in *_engine.so) suite=engines/cengine ;; *) suite=layouts/clayout ;; esac; \
		STATELAB_NATIVE_TEST_LIBRARY=$$library STATELAB_STATE_TEST_LIBRARY=$$library STATELAB_STATE_TEST_KEEPS_CONTRACTS=1 \
		STATELAB_TEST_ALL=1 CGO_ENABLED=1 $(GOTEST) -short -count=1 -timeout 30m -run 'TestAdmitted$$' ./$$suite; done

tree-modules: needs
	@set -e; for module in $(MODULES); do CGO_ENABLED=1 $(GOTEST) -C $$module -short -timeout 30m ./...; done

fixtures: statelab
	@scripts/needs cc:gcc chromium:chromium
	@set -e; for module in $(filter-out fixtures/erigon fixtures/gethchain,$(FIXTURES)); do $(GOTEST) -C $$module -short ./...; done
	STATELAB_TEST_PROGRAMS=$(CURDIR)/bin $(GOTEST) -C fixtures/gethchain -short ./...
	CGO_ENABLED=1 $(GOTEST) -C fixtures/erigon -short ./...

# Python's packages, of exact versions and hashes, go to a folder outside the checkout.
site:
	@scripts/needs python3:python3
	@python3 -c 'import ensurepip' 2>/dev/null || scripts/needs ensurepip:python3-venv
	$(RINGS) step site scripts/site/build

site-test: site tools
	@scripts/needs chromium:chromium
	STATELAB_TEST_SITE=$(CURDIR)/site $(GOTEST) -C fixtures/browser -run TestSite .

e2e: build runners trees cluster-needs test-needs
	@$(RINGS) e2e '$(RUN)'

# Daemons that the packages start are of no use to the tests, which start their own.
cluster-needs:
	@PATH="$$PATH:/usr/sbin" scripts/needs $(CLUSTER_NEEDS)

cluster-test: tools cluster-needs
	$(GOTEST) -count=1 -timeout 60m ./internal/plan/slurm
	$(GOTEST) -count=1 -timeout 60m -v -run 'Cluster|InParts|OneByOne' ./cmd/statelab

slow: tools
	@$(RINGS) run slow $(MAKE_COMMAND) $(MAKEOVERRIDES) slow-parts

slow-parts: needs rocksdb test-needs
	$(MAKE) staticcheck
	$(MAKE) platforms PLATFORMS=darwin/arm64
	$(GOTEST) -timeout 60m ./cmd/statelab \
		-run "TunedIsMeasured|Outcomes|GrownRocksDB|DiskAgreesWithFio|Bisect|TheBooks|DamagedInputs|ClientsOfRocksDB|AdviceComesTrue|LeaveEachOthers"
	$(GOTEST) -timeout 60m ./internal/model/predict ./internal/model/cachesim ./internal/observe/resolve ./internal/explain/advise \
		./internal/ask/... ./layouts/pagetrie ./layouts/chunktrie
	$(GOTEST) -timeout 60m -run TestPrivateDevice ./internal/observe/host
	CGO_ENABLED=1 $(GOTEST) -timeout 60m -run 'TestResolvedGets|TestPredictedReads|TestRewrite' ./engines/rocksdb -resolved-gets 200000
	CGO_ENABLED=1 $(GOTEST) -timeout 60m ./layouts/flat ./engines/pebble1 ./engines/pebble2 ./internal/adapt/pebbledb
	$(RACE) ./internal/observe/resolve ./internal/adapt/pebbledb ./engines/pebble1 ./engines/goleveldb ./layouts/chunktrie \
		./internal/model/cachesim ./internal/run/session
	CGO_ENABLED=1 $(GOTEST) -C layouts/geth -timeout 60m ./...
	$(MAKE) fuzz
	$(GOTEST) -C fixtures/gethchain -timeout 60m -run 'ReferenceTrie|StoppedNode|Inflated|Played' .

# What runs on several goroutines, and of engines, layouts and the simulator the tests that do.
# Those that take more than a minute are in slow.
RACE_PACKAGES := ./internal/observe/measure ./internal/observe/blockio/... ./internal/run/... ./internal/plan/runners \
	./internal/plan/sweep ./internal/explain/promexport ./engines/null ./engines/mem ./runner
# Sixty short runs, each of which measures what the harness itself takes.
UNRACED := AFailureInAnyPhase
RACE := CGO_ENABLED=1 $(GOTEST) -race -short -timeout 30m

race: needs
	$(RACE) -skip $(UNRACED) $(RACE_PACKAGES)
	$(GOTEST) -short -run $(UNRACED) ./internal/run/session
	$(RACE) -run 'LevelsFollow|CacheMisses/memory' ./blockreads/pebble1 ./blockreads/pebble2
	$(RACE) -run 'TestEngine/(PutGetDelete|ReadersBesideAWriter|SettleEnds)' ./engines/pebble1 ./engines/goleveldb
	$(RACE) -run 'Reader|Curve|LongTraces' ./layouts/chunktrie ./internal/model/cachesim

# Every target gets its seconds of one core; in ci a third of one.
FUZZ_SECONDS := 1

# RocksDB's adapter is a package with cgo alone. Ci leaves to slow what links a node, an engine or Parquet's library for one fuzz
# test. Their seeds are in unit.
FUZZED_IN_SLOW := fixtures rocksdb pebbledb flat statelab-run-parquet
fuzz: needs
	@CGO_ENABLED=1 GO=$(GO) scripts/fuzz $(if $(filter ci,$(RING)),0.3 $(FUZZED_IN_SLOW),$(FUZZ_SECONDS))

# Processes are watched very often: 10,000 times attached to and detached from while their stacks grow, and 100 watchers killed; and
# nodes that write for five minutes.
WATCHED := TestWatchInShortWindows|TestKilledWatchersLeaveNothing|TestWatchCostsLittle
WATCHED := $(WATCHED)|TestWatchedNodesThatWrite|TestVerdictNames
WATCHED := $(WATCHED)|TestWatchPredictsOtherMemory|TestWatchAsAService

watched: runners
	@scripts/needs javac:default-jdk-headless
	$(GOTEST) -v -timeout 0 -count=1 -run '$(WATCHED)' ./cmd/statelab \
		-attachments 10000 -killed 100 -overhead 10 -node-seconds 300 -service-gets 2500000
	STATELAB_TEST_PROGRAMS=$(CURDIR)/bin $(GOTEST) -C fixtures/gethchain -v -timeout 0 -run TestVerdictOnGeth .

STORM := 2h
STORM_SEED := 1

# The ledger is storm.jsonl: a line for each round, with its seed. make storm
# STORM_SEED=N STORM=1s repeats the round of seed N; STORM_ONLY='^(load|replay) tmpfs' leaves only full disks.
storm: runners trees
	$(GOTEST) -v -short -timeout 0 -count=1 -run 'TestStorm$$' ./cmd/statelab -storm $(STORM) \
		-storm-seed $(STORM_SEED) -storm-only '$(STORM_ONLY)' -storm-ledger $(CURDIR)/storm.jsonl

damage: runners
	$(GOTEST) -v -timeout 0 -count=1 -run 'TestDamagedInputs|TestEnginesAgainstDamage|TestOneLieIsCaught' ./cmd/statelab -damaged 10000 -lies 100

# Measurements and serve that run for SOAK: memory, open files, threads and goroutines stay what they are.
SOAK ?= 2h
soak: needs
	$(GOTEST) -v -short -timeout 0 -count=1 -run 'TestSoak$$' ./cmd/statelab -soak $(SOAK)

# Exact versions, as of staticcheck.
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
CARGO_DENY := 0.20.2

audit: needs
	@set -e; for module in . $(FIXTURES) $(MODULES); do echo "govulncheck $$module"; (cd $$module && CGO_ENABLED=1 $(GO) run $(GOVULNCHECK) ./...); done
	cargo install --quiet --locked cargo-deny --version $(CARGO_DENY) --root $(RUST_TARGET)/tools
	$(RUST_TARGET)/tools/bin/cargo-deny --config native/rust/deny.toml --manifest-path native/rust/Cargo.toml --locked check

outdated: needs
	@set -e; for module in . $(FIXTURES) $(MODULES); do echo "$$module"; \
		(cd $$module && $(GO) list -m -u -f '{{if and (not .Indirect) .Update}}{{.Path}} {{.Version}} -> {{.Update.Version}}{{end}}' all | grep . || true); done
	cargo update --dry-run --manifest-path native/rust/Cargo.toml

bench: needs
	$(GO) test -run '^$$' -bench . -benchmem ./...
	CGO_ENABLED=1 $(GO) test -run '^$$' -bench . -benchmem $(C_PACKAGES)

# ROUNDS, KEYS, GETS and PEERS, the folder for what it makes, can be set.
bench-peers: build rocksdb
	CGO_ENABLED=1 $(GO) build -o bin/statelab-run-rocksdb ./cmd/statelab-run-rocksdb
	scripts/bench-peers

# What is built is packed: make build alone, or runners and trees, too. For another processor (ARCH=arm64), programs in Go alone.
dist: build go-runners
	$(if $(ARCH),GOARCH=$(ARCH) $(GO) build -o dist/bin-$(ARCH)/ ./cmd/statelab ./cmd/statelab-run-parquet ./cmd/statelab-run-badger)
	$(if $(ARCH),GOARCH=$(ARCH) BIN=dist/bin-$(ARCH)) scripts/dist dist $(VERSION)

# FILE is a tarball or a package of make dist's.
dist-test: tools
	@scripts/needs debootstrap:debootstrap
	scripts/dist-test $(or $(FILE),$(TARBALL))

DIST_NEEDS := cc:gcc dpkg:dpkg ruby:ruby nix-instantiate:nix-bin jq:jq openssl:openssl

dist-check: statelab
	@scripts/needs $(DIST_NEEDS)
	$(RINGS) step dist-check scripts/dist-check

clean:
	rm -rf bin demo dist peers site
