"""Ranks that die or stop in the middle of collectives: whether all others notice in time, and name the right one.

    PYTHONPATH=python python benches/distributed_faults.py [RUNS] [SEED]

Each run starts two to four processes over gloo, which repeat one call, and kills (SIGKILL) or stops (SIGSTOP) one.
Every other rank must raise a DistBackendError that names this rank within the timeout and five seconds, and end by
itself. Exits with 1 if any does not.
"""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TIMEOUT = 4.0  # seconds
NOTICED = 7
CALLS = {
    "all_reduce": "dist.all_reduce(x)",
    "small all_reduce": "dist.all_reduce(x[:1])",
    "broadcast": "dist.broadcast(x, step % size)",
    "all_gather": "dist.all_gather(list(many), x)",
    "reduce": "dist.reduce(x, step % size)",
    "reduce_scatter": "dist.reduce_scatter(x, list(many))",
    "gather": "dist.gather(x, list(many) if rank == step % size else None, step % size)",
    "scatter": "dist.scatter(x, list(many) if rank == step % size else None, step % size)",
    "all_to_all": "dist.all_to_all_single(many.view(-1), many.view(-1).clone())",
    "barrier": "dist.barrier()",
}
PROGRAM = """
import datetime, sys
import corten as torch
import corten.distributed as dist
rank, size = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=rank, world_size=size,
                        timeout=datetime.timedelta(seconds={timeout}))
x, many = torch.zeros(200_000), torch.zeros(size, 200_000)
for step in range(10**9):
    if step == 4:
        print("running", flush=True)
    try:
        {call}
    except Exception as error:
        print(type(error).__name__, str(error).replace(chr(10), " "), flush=True)
        sys.exit({noticed})
"""


def run(call, size, victim, number):
    """What went wrong, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(PROGRAM.format(call=CALLS[call], timeout=TIMEOUT, noticed=NOTICED))
        command = [sys.executable, program]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        ranks = [
            subprocess.Popen([*command, str(rank), str(size), f"{folder}/store"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=environment)
            for rank in range(size)
        ]
        try:
            for rank in ranks:
                if rank.stdout.readline() != "running\n":
                    return f"did not start: {rank.stderr.read()}"
            time.sleep(random.random() * 0.2)
            begun = time.monotonic()
            ranks[victim].send_signal(number)
            for rank, process in enumerate(ranks):
                if rank == victim:
                    continue
                left = max(0.1, begun + TIMEOUT + 5 - time.monotonic())
                try:
                    output, errors = process.communicate(timeout=left)
                except subprocess.TimeoutExpired:
                    return f"rank {rank} has not ended"
                if process.returncode != NOTICED or "DistBackendError" not in output:
                    return f"rank {rank} ended with {process.returncode}: {output}{errors}"
                if not re.search(rf"Rank {victim} did not report", output):
                    return f"rank {rank} names others: {output}"
        finally:
            for process in ranks:
                process.kill()
                process.wait()
                process.stdout.close()
                process.stderr.close()
    return None


def main(runs, seed):
    random.seed(seed)
    good = 0
    for _ in range(runs):
        call, size = random.choice(list(CALLS)), random.choice([2, 3, 4])
        victim, number = random.randrange(size), random.choice([signal.SIGKILL, signal.SIGSTOP])
        wrong = run(call, size, victim, number)
        good += wrong is None
        if wrong is not None:
            print(f"{call} of {size} ranks, {number.name} to rank {victim}: {wrong}", flush=True)
    print(f"{good} of {runs} right")
    return good == runs


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    sys.exit(not main(*(numbers + [100, 0][len(numbers):])))
