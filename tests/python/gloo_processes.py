"""Programs that run in several processes over gloo."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import corten.distributed as dist

# Where neither the library nor what it is compiled from is installed, there is nothing to test.
AVAILABLE = dist.is_available() and dist.is_gloo_available()
if not AVAILABLE:
    print("gloo: not run: neither libcorten_gloo.so nor g++ with libgloo-dev is installed")

HEAD = """
import datetime, os, sys, time, warnings
import corten as torch
import corten.distributed as dist
rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{folder}/store{size}", rank=rank, world_size=size,
                        timeout=datetime.timedelta(seconds=float(sys.argv[4])))
"""


class GlooProcesses(unittest.TestCase):
    """Tests that start a program on several ranks, which end with the test."""

    #: What programs begin with, when the group is there.
    head = ""

    def setUp(self):
        if not AVAILABLE:
            self.skipTest("gloo is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.started = Path(folder.name), []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            process.kill()
            process.communicate()

    def start(self, text, size, timeout=60):
        """The processes of a program, whose calls have so many seconds."""
        path = self.folder / "program.py"
        path.write_text(HEAD + self.head + textwrap.dedent(text))
        paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
        started = [
            subprocess.Popen(
                [sys.executable, path, str(rank), str(size), str(self.folder), str(timeout)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            )
            for rank in range(size)
        ]
        self.started += started
        return started

    def finish(self, process, code=0):
        """What a process printed."""
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, errors)
        return output

    def run_program(self, text, size):
        """What each of so many processes prints."""
        ranks = self.start(textwrap.dedent(text) + "\ndist.destroy_process_group()\n", size)
        return [self.finish(rank) for rank in ranks]
