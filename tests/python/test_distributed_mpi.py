"""The back end mpi under its launcher: groups, values, a rank that stops and its name."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

import corten.distributed as dist
from exact_collectives import end_launcher, mpiexec, run, under_mpiexec

MPIEXEC = mpiexec()
AVAILABLE = MPIEXEC is not None and dist.is_available()
if not AVAILABLE:
    print("mpi: not run: there is no mpiexec; `pip install mpich` brings one")

HEAD = """
import datetime, os, sys, time
import corten as torch
import corten.distributed as dist
folder = sys.argv[1]
dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=float(sys.argv[2])))
rank, size = dist.get_rank(), dist.get_world_size()
open(f"{folder}/process-{rank}", "w").write(str(os.getpid()))
def say(text):
    open(f"{folder}/said-{rank}.part", "w").write(text)
    os.rename(f"{folder}/said-{rank}.part", f"{folder}/said-{rank}")
"""


class UnderMpiexec(unittest.TestCase):
    def setUp(self):
        if not AVAILABLE:
            self.skipTest("MPI is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.process = Path(folder.name), None
        self.addCleanup(self.end_all)

    def end_all(self):
        for path in self.folder.glob("process-*"):
            try:
                os.kill(int(path.read_text()), signal.SIGKILL)
            except OSError:
                pass
        if self.process is not None:
            end_launcher(self.process)
            self.process.stdout.close()

    def start(self, text, size, timeout=30):
        path = self.folder / "program.py"
        path.write_text(HEAD + textwrap.dedent(text))
        environment = {**os.environ, "PATH": f"{os.path.dirname(MPIEXEC)}:{os.environ.get('PATH', '')}"}
        command = [*under_mpiexec(size), sys.executable, path, self.folder, str(timeout)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment,
        )

    def said(self, rank, seconds=40):
        """What a rank said."""
        path, end = self.folder / f"said-{rank}", time.monotonic() + seconds
        while not path.exists():
            if time.monotonic() > end or self.process.poll() not in (None, 0):
                self.end_all()
                self.fail(f"rank {rank} said nothing")
            time.sleep(0.02)
        return path.read_text()

    def test_groups_and_values(self):
        self.start(
            """
            x = torch.full((5,), float(rank + 1))
            dist.all_reduce(x)
            assert x.tolist() == [size * (size + 1) / 2] * 5
            found = [None] * size
            dist.all_gather_object(found, {"rank": rank})
            assert found == [{"rank": each} for each in range(size)]
            group = dist.new_group([2, 0])
            if rank in (0, 2):
                y = torch.ones(3, dtype=torch.bfloat16)
                dist.all_reduce(y, group=group)
                assert y.tolist() == [2.0] * 3
            strided = torch.zeros(4, 2)[:, 0]
            strided += rank
            dist.broadcast(strided, 1)
            assert strided.tolist() == [1.0] * 4
            works = [dist.isend(torch.tensor([rank]), (rank + 1) % size)]
            z = torch.zeros(1, dtype=torch.int64)
            works.append(dist.irecv(z, (rank - 1) % size))
            [work.wait() for work in works]
            assert z.item() == (rank - 1) % size
            dist.barrier()
            say(f"{dist.get_backend()} {rank} {size}")
            dist.destroy_process_group()
            """,
            3,
        )
        self.assertEqual([self.said(rank) for rank in range(3)], [f"mpi {rank} 3" for rank in range(3)])
        self.assertEqual(self.process.wait(30), 0)

    def test_every_collective_of_every_dtype(self):
        self.assertGreater(run("mpi", 2, [0, 17], limit=120), 1000)

    def test_processes_of_another_launcher_are_refused(self):
        program = "import corten.distributed as dist; dist.init_process_group('mpi')"
        environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2"}
        found = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment)
        self.assertIn("mpiexec -n 2 python program.py", found.stderr)

    def test_a_rank_that_stops_is_named(self):
        self.start(
            """
            dist.all_reduce(torch.ones(3))
            if rank == 1:
                open(f"{folder}/stops", "w").close()
                os.kill(os.getpid(), 19)
                time.sleep(60)
            begun = time.monotonic()
            try:
                dist.all_reduce(torch.ones(100_000))
                say("no error")
            except dist.DistBackendError as error:
                say(f"{time.monotonic() - begun:.1f} {error}")
            while not all(os.path.exists(f"{folder}/said-{each}") for each in (0, 2)):
                time.sleep(0.02)
            """,
            3,
            timeout=2,
        )
        for rank in (0, 2):
            said = self.said(rank)
            seconds, _, message = said.partition(" ")
            self.assertLess(float(seconds), 7.0, said)
            self.assertIn("allreduce", message)
            self.assertRegex(message, r"\b1\b")


if __name__ == "__main__":
    unittest.main()
