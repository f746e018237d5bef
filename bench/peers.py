"""The work of Fiber's benchmarks in Python: on multiprocessing, and on what is used in its place.

The argument names the peer. The first line of the answer is "ready" and the peer's version, or "error" and why it is not
there. Then each line is a command, a name and numbers, the last of them the number of operations. Its answer is how many
seconds the work took, or another figure, or "error" and the reason. Pools stay warm from one command to the next; end of
file ends everything.
"""

import array
import contextlib
import functools
import math
import multiprocessing
import multiprocessing.managers
import multiprocessing.resource_tracker
import multiprocessing.shared_memory
import os
import platform
import random
import statistics
import sys
import tempfile
import threading
import time
import warnings

MARK = "BENCH_PEER"  # is in the environment of all of a peer's processes
PAGE = 4096 // 8  # float64


def barrier(workers):
    """For how many seconds a task which reads shared numbers waits, so that each worker gets one."""
    return 0.2 + workers / 80


def same(x):
    return x


def nap(seconds):
    time.sleep(seconds)
    return os.getpid()


def inside(_):
    x, y = random.random(), random.random()
    return x * x + y * y < 1


def count_inside(samples):
    return sum(map(inside, range(samples)))


def read(numbers, wait):
    total = float(sum(numbers[::PAGE]))
    done = time.monotonic()  # the same clock in all processes
    time.sleep(wait)
    return os.getpid(), total, done


def read_memory(name, wait):
    memory = multiprocessing.shared_memory.SharedMemory(name)
    numbers = memory.buf.cast("d")
    try:
        return read(numbers, wait)
    finally:
        numbers.release()
        memory.close()


