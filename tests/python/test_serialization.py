"""Files: those that PyTorch wrote, round trips, safetensors, refusals."""

import io
import os
import pickle
import tempfile
import unittest
import zipfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from unittest import mock

from module_under_test import torch

GOLDENS = Path(__file__).resolve().parent.parent / "goldens"
LEGACY = {"_use_new_zipfile_serialization": False}

if torch.__name__ == "torch":
    safetensors = import_module("safetensors.torch")
else:
    safetensors = import_module(f"{torch.__name__}.safetensors")


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


class FromTorch(unittest.TestCase):
    def check(self, got):
        self.assertEqual(got["base"].tolist(), torch.arange(12.0).view(3, 4).tolist())
        self.assertEqual(got["view"].tolist(), [[4, 6], [8, 10]])
        self.assertEqual(got["view"].stride(), (4, 2))
        got["base"][1, 0] = 99  # one storage for both
        self.assertEqual(got["view"][0, 0].item(), 99)
        self.assertEqual(got["half"].dtype, torch.float16)
        self.assertEqual(got["half"].tolist(), [0.5, -2])
        self.assertEqual(got["brain"].tolist(), [1, 3])
        self.assertEqual(got["flags"].tolist(), [True, False])
        self.assertIsInstance(got["parameter"], torch.nn.Parameter)
        self.assertTrue(got["parameter"].requires_grad)
        self.assertEqual(got["waves"].tolist(), [1 + 2j])
        self.assertEqual(tuple(got["empty"].shape), (0, 3))
        self.assertIs(got["dtype"], torch.float16)
        self.assertEqual(tuple(got["size"]), (2, 3))
        self.assertEqual(got["device"], torch.device("cpu"))
        self.assertEqual(got["nested"], {"list": [1, 2.5, "x", None, True, (1, 2)], "big": 2**70})

    def test_zip(self):
        for weights_only in (True, False):
            got = torch.load(GOLDENS / "saved_by_torch.pt", weights_only=weights_only)
            self.check(got)
            self.assertEqual(got["words"].tolist(), [1, 2, 65535])

    def test_legacy(self):
        for weights_only in (True, False):
            self.check(torch.load(GOLDENS / "saved_by_torch_legacy.pt", weights_only=weights_only))


class RoundTrip(unittest.TestCase):
    def test_state(self):
        net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        for options in ({}, LEGACY):
            state = torch.load(saved(net.state_dict(), **options))
            self.assertEqual(list(state), list(net.state_dict()))
            self.assertEqual(state._metadata["1"]["version"], 2)
            net.load_state_dict(state)

    def test_sharing(self):
        base = torch.arange(6.0)
        for options in ({}, LEGACY):
            a, b = torch.load(saved([base, base[2:]], **options))
            a.zero_()
            self.assertEqual(b.tolist(), [0, 0, 0, 0])

    def test_modules(self):
        net = torch.load(saved(torch.nn.Linear(2, 1)), weights_only=False)
        self.assertEqual(net(torch.zeros(1, 2)).shape, (1, 1))

    def test_optimizer(self):
        p = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.Adam([p])
        p.grad = torch.ones(2)
        optimizer.step()
        state = torch.load(saved(optimizer.state_dict()))
        self.assertEqual(state["state"][0]["step"].item(), 1)

    def test_pickle(self):
        t = pickle.loads(pickle.dumps(torch.arange(4).view(2, 2).t()))
        self.assertEqual((t.tolist(), t.stride()), ([[0, 2], [1, 3]], (1, 2)))

    def test_records_are_aligned(self):
        with zipfile.ZipFile(saved([torch.ones(3), torch.ones(5)])) as archive:
            for info in archive.infolist():
                archive.fp.seek(info.header_offset + 26)
                name, extra = (int.from_bytes(archive.fp.read(2), "little") for _ in range(2))
                self.assertEqual((info.header_offset + 30 + name + extra) % 64, 0, info.filename)


class Command:
    def __reduce__(self):
        return os.system, ("false",)


class Refusals(unittest.TestCase):
    def test_code_is_not_run(self):
        with self.assertRaisesRegex(pickle.UnpicklingError, "posix|os"):
            torch.load(saved({"a": Command()}))

    def test_own_classes_need_permission(self):
        buffer = saved(Plain())
        with self.assertRaisesRegex(pickle.UnpicklingError, "Unsupported global"):
            torch.load(buffer)
        buffer.seek(0)
        with torch.serialization.safe_globals([Plain]):
            self.assertEqual(torch.load(buffer).x, 3)

    def test_other_files(self):
        with self.assertRaises(Exception):
            torch.load(io.BytesIO(b"no such format"))


