# make test    all tests; TESTFLAGS=-v and the like go to go test. Those that need a docker engine run when one answers.
#              FIBER_TEST_BACKEND=docker runs the root package's on containers, too
# make engine-up  has a docker engine answer; installs and starts one when there is none (Debian, Ubuntu)
# make race    the same under the race detector, without the longest (needs a C compiler)
# make check   gofmt, go vet, staticcheck, and go vet for a system other than Linux
# make fuzz    each fuzz target for FUZZTIME, 10s
# make bench   Fiber beside bare sockets, goroutines and Python's multiprocessing

GO          ?= go
FUZZTIME    ?= 10s
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.7.0

.PHONY: help test engine-up race check format vet staticcheck darwin fuzz bench

help:
	@sed -n 's/^# \(make \|   \)/\1/p' Makefile

test:
	@docker version >/dev/null 2>&1 || echo "no docker engine answers: its tests are skipped (make engine-up)"
	$(GO) test -timeout 20m $(TESTFLAGS) ./...

engine-up:
	@test/engine/up.sh

# The race detector has every process sleep for a second at its exit, unless told not to.
race:
	GORACE=atexit_sleep_ms=0 $(GO) test -race -short -timeout 20m $(TESTFLAGS) ./...

check: format vet staticcheck darwin

format:
	@files=$$(gofmt -l .) || exit; test -z "$$files" || { echo "gofmt would change:"; echo "$$files"; exit 1; }

vet:
	$(GO) vet ./...

staticcheck:
	$(GO) run $(STATICCHECK) ./...

# Files for other systems are built as well.
darwin:
	GOOS=darwin $(GO) vet ./...

# Without a bound, making one large input smaller may take all of the time.
fuzz:
	@set -e; list=$$($(GO) test -list '^Fuzz' ./...); \
	targets=$$(echo "$$list" | awk '/^Fuzz/ { names[n++] = $$1 } \
		/^ok/ { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }'); \
	test -n "$$targets" || { echo "no fuzz targets found"; exit 1; }; \
	echo "$$targets" | while read -r package name; do \
		echo "$$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "$$package" </dev/null; \
	done

bench:
	$(GO) run ./bench $(BENCHFLAGS)
