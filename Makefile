# `make` alone lists the targets.
GOLANGCI_LINT_VERSION = v2.13.2
BENCHSTAT_VERSION     = v0.0.0-20260908200009-22c9c6c9d4da

GO       ?= go
GOBIN    := $(or $(shell $(GO) env GOBIN),$(shell $(GO) env GOPATH)/bin)
VERSION  := $(or $(shell git describe --tags --always --dirty 2>/dev/null),devel)
BUILD    := $(GO) build -buildvcs=false -ldflags '-X main.version=$(VERSION)'
PKG      ?= ./...
FUZZTIME ?= 10s
BASE     ?= main
COUNT    ?= 10
BENCH    ?= .
CHAOS_TIME ?= 10m
WORKERS_TIME ?= 3m
PARKED ?= 1000
SNAPSHOT_TIME ?= 5m
CHAOS_SEED ?=
CHURN_TIME ?= 3m
CHURN_MEMBERS ?= 50
MAJORS     ?=
# What of the tests depends on PostgreSQL.
MAJORS_PKG := $(if $(filter ./...,$(PKG)),./store/... ./queen/... ./kafkawire ./cmd/queen,$(PKG))
SCALE      ?= partitions connections log
# Packages whose tests need no database.
SHORT    := ./cmd ./dedup/... ./kafkawire/... ./queen/httpapi/...
RACE     ?= ./dedup/... ./kafkawire/... ./queen/... ./store

.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## start a broker on its own PostgreSQL (ARGS='--kafka-addr …')
	@.ci/need postgresql
	@exec bin/queen serve $(ARGS)

.PHONY: build
build: ## compile bin/queen
	@$(BUILD) -o bin/queen ./cmd/queen

.PHONY: test
test: ## all tests, set-up included (PKG=./store/...)
	@.ci/need postgresql kcat jq curl
	$(GO) test $(PKG)

.PHONY: race
race: ## the tests of our packages under the race detector; compat runs the binary, which it does not see
	@.ci/need postgresql gcc
	$(GO) test -race $(RACE)

.PHONY: short
short: ## the tests that need no database
	$(GO) test $(SHORT)

.PHONY: check
check: test gate ## the gate: run before every push

.PHONY: gate
gate: fmt-check vet lint tidy race ## all of check but the tests themselves
	@$(MAKE) --no-print-directory fuzz FUZZTIME=5s

.PHONY: tidy
tidy: ## go.mod and go.sum name what is used, and nothing else
	$(GO) mod tidy -diff

.PHONY: fmt
fmt: $(GOBIN)/golangci-lint ## format all Go files
	$(GOBIN)/golangci-lint fmt

.PHONY: fmt-check
fmt-check: $(GOBIN)/golangci-lint
	$(GOBIN)/golangci-lint fmt --diff

.PHONY: vet
vet: ## go vet, the build for macOS, and that the mutants still fit
	$(GO) vet ./...
	GOOS=darwin $(GO) build -o /dev/null ./...
	$(GO) test -tags mutant -run '^TestMutantsFit$$' ./compat/chaos

.PHONY: lint
lint: $(GOBIN)/golangci-lint ## golangci-lint as .golangci.yml says
	$(GOBIN)/golangci-lint run

# Installed again when it is missing or of another version.
.PHONY: $(GOBIN)/golangci-lint
$(GOBIN)/golangci-lint:
	@$@ version 2>/dev/null | grep -qF '$(GOLANGCI_LINT_VERSION:v%=%) ' || \
	$(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

.PHONY: golden
golden: ## rewrite all golden files; then read git diff
	$(GO) test $$(grep -rl --include='*_test.go' 'Bool("update"' . | xargs -n1 dirname | sort -u) -update

.PHONY: fuzz
fuzz: ## every fuzz target in turn (FUZZTIME=30s)
	@set -e; for pkg in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
		echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg; done; done

.PHONY: bench
bench: build ## produce through a new broker, in turn with bare writes to its PostgreSQL (ARGS='--rounds 3')
	@.ci/need postgresql
	bin/queen bench produce --serve --vs baseline $(ARGS)

.PHONY: bench-kafka
bench-kafka: build ## us and Apache Kafka as it is shipped, in turn, as a table (ARGS='--rounds 10 --loads produce --sizes 1024')
	@.ci/need postgresql java maven
	@$(GO) build -o bin/kafkanode ./compat/kafkanode/run
	bin/kafkanode -as-shipped exec sh -c 'exec bin/queen bench kafka --serve --vs "$$COMPAT_SEEDS" --rounds 4 --duration 4s $(ARGS)'

.PHONY: bench-go
bench-go: ## all Go benchmarks once (PKG=./dedup BENCH=Append)
	$(GO) test -run '^$$' -bench '$(BENCH)' $(PKG)

.PHONY: bench-cmp
bench-cmp: ## benchmarks of PKG here against BASE, interleaved (PKG=./dedup BASE=main)
	@set -e; d=$$(mktemp -d); trap 'git worktree remove --force $$d/base; rm -rf $$d' EXIT; \
	git worktree add --quiet --detach $$d/base $(BASE); \
	$(GO) test -c -o $$d/new.test $(PKG); (cd $$d/base && $(GO) test -c -o $$d/old.test $(PKG)); \
	for i in $$(seq $(COUNT)); do for v in old new; do \
		(cd $(PKG) && $$d/$$v.test -test.run '^$$' -test.bench '$(BENCH)' -test.benchmem >>$$d/$$v.txt); done; done; \
	$(GO) run golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION) $$d/old.txt $$d/new.txt

