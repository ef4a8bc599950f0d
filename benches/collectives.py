"""All-reduce on two ranks of this machine: Corten's ``mpi`` beside PyTorch's ``gloo``, in turns.

``python benches/collectives.py --torch-python P [--mpiexec M] [--backend mpi gloo]`` prints medians and their
ratios. Both pairs of processes live during the whole run; the one that is not asked sleeps.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

SIZES = [4, 64 << 10, 4 << 20, 64 << 20]
ROUNDS = 7


def calls(size):
    """How many calls a round has."""
    return 200 if size <= 64 << 10 else 20 if size <= 4 << 20 else 3


def worker(library, backend):
    """Does what the parent says: all-reduces of so many bytes, so many times; answers with the seconds of each."""
    if library == "torch":
        import torch
        import torch.distributed as dist
    else:
        import corten as torch
        import corten.distributed as dist
    dist.init_process_group(backend)
    torch.set_num_threads(1)
    control = socket.create_connection(("127.0.0.1", int(os.environ["BENCH_PORT"])))
    lines = control.makefile("rw")
    print(json.dumps([library, dist.get_rank()]), file=lines, flush=True)
    for line in lines:
        size, count = json.loads(line)
        x = torch.zeros(size // 4)
        seconds = []
        for _ in range(count + 2):
            begun = time.perf_counter()
            dist.all_reduce(x)
            seconds.append(time.perf_counter() - begun)
        print(json.dumps(seconds[2:]), file=lines, flush=True)
    dist.destroy_process_group()


def free_port():
    """A port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Pair:
    """Two processes of one library."""

    def __init__(self, library, backend, command, port):
        self.name = f"{library} {backend}"
        arguments = [os.path.abspath(__file__), "--worker", library, "--backend", backend]
        environment = {**os.environ, "BENCH_PORT": str(port), "OMP_NUM_THREADS": "1"}
        if backend == "mpi":
            self.processes = [subprocess.Popen([*command, *arguments], env=environment)]
            return
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
        self.processes = [
            subprocess.Popen([*command, *arguments], env={**environment, "RANK": str(rank)}) for rank in range(2)
        ]

    def meet(self, server):
        """Waits for both."""
        self.lines = [server.accept()[0].makefile("rw") for _ in range(2)]
        for lines in self.lines:
            lines.readline()

    def measure(self, size):
        """The seconds of the slower rank, call by call."""
        for lines in self.lines:
            print(json.dumps([size, calls(size)]), file=lines, flush=True)
        answers = [json.loads(lines.readline()) for lines in self.lines]
        return [max(pair) for pair in zip(*answers)]

    def end(self):
        """Ends both."""
        for lines in self.lines:
            lines.close()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def main():
    """Starts all pairs and prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch-python")
    parser.add_argument("--mpiexec", default="mpiexec", help="the launcher, with its options")
    parser.add_argument("--backend", nargs="+", default=["mpi"])
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.backend[0])
        return
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(120)
    port = server.getsockname()[1]
    pairs = [Pair("torch", "gloo", [options.torch_python], port)]
    pairs[0].meet(server)
    for backend in options.backend:
        start = [*options.mpiexec.split(), "-n", "2"] if backend == "mpi" else []
        pairs.append(Pair("corten", backend, [*start, sys.executable], port))
        pairs[-1].meet(server)
    for size in SIZES:
        seconds = {pair.name: [] for pair in pairs}
        for _ in range(ROUNDS):
            for pair in pairs:
                seconds[pair.name] += pair.measure(size)
        medians = {name: statistics.median(found) for name, found in seconds.items()}
        reference = medians[pairs[0].name]
        row = "  ".join(
            f"{name} {median * 1e6:10.1f} us ({reference / median:5.2f}x)" for name, median in medians.items()
        )
        print(f"{size:9} bytes  {row}", flush=True)
    for pair in pairs:
        pair.end()


if __name__ == "__main__":
    main()
