"""Ranks that die or stop in the middle of collectives: whether all others notice in time, and name the right one.

    PYTHONPATH=python python benches/distributed_faults.py [RUNS] [SEED] [BACKEND]

Each run starts two to four processes over gloo, or over mpi under the mpiexec of PATH, which repeat one call, and
kills (SIGKILL) or stops (SIGSTOP) one. Every other rank must raise a DistBackendError that names this rank within the
timeout and five seconds, and end by itself. Exits with 1 if any does not. MPICH's mpiexec ends all ranks when one is
killed; with it, ranks are only stopped.
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
import datetime, os, sys, time
import corten as torch
import corten.distributed as dist
folder, backend = sys.argv[1:3]
timeout = datetime.timedelta(seconds={timeout})
if backend == "mpi":
    dist.init_process_group("mpi", timeout=timeout)
else:
    meeting = sys.argv[5] if len(sys.argv) > 5 else f"file://{{folder}}/store"
    dist.init_process_group(backend, init_method=meeting, rank=int(sys.argv[3]), world_size=int(sys.argv[4]),
                            timeout=timeout)
rank, size = dist.get_rank(), dist.get_world_size()
def say(name, text):
    with open(f"{{folder}}/part-{{rank}}", "w") as file:
        file.write(text)
    os.rename(f"{{folder}}/part-{{rank}}", f"{{folder}}/{{name}}-{{rank}}")
x, many = torch.zeros(200_000), torch.zeros(size, 200_000)
for step in range(10**9):
    if step == 4:
        say("running", str(os.getpid()))
    try:
        {call}
    except Exception as error:
        say("noticed", f"{{type(error).__name__}} {{error}}")
        # Launchers of MPI end all ranks when one ends without having ended MPI.
        while backend == "mpi" and not os.path.exists(f"{{folder}}/all-noticed"):
            time.sleep(0.01)
        sys.exit(0)
"""


def starts(backend, size, folder, program):
    """The commands that start the ranks."""
    command = [sys.executable, program, folder, backend]
    if backend != "mpi":
        return [[*command, str(rank), str(size)] for rank in range(size)]
    options = []
    if is_open_mpi():
        version = subprocess.run(["mpiexec", "--version"], capture_output=True, text=True).stdout
        keeps = ["--enable-recovery"] if ") 4" in version else ["--runtime-options", "recoverable,continuous"]
        options = ["--oversubscribe", "--allow-run-as-root", *keeps]
    return [["mpiexec", *options, "-n", str(size), *command]]


def is_open_mpi():
    return "Open" in subprocess.run(["mpiexec", "--version"], capture_output=True, text=True).stdout


def is_alive(pid):
    """Whether a process runs: one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Ranks:
    """The processes of a run."""

    def __init__(self, call, size, backend, folder):
        self.folder, self.size = Path(folder), size
        program = self.folder / "program.py"
        program.write_text(PROGRAM.format(call=CALLS[call], timeout=TIMEOUT))
        self.output = open(self.folder / "output", "w+")
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.processes = [
            subprocess.Popen(start, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output, env=environment)
            for start in starts(backend, size, folder, str(program))
        ]

    def wait_for(self, ready, end):
        """Whether something came true in time."""
        while not ready():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def said(self, name, rank):
        path = self.folder / f"{name}-{rank}"
        return path.read_text() if path.exists() else None

    def printed(self):
        self.output.seek(0)
        return self.output.read()

    def fault(self, victim, number):
        """What went wrong, or nothing."""
        everybody, others = range(self.size), [rank for rank in range(self.size) if rank != victim]
        if not self.wait_for(lambda: all(self.said("running", rank) for rank in everybody), time.monotonic() + 120):
            return f"did not start: {self.printed()}"
        time.sleep(random.random() * 0.2)
        pids = [int(self.said("running", rank)) for rank in everybody]
        begun = time.monotonic()
        os.kill(pids[victim], number)
        end = begun + TIMEOUT + 5
        self.wait_for(lambda: all(self.said("noticed", rank) for rank in others), end)
        for rank in others:
            said = self.said("noticed", rank)
            if said is None:
                return f"rank {rank} has noticed nothing: {self.printed()}"
            if not said.startswith("DistBackendError") or not re.search(rf"Rank {victim} did not report", said):
                return f"rank {rank} says: {said}"
        (self.folder / "all-noticed").touch()
        if not self.wait_for(lambda: not any(is_alive(pids[rank]) for rank in others), end):
            return f"not all have ended: {self.printed()}"
        return None

    def end(self):
        for rank in range(self.size):
            pid = self.said("running", rank)
            if pid is not None and is_alive(pid):
                os.kill(int(pid), signal.SIGKILL)
        for process in self.processes:
            process.terminate()  # A launcher that is killed at once leaves files in /tmp.
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.output.close()


def run(call, size, victim, number, backend):
    """What went wrong, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(call, size, backend, folder)
        try:
            return ranks.fault(victim, number)
        finally:
            ranks.end()


def main(runs=100, seed=0, backend="gloo"):
    random.seed(int(seed))
    numbers = [signal.SIGKILL, signal.SIGSTOP]
    if backend == "mpi" and not is_open_mpi():
        numbers = [signal.SIGSTOP]
    good = 0
    for _ in range(int(runs)):
        call, size = random.choice(list(CALLS)), random.choice([2, 3, 4])
        victim, number = random.randrange(size), random.choice(numbers)
        wrong = run(call, size, victim, number, backend)
        good += wrong is None
        if wrong is not None:
            print(f"{call} of {size} ranks, {number.name} to rank {victim}: {wrong}", flush=True)
    print(f"{backend}: {good} of {runs} right")
    return good == int(runs)


if __name__ == "__main__":
    sys.exit(not main(*sys.argv[1:]))
