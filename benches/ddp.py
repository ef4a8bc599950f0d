"""What DistributedDataParallel adds to a step, beside PyTorch's, on gloo: two processes, rounds of both in turn.

    python benches/ddp.py PYTHON_WITH_TORCH [ROUNDS]

For each library a pair of processes stays alive and times plain steps and averaged ones when it is told to, so that
both see the same machine. The overhead is the median of an averaged step minus that of a plain one.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time

WORLD = 2
SIZES = {"small": (64, 4), "medium": (512, 6), "large": (1024, 6)}


def worker(library, rank, file):
    if library == "torch":
        import torch
    else:
        import corten as torch
    dist, nn = torch.distributed, torch.nn
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=WORLD)
    models = {}
    for name, (width, layers) in SIZES.items():
        torch.manual_seed(0)
        parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
        plain = nn.Sequential(*parts)
        torch.manual_seed(0)
        parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
        shared = nn.parallel.DistributedDataParallel(nn.Sequential(*parts))
        models[name] = plain, shared, torch.randn(8, width)

    def step(model, x):
        model.zero_grad()
        model(x).sum().backward()

    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, count = json.loads(line)
        plain, shared, x = models[name]
        times = []
        for model in (plain, shared):
            dist.barrier()
            taken = []
            for _ in range(count):
                start = time.perf_counter()
                step(model, x)
                taken.append(time.perf_counter() - start)
            times.append(statistics.median(taken))
        print(json.dumps(times), flush=True)
    dist.destroy_process_group()


class Pair:
    """The processes of one library."""

    def __init__(self, library, python, folder):
        self.ranks = [
            subprocess.Popen(
                [python, __file__, "worker", library, str(rank), f"{folder}/{library}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for rank in range(WORLD)
        ]
        for rank in self.ranks:
            json.loads(rank.stdout.readline())

    def time(self, name, count):
        for rank in self.ranks:
            rank.stdin.write(json.dumps([name, count]) + "\n")
            rank.stdin.flush()
        found = [json.loads(rank.stdout.readline()) for rank in self.ranks]
        return [max(each) for each in zip(*found)]

    def end(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait(30)


def main(python, rounds=7):
    with tempfile.TemporaryDirectory() as folder:
        pairs = {"corten": Pair("corten", sys.executable, folder), "torch": Pair("torch", python, folder)}
        for name in SIZES:
            found = {library: [] for library in pairs}
            for library, pair in pairs.items():
                pair.time(name, 5)
            for _ in range(int(rounds)):
                for library, pair in pairs.items():
                    found[library].append(pair.time(name, 20))
            row = {}
            for library, times in found.items():
                plain, shared = (statistics.median(each) * 1e3 for each in zip(*times))
                row[library] = shared - plain
                print(f"{name:7} {library:6} plain {plain:8.3f} ms, averaged {shared:8.3f} ms", flush=True)
            print(f"{name:7} overhead beside PyTorch's: {row['corten'] / row['torch']:.2f}", flush=True)
        for pair in pairs.values():
            pair.end()


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        worker(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main(*sys.argv[1:])
