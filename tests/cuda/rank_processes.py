"""Ranks that are processes, on the emulated driver: programs that find each other through a file."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from emulator import build

HERE = Path(__file__).resolve().parent

HEAD = """
import datetime, os, sys, time
from cuda_under_test import torch
import corten.distributed as dist
rank, size = int(sys.argv[1]), int(sys.argv[2])
store = dist.FileStore(sys.argv[3], size)
"""


class RankProcesses(unittest.TestCase):
    """Starts programs and ends them when the test does."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.started = Path(folder.name), []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            process.kill()
            process.communicate()

    def start(self, text, size, **settings):
        """`size` processes of a program; `settings` are variables of their environment."""
        path = self.folder / "program.py"
        path.write_text(HEAD + textwrap.dedent(text))
        paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "CORTEN_NCCL_LIBRARY": str(build() / "libnccl.so.2"),
            "FAKENCCL_FOLDER": str(self.folder), "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            **settings,
        }
        for rank in range(size):
            command = [sys.executable, str(path), str(rank), str(size), str(self.folder / "store")]
            pipe = subprocess.PIPE
            self.started.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment))
        return self.started

    def finish(self, process, code=0):
        """What a process printed; it must end by itself."""
        output, errors = process.communicate(timeout=90)
        self.assertEqual(process.returncode, code, f"{output}\n{errors}")
        return output
