# make test    everything that runs on this machine
# make race    the same under the race detector
# make check   gofmt, go vet, staticcheck
# make fuzz    each fuzz target for 10 s
# make bench   Fiber beside a raw socket, goroutines and multiprocessing

.PHONY: test race check fuzz bench

test:
	go test -timeout 20m ./...

bench:
	go run ./bench
