"""Python's multiprocessing at the work of Fiber's benchmarks.

Reads one command a line: a name and numbers, the last of them the number of operations. Answers with
the seconds that the work took, or with "error" and the reason. Pools stay warm from one command to the
next; end of file ends everything.
"""

import array
import math
import multiprocessing
import multiprocessing.managers
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


def pi_warm(samples, n):
    for _ in range(n):
        pi(pool(4), samples)


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


class Counter:
    def __init__(self):
        self.n = 0

    def add(self, n):
        self.n += n
        return self.n


class CartPole:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def reset(self):
        self.state = tuple(self.random.uniform(-0.05, 0.05) for _ in range(4))
        return self.state

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(theta), math.sin(theta)
        temp = (force + 0.05 * theta_dot * theta_dot * sin) / 1.1
        theta_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
        x_acc = temp - 0.05 * theta_acc * cos / 1.1
        x, x_dot = x + 0.02 * x_dot, x_dot + 0.02 * x_acc
        theta, theta_dot = theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc
        self.state = x, x_dot, theta, theta_dot
        done = abs(x) > 2.4 or abs(theta) > 12 * 2 * math.pi / 360
        return self.state, 1.0, done


class Manager(multiprocessing.managers.BaseManager):
    pass


Manager.register("Counter", Counter)
Manager.register("CartPole", CartPole)
managers = []
objects = {}


def managed(name, make):
    if name not in objects:
        manager = Manager()
        manager.start()
        managers.append(manager)
        objects[name] = make(manager)
    return objects[name]


def manager_call(n):
    counter = managed("counter", lambda m: m.Counter())
    last = counter.add(0)
    for i in range(n):
        assert counter.add(1) == last + i + 1


def cartpole(n):
    envs = []
    for i in range(4):
        fresh = i not in objects
        envs.append(managed(i, lambda m: m.CartPole(i)))
        if fresh:
            envs[i].reset()
    for i in range(n):
        for e, env in enumerate(envs):
            _, _, done = env.step((i + e) & 1)
            if done:
                env.reset()


commands = [manager_call, cartpole, queue, apply, map_one, pi_warm, echo_bytes, echo_floats, sleep, process]


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
    for m in managers:
        m.shutdown()


serve()