class Peer:
    """What all peers do in the same way, with what each has for it: a pool, and functions called in it."""

    def __init__(self):
        self.pools = {}

    def pool(self, workers):
        if workers not in self.pools:
            self.pools[workers] = self.start(workers)
        return self.pools[workers]

    def many(self, workers, samples):
        """How many of the samples are inside, counted in 16 tasks for each worker."""
        parts = 16 * workers
        return sum(self.each(workers, count_inside, [samples // parts] * parts))

    def share(self, workers, numbers, wait):
        """Hands numbers to a task on each worker, and returns what read does, and what has to be kept for it."""
        return self.each(workers, functools.partial(read, wait=wait), [numbers] * workers), None

    def close(self):
        pass


class Multiprocessing(Peer):
    def __init__(self, method="fork"):
        super().__init__()
        multiprocessing.set_start_method(method)
        multiprocessing.resource_tracker.ensure_running()  # one for all processes, else each removes shared memory at its end
        self.version = platform.python_version()

    def start(self, workers):
        return multiprocessing.Pool(workers)

    def call(self, x):
        return self.pool(1).apply(same, (x,))

    def each(self, workers, f, xs):
        return self.pool(workers).map(f, xs, chunksize=1)

    def many(self, workers, samples):
        return sum(self.pool(workers).map(inside, range(samples)))

    def share(self, workers, numbers, wait):
        memory = multiprocessing.shared_memory.SharedMemory(create=True, size=8 * len(numbers))
        memory.buf[:] = memoryview(numbers).cast("B")
        return self.each(workers, functools.partial(read_memory, wait=wait), [memory.name] * workers), memory

    def process(self, n):
        started = [multiprocessing.Process(target=same, args=(i,)) for i in range(n)]
        for p in started:
            p.start()
        for p in started:
            p.join()
            assert p.exitcode == 0

    def one_process(self, n):
        for _ in range(n):
            p = multiprocessing.Process(target=same, args=(1,))
            p.start()
            p.join()
            assert p.exitcode == 0

    def close(self):
        for p in self.pools.values():
            p.terminate()
        for m in managers:
            m.shutdown()


class Joblib(Peer):
    def __init__(self):
        super().__init__()
        import joblib

        self.joblib, self.version = joblib, joblib.__version__

    def start(self, workers):
        return self.joblib.Parallel(n_jobs=workers, batch_size=1).__enter__()

    def call(self, x):  # Parallel calls the function itself when there is one worker
        return self.joblib.externals.loky.get_reusable_executor(max_workers=1).submit(same, x).result()

    def each(self, workers, f, xs):
        return self.pool(workers)(self.joblib.delayed(f)(x) for x in xs)

    def close(self):
        for p in self.pools.values():
            p.__exit__(None, None, None)


class Ray(Peer):
    def __init__(self):
        super().__init__()
        import ray

        self.ray, self.version = ray, ray.__version__
        self.functions = {}

    def start(self, workers):
        os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
        self.ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=tempfile.gettempdir())
        return self.functions

    def remote(self, workers, f):
        functions = self.pool(workers)
        if f not in functions:
            functions[f] = self.ray.remote(f)
        return functions[f]

    def call(self, x):
        return self.ray.get(self.remote(1, same).remote(x))

    def each(self, workers, f, xs):
        f = self.remote(workers, f)
        return self.ray.get([f.remote(x) for x in xs])

    def share(self, workers, numbers, wait):
        self.pool(workers)
        numbers = self.ray.put(numbers)
        f = self.remote(workers, read)
        return self.ray.get([f.remote(numbers, wait) for _ in range(workers)]), numbers

    def close(self):
        self.ray.shutdown()


class Dask(Peer):
    def __init__(self):
        super().__init__()
        import distributed

        warnings.filterwarnings("ignore", "Sending large graph")
        self.distributed, self.version = distributed, distributed.__version__

    def start(self, workers):
        cluster = self.distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
        return self.distributed.Client(cluster)

    def call(self, x):
        return self.pool(1).submit(same, x, pure=False).result()

    def each(self, workers, f, xs):
        client = self.pool(workers)
        return client.gather(client.map(f, xs, pure=False))

    def share(self, workers, numbers, wait):
        client = self.pool(workers)
        numbers = client.scatter(numbers, broadcast=True)
        at = list(client.scheduler_info(n_workers=-1)["workers"])
        return client.gather([client.submit(read, numbers, wait, workers=[w], pure=False) for w in at]), numbers

    def close(self):
        for client in self.pools.values():
            client.cluster.close()
            client.close()


class MPI(Peer):
    def __init__(self):
        super().__init__()
        os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # mpiexec is there
        import mpi4py
        from mpi4py import MPI as mpi
        from mpi4py.futures import MPIPoolExecutor

        self.executor, self.version = MPIPoolExecutor, mpi4py.__version__ + ", " + " ".join(mpi.Get_library_version().split()[::2][:2])

    def start(self, workers):
        return self.executor(max_workers=workers)

    def call(self, x):
        return self.pool(1).submit(same, x).result()

    def each(self, workers, f, xs):
        return list(self.pool(workers).map(f, xs, chunksize=1))

    def close(self):
        for p in self.pools.values():
            p.shutdown()


class Gloo(Peer):
    """PyTorch's ring of processes without a GPU."""

    def __init__(self):
        super().__init__()
        import torch

        self.version = torch.__version__

    def start(self, ranks):
        place = tempfile.mktemp()
        ends = []
        for rank in range(ranks):
            near, far = multiprocessing.Pipe()
            multiprocessing.Process(target=gloo_rank, args=(place, rank, ranks, far), daemon=True).start()
            ends.append(near)
        return ends

    def allreduce(self, ranks, count, n):
        ends = self.pool(ranks)
        for end in ends:
            end.send((count, n))
        for end in ends:
            assert end.recv() == ranks * (ranks + 1) / 2


def gloo_rank(place, rank, ranks, orders):
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="file://" + place, rank=rank, world_size=ranks)
    numbers = None
    while True:
        count, n = orders.recv()
        if numbers is None:
            numbers = torch.zeros(count, dtype=torch.float32)
        for _ in range(n):
            numbers[0] = numbers[-1] = rank + 1
            torch.distributed.all_reduce(numbers)
        orders.send(numbers[-1].item())


peers = {
    "multiprocessing": Multiprocessing,
    "multiprocessing, forkserver": lambda: Multiprocessing("forkserver"),
    "multiprocessing, spawn": lambda: Multiprocessing("spawn"),
    "joblib": Joblib,
    "Ray": Ray,
    "Dask": Dask,
    "mpi4py": MPI,
    "Gloo": Gloo,
}


def apply(n):
    for i in range(n):
        assert peer.call(i) == i


def map_one(n):
    assert len(peer.each(4, same, range(n))) == n


def pi_warm(samples, n):
    for _ in range(n):
        estimate = 4 * peer.many(4, samples) / samples
        assert abs(estimate - 3.14159) < 0.1, estimate


def repeated(x, size, n):
    for _ in range(n):
        assert len(peer.call(x)) == size


def echo_bytes(size, n):
    repeated(bytes(size), size, n)


def echo_floats(count, n):
    repeated(array.array("d", bytes(8 * count)), count, n)


def sleep(microseconds, n):
    for _ in range(n):
        peer.each(5, nap, [microseconds / 1e6] * 5)


def allreduce(ranks, count, n):
    peer.allreduce(ranks, count, n)


def process(n):
    peer.process(n)


def one_process(n):
    peer.one_process(n)


def numbers_to_share(mib):
    count = mib * 2**20 // 8
    try:
        import numpy

        return numpy.arange(count, dtype="float64")
    except ImportError:
        return array.array("d", range(count))


shared = []  # numbers, made once
grown = []  # the answer of share_memory


def ready(mib, workers):
    """Makes the numbers, and has all workers start."""
    if not shared:
        shared.append(numbers_to_share(mib))
        for _ in range(20):
            if len(set(peer.each(workers, nap, [barrier(workers)] * workers))) == workers:
                break


def spread(numbers, workers, wait):
    """Shares numbers with so many workers, and returns after how long the last has read all pages, and what is to be kept."""
    begun = time.monotonic()
    sums, keep = peer.share(workers, numbers, wait)
    want = float(sum(range(0, len(numbers), PAGE)))
    assert all(total == want for _, total, _ in sums), sums
    at = len({pid for pid, _, _ in sums})
    assert at == workers, f"{at} workers of {workers} took part"
    return max(done for _, _, done in sums) - begun, keep


def forget(keep):
    if isinstance(keep, multiprocessing.shared_memory.SharedMemory):
        keep.close()
        keep.unlink()


def share(mib, workers, n):
    ready(mib, workers)
    numbers = shared[0][:] if isinstance(shared[0], array.array) else shared[0].copy()  # joblib knows what it has shared
    took, keep = spread(numbers, workers, barrier(workers))
    forget(keep)
    return took


def share_memory(mib, workers, n):
    """By how many MiB the memory of all processes has grown, in the median of many looks, while they have shared numbers, which
    they do for longer than the sharing takes. Only the first time counts: some peers keep the memory for the next numbers."""
    if grown:
        return grown[0]
    ready(mib, workers)
    before, looks, over = memory(), [], threading.Event()

    def watch():
        while not over.wait(0.02):
            looks.append(memory())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        forget(spread(shared[0], workers, 2 + workers / 5)[1])
    finally:
        over.set()
        watching.join()
    grown.append(statistics.median(looks) - before)
    return grown[0]


def memory():
    """The memory of all of the peer's processes in MiB; what several have mapped counts once. Some change what their environment
    looks like, others have no parent here any more."""
    ours, parents, kib = {os.getpid()}, {}, 0
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            parents[pid] = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
            if mark.encode() in open(f"/proc/{pid}/environ", "rb").read():
                ours.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    for pid in ours:
        with contextlib.suppress(OSError):
            lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
            kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kib / 1024


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


commands = [manager_call, cartpole, queue, apply, map_one, pi_warm, echo_bytes, echo_floats, sleep, process, one_process, allreduce, share, share_memory]


def serve(answer):
    by_name = {f.__name__: f for f in commands}
    for line in sys.stdin:
        name, *numbers = line.split()
        try:
            start = time.perf_counter()
            figure = by_name[name](*map(int, numbers))
            answer(time.perf_counter() - start if figure is None else figure)
        except Exception as e:
            answer("error", repr(e).replace("\n", " "))


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # for what else is printed
    answer = functools.partial(print, file=answers, flush=True)
    mark = f"{MARK}={os.environ[MARK]}\0"
    try:
        peer = peers[sys.argv[1]]()
    except Exception as e:
        answer("error", repr(e).replace("\n", " "))
        sys.exit()
    answer("ready", peer.version)
    with contextlib.closing(peer):
        serve(answer)