@unittest.skipUnless(torch.__name__ == "corten", "PyTorch writes in place")
class Whole(unittest.TestCase):
    """A file is replaced by a complete one, or stays."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.path = self.folder / "x.pt"

    def test_failing_save(self):
        torch.save({"a": torch.ones(2)}, self.path)
        with self.assertRaises(Exception):
            torch.save({"a": torch.ones(2), "b": lambda: 0}, self.path)
        with failing_writes(), self.assertRaisesRegex(OSError, "No space left"):
            torch.save({"a": torch.zeros(2)}, self.path)
        self.assertEqual(torch.load(self.path)["a"].tolist(), [1, 1])
        self.assertEqual(os.listdir(self.folder), ["x.pt"])

    def test_failing_save_of_other_formats(self):
        for name, options in (("x.pt", LEGACY), ("x.safetensors", {})):
            path = self.folder / name
            torch.save({"a": torch.ones(2)}, path, **options)
            with failing_writes(), self.assertRaisesRegex(OSError, "No space left"):
                torch.save({"a": torch.zeros(2)}, path, **options)
            self.assertEqual(torch.load(path)["a"].tolist(), [1, 1])
        self.assertEqual(sorted(os.listdir(self.folder)), ["x.pt", "x.safetensors"])

    def test_mode_and_links_stay(self):
        torch.save(1, self.path)
        os.chmod(self.path, 0o640)
        (self.folder / "link.pt").symlink_to(self.path)
        torch.save(2, self.folder / "link.pt")
        self.assertTrue((self.folder / "link.pt").is_symlink())
        self.assertEqual((torch.load(self.path), self.path.stat().st_mode & 0o777), (2, 0o640))
        torch.save(3, "/dev/null")

    def test_open_maps_stay(self):
        torch.save(torch.ones(1000), self.path)
        mapped = torch.load(self.path, mmap=True)
        torch.save(torch.zeros(3), self.path)
        self.assertEqual(mapped.sum().item(), 1000)


@contextmanager
def failing_writes():
    """A block in which the disk is full after the first bytes."""
    real = open

    def limited(*args, **kwargs):
        file = real(*args, **kwargs)
        if "b" not in file.mode or not file.writable():
            return file
        # Headers are written, but no data.
        file.close()
        return FullDisk(args[0], "wb")

    with mock.patch("builtins.open", limited):
        yield


class FullDisk(io.FileIO):
    def write(self, data):
        if self.tell() > 20:
            raise OSError(28, "No space left on device")
        return super().write(data)


class Places(unittest.TestCase):
    """Names, folders and files that are not there, and what is no file."""

    def test_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(FileNotFoundError, "nowhere"):
                torch.load(os.path.join(folder, "nowhere"))
            with self.assertRaisesRegex(RuntimeError, "Parent directory .*none does not exist."):
                torch.save(1, os.path.join(folder, "none", "x.pt"))
        with self.assertRaisesRegex(AttributeError, "expected 'f' to be string, path, or a file"):
            torch.save(1, 5)
        with self.assertRaisesRegex(AttributeError, "You can only torch.load from a file that"):
            torch.load(5)
        with self.assertRaises(EOFError):
            torch.load(io.BytesIO())
        with self.assertRaises(pickle.UnpicklingError):
            torch.load(io.BytesIO(b"garbage is here"))


class Plain:
    def __init__(self):
        self.x = 3


class Safetensors(unittest.TestCase):
    def test_round_trip(self):
        tensors = {
            "a": torch.arange(6.0).view(2, 3), "b": torch.tensor([True]),
            "c": torch.tensor([1.5], dtype=torch.bfloat16), "d": torch.empty(0, 2),
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.safetensors")
            safetensors.save_file(tensors, path, metadata={"k": "v"})
            self.assertEqual(os.listdir(folder), ["x.safetensors"])
            got = safetensors.load_file(path)
        self.assertEqual(sorted(got), sorted(tensors))
        for name, tensor in tensors.items():
            self.assertEqual(got[name].dtype, tensor.dtype)
            self.assertTrue(torch.equal(got[name], tensor), name)

    def test_format(self):
        data = safetensors.save({"a": torch.tensor([1.0])})
        self.assertEqual(data[8:9], b"{")
        self.assertEqual(data[-4:], b"\0\0\x80?")

    def test_broken_files(self):
        good = safetensors.save({"a": torch.tensor([1.0])})
        for bad in (b"", good[:6], good[:20], good + b"x", b"\xff" * 30):
            with self.assertRaises(Exception):
                safetensors.load(bad)

    def test_shared_memory_is_refused(self):
        t = torch.ones(2)
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(RuntimeError):
            safetensors.save_file({"a": t, "b": t}, os.path.join(folder, "x"))


if __name__ == "__main__":
    unittest.main()
