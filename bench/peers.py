"""Python's multiprocessing at the work of Fiber's benchmark.

Reads one command a line, a name and numbers, the last of them the number of operations, and answers with
the seconds that the work took, or with "error" and the reason. Pools stay warm from one command to the
next; end of file ends everything.
"""

import array
import multiprocessing
import random
import sys
import time

multiprocessing.set_start_method("fork")
pools = {}


def pool(workers):
    if workers not in pools:
        pools[workers] = multiprocessing.Pool(workers)
    return pools[workers]


def same(x):
    return x


def inside(_):
    x, y = random.random(), random.random()
    return x * x + y * y < 1


def pi(p, samples):
    estimate = 4 * sum(p.map(inside, range(samples))) / samples
    assert abs(estimate - 3.14159) < 0.1, estimate


def repeated_apply(x, size, n):
    p = pool(1)
    for _ in range(n):
        assert len(p.apply(same, (x,))) == size


def apply(n):
    p = pool(1)
    for i in range(n):
        assert p.apply(same, (i,)) == i


def map_one(n):
    assert len(pool(4).map(same, range(n), chunksize=1)) == n


def map_default(n):
    assert len(pool(4).map(same, range(n))) == n


def pi_warm(samples, n):
    for _ in range(n):
        pi(pool(4), samples)


def pi_cold(samples, n):
    for _ in range(n):
        with multiprocessing.Pool(4) as p:
            pi(p, samples)


def echo_bytes(size, n):
    repeated_apply(bytes(size), size, n)


def echo_floats(count, n):
    repeated_apply(array.array("d", bytes(8 * count)), count, n)


def sleep(microseconds, n):
    for _ in range(n):
        pool(5).map(time.sleep, [microseconds / 1e6] * 5, chunksize=1)


def process(n):
    started = [multiprocessing.Process(target=same, args=(i,)) for i in range(n)]
    for p in started:
        p.start()
    for p in started:
        p.join()
        assert p.exitcode == 0


queue_ends = []


def produce(q, orders):
    while True:
        for i in range(orders.get()):
            q.put(i)


def consume(q, orders, done):
    while True:
        for i in range(orders.get()):
            q.get()
        done.put(None)


def queue(n):
    if not queue_ends:
        q, done = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()
        puts, gets = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()
        for f, args in (produce, (q, puts)), (consume, (q, gets, done)):
            multiprocessing.Process(target=f, args=args, daemon=True).start()
        queue_ends.extend((puts, gets, done))
    puts, gets, done = queue_ends
    puts.put(n)
    gets.put(n)
    done.get()


commands = [queue, apply, map_one, map_default, pi_warm, pi_cold, echo_bytes, echo_floats, sleep, process]


def serve():
    by_name = {f.__name__: f for f in commands}
    for line in sys.stdin:
        name, *numbers = line.split()
        try:
            start = time.perf_counter()
            by_name[name](*map(int, numbers))
            print(time.perf_counter() - start)
        except Exception as e:
            print("error", repr(e))
    for p in pools.values():
        p.terminate()


serve()
