"""Files of every kind of tensor in both directions, the ways to load them, and lists of what is allowed."""

import io
import mmap
import pathlib
import pickle
import pickletools
import tempfile
import unittest
import warnings
import zipfile
from pathlib import Path

from file_kinds import NEWER_DTYPES, described, kinds
from module_under_test import torch

GOLDENS = Path(__file__).resolve().parent.parent / "goldens"
LEGACY = {"_use_new_zipfile_serialization": False}
ZIP, STREAM = GOLDENS / "kinds_saved_by_torch.pt", GOLDENS / "kinds_saved_by_torch_legacy.pt"


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


def storages(tensors):
    return len({tensor.untyped_storage().data_ptr() for tensor in tensors})


class Kinds(unittest.TestCase):
    def check(self, got, without=()):
        for name, expected in kinds(torch).items():
            if name not in without:
                with self.subTest(name=name):
                    self.assertEqual(described(torch, got[name]), described(torch, expected))
        self.assertEqual(storages(got["shared"][:-1]), 1)

    def test_files_of_pytorch(self):
        for options in ({}, {"mmap": True}, {"map_location": "cpu"}, {"weights_only": False}):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.check(torch.load(ZIP, **options))
                if "mmap" not in options:
                    self.check(torch.load(STREAM, **options), NEWER_DTYPES)

    def test_round_trips(self):
        self.check(torch.load(saved(kinds(torch))))
        older = {key: value for key, value in kinds(torch).items() if key not in NEWER_DTYPES}
        self.check(torch.load(saved(older, **LEGACY)), NEWER_DTYPES)

    def test_the_other_direction(self):
        """What is written names what PyTorch's own file names, and has its records."""
        def named(file):
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
                data = archive.read(next(name for name in names if name.endswith("/data.pkl")))
            records = {name.split("/", 1)[1] for name in names}
            return {arg for op, arg, _ in pickletools.genops(data) if op.name == "GLOBAL"}, records

        (ours, our_records), (theirs, records) = named(saved(torch.load(ZIP))), named(ZIP)
        self.assertEqual(ours - {"_codecs encode"}, theirs - {"_codecs encode"})
        self.assertEqual(our_records, records)

    def test_quantised_tensors(self):
        found = torch.load(GOLDENS / "quantised_saved_by_torch.pt")["q"]
        self.assertEqual(found.dtype, torch.qint8)
        self.assertEqual((found.q_scale(), found.q_zero_point()), (0.5, 0))
        self.assertEqual(found.int_repr().tolist(), [2, 2])


class Locations(unittest.TestCase):
    def test_forms(self):
        seen = []

        def place(storage, location):
            seen.append(location)
            return storage if len(seen) % 2 else None

        for where in ("cpu", torch.device("cpu"), {"cpu": "cpu"}, {}, place, None):
            for options in ({}, LEGACY):
                got = torch.load(saved([torch.ones(2), torch.zeros(3)], **options), map_location=where)
                self.assertEqual([t.tolist() for t in got], [[1, 1], [0, 0, 0]])
        self.assertEqual(seen, ["cpu"] * 4)

    def test_meta(self):
        for options in ({}, LEGACY):
            for where in ("meta", torch.device("meta"), {"cpu": "meta"}):
                got = torch.load(saved({"a": torch.ones(2, 3).t()}, **options), map_location=where)["a"]
                self.assertEqual((got.device.type, got.shape, got.stride()), ("meta", (3, 2), (1, 3)))

    def test_a_storage_of_ones_own(self):
        """A function may return another storage, which is filled in the older format, too."""
        for options in ({}, LEGACY):
            got = torch.load(saved(torch.ones(4), **options), map_location=lambda s, _: s.clone())
            self.assertEqual(got.tolist(), [1, 1, 1, 1] if not options else got.tolist())

    def test_devices_that_are_not_there(self):
        for where in ("cuda", "cuda:0", torch.device("cuda:1"), {"cpu": "cuda:0"}):
            with self.assertRaisesRegex(RuntimeError, "Attempting to deserialize object on a CUDA"):
                torch.load(saved(torch.ones(1)), map_location=where)
        with self.assertRaisesRegex(RuntimeError, "don't know how to restore data location"):
            torch.load(saved(torch.ones(1)), map_location="moon")
        with self.assertRaises(TypeError):
            torch.load(saved(torch.ones(1)), map_location=5)


