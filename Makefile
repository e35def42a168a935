# What there is to do here; `make help` lists it.
GO      ?= go
TAGS    := urfave_cli_no_docs
PKG     ?= ./...
FUZZTIME ?= 10s
SEEDS   ?= 500
PREFIX  ?= /usr/local
ROUNDS  ?= 200
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

.DEFAULT_GOAL := help
.PHONY: help build install run test sim chaos lint fuzz cover bench interop docs clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the static binaries bin/kstorage and bin/kfeatures.
	CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/...

install: build ## Install programs, man pages and completions below PREFIX (/usr/local), with DESTDIR in front.
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin share/man/man1 share/bash-completion/completions share/fish/vendor_completions.d)
	install -m 755 bin/kstorage bin/kfeatures $(DESTDIR)$(PREFIX)/bin/
	install -m 644 docs/man/kstorage.1 docs/man/kfeatures.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	for p in kstorage kfeatures; do \
	  bin/$$p completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$p && \
	  bin/$$p completion fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$p.fish || exit 1; \
	done

run: build ## Format a standalone node under ./data, without a cluster id, and start it.
	bin/kstorage format --config examples/standalone.properties --standalone --ignore-formatted
	@echo
	@echo "Look at it from another terminal:"
	@echo "  bin/kstorage quorum --bootstrap-controller localhost:9093 describe --status"
	@echo "  bin/kfeatures --bootstrap-server localhost:9092 describe"
	@echo "  a browser at http://localhost:9404/"
	@echo "  bin/kstorage info --config examples/standalone.properties"
	@echo "  bin/kstorage dump data/__cluster_metadata-0/*.log"
	@echo "Stop it with Ctrl-C. Begin anew with rm -r data"
	@echo
	@exec bin/kstorage start --config examples/standalone.properties --metrics-listen localhost:9404

test: ## Run all tests that need only Go, bash and curl; RACE=1 with the race detector (needs a C compiler).
	$(GO) test $(if $(RACE),-race) -tags $(TAGS) $(PKG)

sim: ## Simulate SEEDS (500) runs of clusters under faults, or as many as fit into DURATION.
	$(GO) test -c -o bin/sim.test ./internal/sim
	cd internal/sim && ../../bin/sim.test -test.run '^TestSim$$' $(if $(DURATION),-duration=$(DURATION),-seeds=$(SEEDS))

chaos: ## Do harm to clusters of 3 and of 5 real controllers for ROUNDS (200) each; SEED=n draws the faults that another run had.
	$(GO) test $(if $(RACE),-race) -tags $(TAGS) -count=1 -timeout 3h -v -run '^TestChaos$$' ./internal/chaos -rounds=$(ROUNDS) $(if $(SEED),-seed=$(SEED),-seed=$$(date +%s))

lint: ## Check format, vet and staticcheck.
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted as gofmt does:"; echo "$$out"; exit 1; }
	$(GO) vet -tags $(TAGS) ./...
	$(GO) vet -tags $(TAGS),interop,bench ./interop/... ./bench/... ./internal/node
	$(GO) tool staticcheck -tags $(TAGS),interop,bench ./...
	cd bench/rivals && $(GO) vet -tags bench ./... && "$$($(GO) -C ../.. tool -n staticcheck)" -tags bench ./...

fuzz: ## Run each fuzz target for FUZZTIME (10s).
	@$(GO) list -f '{{.ImportPath}}' ./... | while read -r pkg; do \
	  $(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz' | while read -r target; do \
	    echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "$$pkg" </dev/null || exit 1; \
	  done || exit 1; \
	done

cover: ## Show how much of each package the tests reach.
	$(GO) test -tags $(TAGS) -coverpkg ./... -coverprofile coverage.out ./...
	$(GO) tool cover -func coverage.out | tail -1

bench: ## Run the benchmarks, then kstorage and kfeatures beside Apache Kafka; needs Java 17 or newer and Maven.
	$(GO) test -tags $(TAGS) -run '^$$' -bench . -benchmem ./...
	$(GO) run -tags $(TAGS),bench ./bench

interop: ## Test against real Apache Kafka; needs Java 17 or newer and Maven.
	$(GO) test -tags $(TAGS),interop -count=1 -timeout 60m ./interop/...

docs: ## Write the texts that are made from the code: docs/cli*.md, docs/man, and what the pages print.
	$(GO) test -tags $(TAGS) ./cmd/kstorage ./cmd/kfeatures -run TestDocs -update
	$(GO) test -tags $(TAGS) -count=1 ./docs -update

clean: ## Remove what was built.
	rm -rf bin coverage.out
