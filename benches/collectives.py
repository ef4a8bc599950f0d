"""Collectives of two processes beside PyTorch's, in one run: median times and their ratios.

    PYTHONPATH=python PYTHON_WITH_TORCH=P python benches/collectives.py [ROUNDS] [ENGINES]

ENGINES are pairs as torch:gloo,corten:gloo,corten:mpi (those of mpi are started by mpiexec); the first is what the
others are compared with. All processes are there from the start and take turns, so that a busy machine is busy for
all of them; while one engine runs, the others wait for a message. A round times a call many times and keeps the
median; the table has the median over rounds, and the smallest.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Client, Listener
from pathlib import Path

SIZES = [4, 64 << 10, 4 << 20, 64 << 20]
REPEATS = {4: 300, 64 << 10: 100, 4 << 20: 15, 64 << 20: 3}
CALLS = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"]
RANKS = 2


def worker(library, backend, rank, store, address):
    if library == "torch":
        import torch
        import torch.distributed as dist
    else:
        import corten as torch
        import corten.distributed as dist
    torch.set_num_threads(1)
    if backend == "mpi":
        dist.init_process_group("mpi")
    else:
        dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=RANKS)
    channel = Client(address, "AF_UNIX")
    channel.send(dist.get_rank())
    while (task := channel.recv()) is not None:
        call, nbytes, repeats = task
        whole, part = torch.zeros(nbytes // 4), torch.zeros(max(1, nbytes // 4 // RANKS))
        parts = torch.zeros(part.numel() * RANKS)
        run = {
            "all_reduce": lambda: dist.all_reduce(whole),
            "broadcast": lambda: dist.broadcast(whole, 0),
            "all_gather": lambda: dist.all_gather_into_tensor(parts, part),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, parts),
            "barrier": lambda: dist.barrier(),
        }[call]
        run(), dist.barrier()
        times = []
        for _ in range(repeats):
            begun = time.perf_counter()
            run()
            times.append(time.perf_counter() - begun)
        dist.barrier()
        channel.send(statistics.median(times))
    dist.destroy_process_group()


class Engine:
    """The processes of one library and back end."""

    def __init__(self, name, python, folder):
        self.name = name
        library, backend = name.split(":")
        address = str(folder / name.replace(":", "-"))
        listener = Listener(address, "AF_UNIX")
        command = [python, os.path.abspath(__file__), "worker", library, backend]
        environment = dict(os.environ)
        if library == "torch":
            environment.pop("PYTHONPATH", None)
        if backend == "mpi":
            starts = [["mpiexec", "-n", str(RANKS), *command, "0", "-", address]]
        else:
            starts = [[*command, str(rank), address + ".store", address] for rank in range(RANKS)]
        self.processes = [subprocess.Popen(start, env=environment, stderr=subprocess.DEVNULL) for start in starts]
        channels = [listener.accept() for _ in range(RANKS)]
        self.channels = [channel for _, channel in sorted((channel.recv(), channel) for channel in channels)]

    def time(self, *task):
        for channel in self.channels:
            channel.send(task)
        return max(channel.recv() for channel in self.channels)

    def end(self):
        for channel in self.channels:
            channel.send(None)
        for process in self.processes:
            process.wait(60)


def shown(seconds):
    return f"{seconds * 1e6:.0f} us" if seconds < 0.01 else f"{seconds * 1e3:.1f} ms"


def main(rounds, names):
    pythons = {"torch": os.environ.get("PYTHON_WITH_TORCH", sys.executable), "corten": sys.executable}
    if any(name.endswith(":mpi") for name in names) and shutil.which("mpiexec") is None:
        raise SystemExit("collectives: mpi needs mpiexec in PATH")
    with tempfile.TemporaryDirectory() as folder:
        engines = [Engine(name, pythons[name.split(":")[0]], Path(folder)) for name in names]
        tasks = [(call, size) for call in CALLS for size in SIZES if call != "barrier" or size == 4]
        times = {(task, name): [] for task in tasks for name in names}
        for _ in range(rounds):
            for task in tasks:
                for engine in engines:
                    times[task, engine.name].append(engine.time(*task, REPEATS[task[1]]))
        for engine in engines:
            engine.end()
    print("| call | bytes | " + " | ".join(names) + " | " + " | ".join(f"{name}, ratio" for name in names[1:]) + " |")
    print("|---" * (1 + len(names) * 2) + "|")
    for task in tasks:
        medians = [statistics.median(times[task, name]) for name in names]
        best = [min(times[task, name]) for name in names]
        cells = [f"{shown(median)} ({shown(least)})" for median, least in zip(medians, best, strict=True)]
        pairs = zip(medians[1:], best[1:], strict=True)
        ratios = [f"{medians[0] / median:.2f}x ({best[0] / least:.2f}x)" for median, least in pairs]
        print(f"| {task[0]} | {task[1]} | " + " | ".join(cells + ratios) + " |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        library, backend, rank, store, address = sys.argv[2:]
        worker(library, backend, int(rank), store, address)
    else:
        rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
        main(rounds, (sys.argv[2] if len(sys.argv) > 2 else "torch:gloo,corten:gloo").split(","))
