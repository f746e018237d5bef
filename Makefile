# make test    all tests; TESTFLAGS=-v and the like go to go test. Those that need a docker engine run when one answers.
#              FIBER_TEST_BACKEND=docker runs the examples and those in test on containers, too
# make engine-up  has a docker engine answer; installs and starts one when there is none (Debian, Ubuntu)
# make cluster-up    has a Kubernetes cluster of this one machine, as root (Debian): six minutes the first time, then 15 s
# make cluster-down  stops it, and removes everything but what was built
# make test-kubernetes  the tests that need a cluster, and the examples and those in test on it; brings it up unless
#              FIBER_TEST_KUBECONFIG names another one, with FIBER_TEST_HOST (where its pods reach this machine) and
#              FIBER_TEST_REGISTRY (where they pull images from)
# make race    the same under the race detector, without the longest (needs a C compiler); with tests of the cluster where
#              FIBER_TEST_KUBECONFIG names one, or make cluster-up has brought one up
# make soak    all of it at work for SOAK, 10m, with kills and stops, on FIBER_BACKEND: local, docker, or kubernetes, for which it
#              brings a cluster of two nodes up, and takes one away now and then, with the root outside of the
#              cluster, or on a node (SOAKFLAGS="-root node1"); from 5m on, what grows fails it, too; SOAKFLAGS=-h has
#              the rest
# make simulate  2,000 simulated runs, each from a seed, and FRESH=n fresh ones; SEEDS=n, SEED=s for one, FOR=8h for fresh ones until
#              something fails, REPLAY=file for the plan that a failure has printed, TIMES=n to see how often SEED or REPLAY fails,
#              FIRST=1 to end with the first failure
# make mutants  how many of those runs it takes to find each of the defects in internal/sim/mutants
# make check   gofmt, go vet, fiber vet, staticcheck, and go vet for the systems other than Linux
# make fuzz    each fuzz target with so many inputs: FUZZTIME, 100000x
# make bench   Fiber beside bare sockets, goroutines and Python's multiprocessing
# make bench-peers  Fiber beside Ray, joblib, Dask, mpi4py and multiprocessing; writes docs/figures.md and docs/peers.svg
# make bench-kubernetes  Fiber on the cluster of make test-kubernetes beside bare pods, and what having that backend costs
#              processes of this machine

GO          ?= go
FUZZTIME    ?= 100000x
SOAK        ?= 10m
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.7.0

# The cluster of others has the nodes that it has.
on_two_nodes = test/cluster/with.sh $(if $(FIBER_TEST_KUBECONFIG),,test/cluster/node2.sh with)

.PHONY: help test engine-up cluster-up cluster-down test-kubernetes race race-beside race-kubernetes soak simulate mutants check format vet staticcheck systems fuzz \
	bench bench-peers bench-kubernetes bench-built

help:
	@sed -n 's/^# \(make \|   \)/\1/p' Makefile

test:
	@docker version >/dev/null 2>&1 || echo "no docker engine answers: its tests are skipped (make engine-up)"
	@test -n "$$FIBER_TEST_KUBECONFIG" || echo "FIBER_TEST_KUBECONFIG is not set: the tests that need a cluster are skipped (make test-kubernetes)"
	$(GO) test -timeout 40m $(TESTFLAGS) ./...
	$(GO) -C test/plugin test -timeout 10m $(TESTFLAGS) ./...

engine-up:
	@test/engine/up.sh

cluster-up:
	@test/cluster/packages.sh && test/cluster/build.sh && test/cluster/up.sh

cluster-down:
	@test/cluster/down.sh

# One package after the other: they count what is left on the cluster. Tests wait for pods more than they work.
test-kubernetes:
	$(on_two_nodes) $(GO) test -count 1 -timeout 20m $(TESTFLAGS) ./backend/kubernetes
	$(on_two_nodes) $(GO) test -parallel 4 -count 1 -timeout 20m $(TESTFLAGS) ./cmd/fiber
	$(on_two_nodes) $(GO) test -count 1 -timeout 20m $(TESTFLAGS) ./test/kubernetes
	FIBER_TEST_BACKEND=kubernetes test/cluster/with.sh $(GO) test -p 1 -parallel 6 -count 1 -timeout 40m $(TESTFLAGS) . ./test/...

