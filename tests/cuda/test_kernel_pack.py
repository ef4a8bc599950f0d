"""Where kernels come from: the pack, the disk, NVRTC; and devices that NVRTC does not know."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import kernel_pack  # noqa: E402
from emulator import AVAILABLE, MISSING, build  # noqa: E402

ADD = """
import corten
x = corten.arange(5.0).to("cuda")
print((x + 1).cpu().tolist())
"""
SUM = ADD + "print(float(x.sum()))\n"


def run(program, **settings):
    environment = dict(os.environ, CORTEN_QUIET="1", CUSIM_DEVICES="1", CORTEN_KERNEL_PACK="")
    environment.update({name: str(value) for name, value in settings.items()})
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)


@unittest.skipUnless(AVAILABLE and os.environ.get("CORTEN_TEST_GPU") != "1", MISSING)
class KernelPack(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.emulator = build()
        self.cache, self.pack, self.driver_alone = [self.folder / name for name in ("cache", "pack", "driver")]
        self.driver_alone.mkdir()
        shutil.copyfile(self.emulator / "libcuda.so.1", self.driver_alone / "libcuda.so.1")

    def prints(self, done, *lines):
        self.assertEqual(done.stdout.splitlines(), list(lines), done.stderr)

    def run_with_nvrtc(self, program, **settings):
        return run(program, **{"CORTEN_CUDA_LIB_DIR": self.emulator, "CORTEN_KERNEL_CACHE": self.cache,
                               "CUSIM_CACHE": self.emulator / "kernels", **settings})

    def run_without_nvrtc(self, program, **settings):
        """The driver alone, in a Python whose packages have no NVRTC either."""
        hidden = "import sys\nsys.path = [p for p in sys.path if 'site-packages' not in p]\n"
        return run(hidden + program, **{"CORTEN_CUDA_LIB_DIR": self.driver_alone, "CORTEN_KERNEL_CACHE": "", **settings})

    def make_pack(self, name="sm_90.pack", change=lambda version, source: (version, source)):
        kernels = {kernel_pack.key_of(*change(version, source)): (symbol, image)
                   for version, source, symbol, image in kernel_pack.cached(self.cache)}
        kernel_pack.write(self.pack / name, kernels)
        return kernels

    def test_packed_kernels_need_no_nvrtc(self):
        self.prints(self.run_with_nvrtc(ADD), "[1.0, 2.0, 3.0, 4.0, 5.0]")
        self.assertTrue(self.make_pack())
        self.prints(self.run_without_nvrtc(ADD, CORTEN_KERNEL_PACK=self.pack), "[1.0, 2.0, 3.0, 4.0, 5.0]")
        done = self.run_without_nvrtc(SUM, CORTEN_KERNEL_PACK=self.pack)
        self.assertIn("NVRTC was not found", done.stderr)
        self.assertIn("pip install nvidia-cuda-nvrtc", done.stderr)

    def test_packs_of_architectures(self):
        self.prints(self.run_with_nvrtc(ADD), "[1.0, 2.0, 3.0, 4.0, 5.0]")
        self.make_pack("sm_80.pack")
        for compute, served in [("8.6", True), ("9.0", False), ("7.5", False)]:
            done = self.run_without_nvrtc(ADD, CORTEN_KERNEL_PACK=self.pack, CUSIM_COMPUTE=compute)
            self.assertEqual(done.returncode == 0, served, done.stderr)

    def test_a_stale_or_broken_pack_is_ignored(self):
        self.prints(self.run_with_nvrtc(ADD), "[1.0, 2.0, 3.0, 4.0, 5.0]")
        self.make_pack(change=lambda version, source: (version, source + b" "))
        self.assertIn("NVRTC was not found", self.run_without_nvrtc(ADD, CORTEN_KERNEL_PACK=self.pack).stderr)
        self.prints(self.run_with_nvrtc(ADD, CORTEN_KERNEL_PACK=self.pack), "[1.0, 2.0, 3.0, 4.0, 5.0]")
        self.make_pack()
        whole = (self.pack / "sm_90.pack").read_bytes()
        for broken in (b"", whole[:20], whole[:-40], whole[:100] + bytes(len(whole) - 100), b"x" * 200):
            (self.pack / "sm_90.pack").write_bytes(broken)
            self.prints(self.run_with_nvrtc(ADD, CORTEN_KERNEL_PACK=self.pack), "[1.0, 2.0, 3.0, 4.0, 5.0]")

    def test_kernels_on_disk_need_no_nvrtc(self):
        self.prints(self.run_with_nvrtc(ADD), "[1.0, 2.0, 3.0, 4.0, 5.0]")
        done = self.run_without_nvrtc(ADD, CORTEN_KERNEL_CACHE=self.cache)
        self.prints(done, "[1.0, 2.0, 3.0, 4.0, 5.0]")

    def test_kernels_on_disk_of_another_nvrtc_are_made_again(self):
        self.run_with_nvrtc(ADD)
        for path in self.cache.iterdir():
            data = path.read_bytes()
            compiler = data[16:].split(b" ")[2]
            path.write_bytes(data.replace(compiler, compiler[:-1] + (b"1" if compiler[-1:] == b"2" else b"2"), 1))
        before = {path.name: path.read_bytes() for path in self.cache.iterdir()}
        self.prints(self.run_with_nvrtc(ADD), "[1.0, 2.0, 3.0, 4.0, 5.0]")
        after = {path.name: path.read_bytes() for path in self.cache.iterdir()}
        self.assertEqual(before.keys(), after.keys())
        self.assertTrue(all(before[name] != after[name] for name in before))

    def test_devices_that_nvrtc_does_not_know(self):
        for compute in ("9.9", "13.0"):
            self.prints(self.run_with_nvrtc(ADD, CUSIM_COMPUTE=compute), "[1.0, 2.0, 3.0, 4.0, 5.0]")
        done = self.run_with_nvrtc(ADD, CUSIM_COMPUTE="6.0")
        self.assertIn("compiles for devices of compute capability 7.5 and newer, and this one has 6.0", done.stderr)


if __name__ == "__main__":
    unittest.main()