.PHONY: compat
compat: ## the compat suite against a broker of ours, or elsewhere (SEEDS=host:port)
	@.ci/need postgresql kcat jq curl
	COMPAT_SEEDS=$(SEEDS) $(GO) test -count=1 -run '^TestSuite$$' ./compat

.PHONY: compat-kafka
compat-kafka: ## the compat suite against Apache Kafka, and Kafka's console tools against us
	@.ci/need postgresql java maven
	$(GO) test -count=1 -timeout 20m -tags java ./compat/kafkanode

.PHONY: postgres-majors
postgres-majors: ## the tests on each PostgreSQL promised, fetched (MAJORS='14 18' PKG=./store; ARGS='-run Name')
	@.ci/need java maven xz kcat jq curl
	$(GO) run ./compat/pgmajors/run -majors '$(MAJORS)' -- -p 1 -timeout 60m $(ARGS) $(MAJORS_PKG)

.PHONY: clients
clients: ## other people's clients against a broker of ours (CLIENTS='sarama kafkajs')
	@.ci/need postgresql kcat jdk maven node npm venv
	$(GO) run ./compat/clients/run $(CLIENTS)

.PHONY: sdk
sdk: ## the original's Python SDK against the HTTP door of a broker of ours
	@.ci/need postgresql venv
	$(GO) run ./compat/clients/run queen-python

.PHONY: diff
diff: ## the same requests to us and to Apache Kafka, answers compared field by field
	@.ci/need postgresql java maven
	$(GO) test -count=1 -timeout 20m -tags java -run '^TestAnswersAreThoseOfApacheKafka$$' ./compat

.PHONY: clients-kafka
clients-kafka: ## the same programs against Apache Kafka, where they must pass too
	@.ci/need kcat jdk maven node npm venv
	$(GO) run ./compat/clients/run -kafka $(CLIENTS)

.PHONY: kgo
kgo: ## franz-go's own tests against us; compat/expect/kgo.txt lists what does not pass
	@.ci/need postgresql
	$(GO) test -count=1 -v -timeout 40m -tags kgo -run '^TestFranzGoPassesItsOwnTests$$' ./compat

.PHONY: dedup-size
dedup-size: ## deduplication with ten million ids, 100,000 partitions, twice the budget (minutes)
	@.ci/need postgresql
	$(GO) test -count=1 -timeout 60m -tags size -v -run 'TenMillion|TwiceTheBudget|HundredThousand' ./compat

.PHONY: workers
workers: ## a fleet of workers that die, sleep and lose brokers finishes 1,000 partitions in order (WORKERS_TIME=3m)
	@.ci/need postgresql
	WORKERS_TIME=$(WORKERS_TIME) $(GO) test -count=1 -v -timeout 1h -run '^TestWorkersFinishEveryMessageInOrder$$' ./compat

.PHONY: parked
parked: ## what 1,000 parked long polls cost (PARKED=1000)
	@.ci/need postgresql
	PARKED=$(PARKED) $(GO) test -count=1 -v -timeout 1h -run '^TestParkedPollsHoldNothingOfTheDatabase$$' ./compat

.PHONY: snapshot
snapshot: ## pushes, pops and acks beside a forgotten transaction (SNAPSHOT_TIME=5m)
	@.ci/need postgresql
	SNAPSHOT_TIME=$(SNAPSHOT_TIME) $(GO) test -count=1 -v -timeout 1h -run '^TestAnOpenSnapshotDoesNotSlowPops$$' ./compat

.PHONY: chaos
chaos: ## faults under load, then counting, over three seeds (CHAOS_TIME=10m CHAOS_SEED=1,2,3)
	@.ci/need postgresql
	CHAOS_TIME=$(CHAOS_TIME) CHAOS_SEED=$(CHAOS_SEED) $(GO) test -count=1 -v -timeout 24h -run '^TestNothingIsLostOrDoubledUnderFaults$$' ./compat/chaos

.PHONY: scale
scale: ## what a message costs as partitions, connections and the log grow (SCALE='partitions:1,10000 log')
	@.ci/need postgresql
	SCALE='$(SCALE)' $(GO) test -count=1 -v -timeout 60m -run '^TestCost$$' ./compat

.PHONY: scale-kafka
scale-kafka: ## 10,000 topics, 10,000 partitions of one, and 1,000 idle consumers, to what is promised
	@.ci/need postgresql
	COMPAT_SCALE=1 $(GO) test -count=1 -v -timeout 30m -run '^TestScale$$' ./compat

.PHONY: churn
churn: ## a group whose members join, leave and die at random, its coordinator killed (CHURN_TIME=3m CHURN_MEMBERS=50)
	@.ci/need postgresql
	CHURN_TIME=$(CHURN_TIME) CHURN_MEMBERS=$(CHURN_MEMBERS) $(GO) test -count=1 -v -timeout 1h -run '^TestCoordinatorsAreReplaced$$/^churn$$' ./compat

.PHONY: mutants
mutants: ## known mistakes put into the product one by one: each must be caught by its test
	@.ci/need postgresql
	$(GO) test -count=1 -v -timeout 1h -tags mutant -run '^TestMutantsAreCaught$$' ./compat/chaos

.PHONY: kafka
kafka: ## run an Apache Kafka node from its published jars, to aim the compat suite at
	@.ci/need java maven
	@$(GO) build -o bin/kafkanode ./compat/kafkanode/run
	@exec bin/kafkanode

.PHONY: readme
readme: ## put the table of requests served into README
	@awk '/^<!-- matrix -->$$/ { print; while ((getline line < "kafkawire/testdata/matrix.md") > 0) print line; skip = 1; next } \
		/^<!-- \/matrix -->$$/ { skip = 0 } !skip' README.md > README.new && mv README.new README.md