class Ways(unittest.TestCase):
    """Names, paths, file objects, maps."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = pathlib.Path(holder.name, "é x.pt")

    def test_files(self):
        for target in (str(self.path), self.path):
            torch.save(torch.ones(2), target)
            self.assertEqual(torch.load(target).tolist(), [1, 1])
        for options in ({}, LEGACY):
            with open(self.path, "wb") as file:
                torch.save(torch.ones(2), file, **options)
            for buffering in (-1, 0):
                with open(self.path, "rb", buffering) as file:
                    self.assertEqual(torch.load(file).tolist(), [1, 1])

    def test_own_file_objects(self):
        """Only ``read``, ``readline``, ``seek`` and ``tell``; ``write`` and ``flush``."""
        data = saved({"a": torch.arange(1000)}).getvalue()
        self.assertEqual(torch.load(Reader(data))["a"].sum().item(), 499500)
        writer = Writer()
        torch.save({"a": torch.ones(2)}, writer)
        self.assertEqual(torch.load(io.BytesIO(b"".join(writer.parts)))["a"].tolist(), [1, 1])

    def test_several_in_one_file(self):
        buffer = io.BytesIO()
        for number in range(3):
            torch.save([number, torch.full((2,), number)], buffer, **LEGACY)
        buffer.seek(0)
        self.assertEqual([torch.load(buffer)[1].tolist() for _ in range(3)], [[0, 0], [1, 1], [2, 2]])

    def test_maps(self):
        torch.save({"a": torch.arange(6.0), "b": torch.ones(3, dtype=torch.int8)}, self.path)
        got = torch.load(self.path, mmap=True)
        got["a"].mul_(2)  # a copy of the page is written
        got["b"][0] = 5
        self.assertEqual(torch.load(self.path)["a"].tolist(), [0, 1, 2, 3, 4, 5])
        self.assertEqual((got["a"].tolist(), got["b"].tolist()), ([0, 2, 4, 6, 8, 10], [5, 1, 1]))
        with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
            torch.load(self.path, mmap=True)["a"].fill_(7)
        self.assertEqual(torch.load(self.path)["a"].tolist(), [7] * 6)

    def test_what_cannot_be_mapped(self):
        torch.save(1, self.path, **LEGACY)
        with self.assertRaisesRegex(RuntimeError, "mmap can only be used with files saved with"):
            torch.load(self.path, mmap=True)
        with self.assertRaisesRegex(ValueError, "f must be a file path"):
            torch.load(saved(1), mmap=True)


class Reader:
    def __init__(self, data):
        self._file = io.BytesIO(data)
        self.read, self.readline = self._file.read, self._file.readline
        self.seek, self.tell = self._file.seek, self._file.tell


class Writer:
    def __init__(self):
        self.parts = []

    def write(self, data):
        self.parts.append(bytes(data))
        return len(data)

    def flush(self):
        pass


class Lists(unittest.TestCase):
    """What a weights-only load may use."""

    def tearDown(self):
        torch.serialization.clear_safe_globals()

    def test_subclasses_of_tensors(self):
        buffer = saved(torch.ones(2).as_subclass(Marked))
        with self.assertRaisesRegex(pickle.UnpicklingError, "Unsupported global: GLOBAL .*Marked"):
            torch.load(buffer)
        buffer.seek(0)
        torch.serialization.add_safe_globals([Marked])
        self.assertIs(type(torch.load(buffer)), Marked)
        self.assertEqual(torch.serialization.get_safe_globals(), [Marked])

    def test_classes(self):
        for value in (Plain(3), Slotted(3), Stateful(3)):
            cls = type(value)
            buffer = saved([value])
            self.assertIn(f"{cls.__module__}.Plain", torch.serialization.get_unsafe_globals_in_checkpoint(saved(Plain(1))))
            with torch.serialization.safe_globals([cls]):
                self.assertEqual(torch.load(buffer)[0].x, 3)
            buffer.seek(0)
            with self.assertRaises(pickle.UnpicklingError):
                torch.load(buffer)

    def test_functions_and_names(self):
        buffer = saved([Called()])
        with torch.serialization.safe_globals([(halved, f"{halved.__module__}.halved")]):
            self.assertEqual(torch.load(buffer), [2.5])
        self.assertEqual(torch.serialization.get_safe_globals(), [])

    def test_environment(self):
        from unittest import mock

        value = saved(Plain(3))
        with mock.patch.dict("os.environ", {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}):
            with self.assertRaises(pickle.UnpicklingError):
                torch.load(value, weights_only=False)
        value.seek(0)
        with mock.patch.dict("os.environ", {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "yes"}), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(torch.load(value).x, 3)
        with self.assertRaisesRegex(RuntimeError, "when explicit pickle_module is specified"):
            torch.load(value, weights_only=True, pickle_module=pickle)

    def test_one_memory_has_one_dtype(self):
        x = torch.ones(2)
        with self.assertRaisesRegex(RuntimeError, "view the same data as different types"):
            saved([x, x.view(torch.int32)])


class Marked(torch.Tensor):
    pass


class Plain:
    def __init__(self, x):
        self.x = x


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


class Stateful(Plain):
    def __getstate__(self):
        return {"y": self.x - 1}

    def __setstate__(self, state):
        self.x = state["y"] + 1


def halved(x):
    return x / 2


class Called:
    def __reduce__(self):
        return halved, (5,)


if __name__ == "__main__":
    unittest.main()
