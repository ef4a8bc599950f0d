"""DistributedDataParallel: ranks that are threads, and processes where gloo is there."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import corten.distributed as dist
from corten.testing._internal.distributed.multi_threaded_pg import run_threads
from ddp_cases import CASES

WORLD = 2


class Threads(unittest.TestCase):
    """Each case over ranks that are threads of this process."""


def over_threads(case):
    def test(self):
        run_threads(WORLD, case)

    return test


#: The longest, which processes run where they can.
LONGEST = "gpt"

for name, case in CASES.items():
    if name != LONGEST or not dist.is_gloo_available():
        setattr(Threads, f"test_{name}", over_threads(case))


@unittest.skipUnless(dist.is_gloo_available(), "libgloo is not there")
class Processes(unittest.TestCase):
    """Some cases over processes."""

    def run_case(self, name):
        script = str(Path(__file__).with_name("ddp_cases.py"))
        with tempfile.TemporaryDirectory() as folder:
            ranks = [
                subprocess.Popen(
                    [sys.executable, script, name, str(rank), str(WORLD), f"{folder}/store", "gloo"],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                )
                for rank in range(WORLD)
            ]
            try:
                printed = [rank.communicate(timeout=60)[0] for rank in ranks]
            finally:
                for rank in ranks:
                    rank.kill()
            self.assertEqual([rank.returncode for rank in ranks], [0] * WORLD, "\n".join(printed))

    def test_gpt(self):
        self.run_case("gpt")

    def test_uneven_inputs(self):
        self.run_case("uneven_inputs")

    def test_unused_parameters(self):
        self.run_case("unused_parameters")


if __name__ == "__main__":
    unittest.main()