# The race detector has every process sleep for a second at its exit, unless told not to.
race:
	FIBER_TEST_KUBECONFIG= GORACE=atexit_sleep_ms=0 $(GO) test -race -short -timeout 40m $(TESTFLAGS) ./...
	@if [ -n "$$FIBER_TEST_KUBECONFIG" ] || bash -c '. test/cluster/env.sh && running kube-apiserver' >/dev/null; then \
		$(MAKE) --no-print-directory race-kubernetes; \
	else \
		echo "no cluster is up: its tests are skipped (make cluster-up)"; \
	fi

# A part of race that leaves the processors to whatever else runs, and the tests of the rest built. Race finds what has passed here.
race-beside:
	FIBER_TEST_KUBECONFIG= GORACE=atexit_sleep_ms=0 nice -n 19 $(GO) test -race -short -timeout 40m $(TESTFLAGS) ./internal/... ./transport/... ./test/simulate
	nice -n 19 $(GO) test -race -short -run '^$$' ./... >/dev/null

race-kubernetes:
	GORACE=atexit_sleep_ms=0 test/cluster/with.sh $(GO) test -race -short -count 1 -timeout 20m $(TESTFLAGS) \
		-run 'TestBackend|TestNoRoom|TestSomebodyElse' ./backend/kubernetes

soak:
	$(if $(filter kubernetes,$(FIBER_BACKEND)),$(on_two_nodes)) $(GO) run ./test/soak -for $(SOAK) $(SOAKFLAGS)

simulate: SEEDS ?= 2000
simulate: FRESH ?= 200
simulate:
	SEEDS=$(SEEDS) FRESH=$(FRESH) $(GO) test -count 1 -timeout 0 -run '^TestSimulate$$' -v $(TESTFLAGS) ./test/simulate

mutants:
	MUTANTS=all $(GO) test -count 1 -timeout 0 -run '^TestMutants$$' -v $(TESTFLAGS) ./test/simulate

check: format vet staticcheck systems

format:
	@files=$$(gofmt -l .) || exit; test -z "$$files" || { echo "gofmt would change:"; echo "$$files"; exit 1; }

vet:
	$(GO) vet ./...
	$(GO) -C bench vet ./...
	$(GO) -C test/plugin vet ./...
	@dir=$$(mktemp -d) && trap 'rm -r "$$dir"' EXIT && $(GO) build -o "$$dir/fiber" ./cmd/fiber && \
		echo "fiber vet ./..." && "$$dir/fiber" vet ./... && cd bench && echo "fiber vet ./... in bench" && "$$dir/fiber" vet ./...

staticcheck:
	$(GO) run $(STATICCHECK) ./...
	$(GO) -C bench run $(STATICCHECK) ./...
	$(GO) -C test/plugin run $(STATICCHECK) ./...

# Files for other systems are built as well.
systems:
	@set -e; for os in darwin freebsd windows; do echo "GOOS=$$os $(GO) vet ./..."; GOOS=$$os $(GO) vet ./...; done
	@set -e; for os in darwin freebsd; do echo "GOOS=$$os $(GO) -C bench vet ./..."; GOOS=$$os $(GO) -C bench vet ./...; done

# A number of inputs, since a time may end in "context deadline exceeded" (https://go.dev/issue/75804, until Go 1.27).
# Without a bound, making one large input smaller may take long.
fuzz:
	@set -e; list=$$($(GO) test -list '^Fuzz' ./...); \
	targets=$$(echo "$$list" | awk '/^Fuzz/ { names[n++] = $$1 } \
		/^ok/ { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }'); \
	test -n "$$targets" || { echo "no fuzz targets found"; exit 1; }; \
	echo "$$targets" | while read -r package name; do \
		echo "$$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "$$package" </dev/null; \
	done

bench: bench-built
	bench/results/bench $(BENCHFLAGS)

bench-peers: bench-built
	bench/peers.sh bench/results/peers
	bench/results/bench -peers bench/results/peers $(BENCHFLAGS)

bench-kubernetes: bench-built
	test/cluster/with.sh bench/results/bench -rows '^(kubernetes/.*|process/100|worker/idle)$$' $(BENCHFLAGS)

# In a module of its own, from which it can't be run here by go run. That leaves out what is for debuggers, too.
bench-built:
	$(GO) -C bench build -ldflags '-s -w' -o results/bench .
