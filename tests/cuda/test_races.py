"""No race between blocks in a sample of kernels of every family: the emulator watches every access."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from emulator import AVAILABLE, MISSING, build  # noqa: E402
from sanitizer_sample import FAMILIES  # noqa: E402


@unittest.skipUnless(AVAILABLE and os.environ.get("CORTEN_TEST_GPU") != "1", MISSING)
class Races(unittest.TestCase):
    def test_sample(self):
        libraries = build()
        environment = dict(os.environ, CORTEN_QUIET="1", CORTEN_CUDA_LIB_DIR=str(libraries), CORTEN_KERNEL_PACK="",
                           CUSIM_CACHE=str(libraries / "kernels"), CORTEN_KERNEL_CACHE=str(libraries / "watched"),
                           CUSIM_RACES="1", CUSIM_STRICT="1", CUSIM_DEVICES="1")
        sample = str(Path(__file__).with_name("sanitizer_sample.py"))
        done = subprocess.run([sys.executable, sample], env=environment, capture_output=True, text=True)
        self.assertEqual(done.stdout.split(), [family.__name__ for family in FAMILIES], done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
