"""Storages seen as elements of a dtype, and records of saved files."""

import copy
import io
import pickle
import unittest
import warnings

from module_under_test import torch


def setUpModule():
    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")


class TypedStorages(unittest.TestCase):
    def test_legacy_classes_recognise_by_dtype(self):
        made = torch.ByteStorage([1, 2])
        self.assertIsInstance(made, torch.ByteStorage)
        self.assertNotIsInstance(made, torch.IntStorage)
        self.assertIs(type(made), torch.TypedStorage)
        self.assertEqual(made.type(), "torch.ByteStorage")
        self.assertIn(torch.FloatStorage, torch._storage_classes)
        self.assertIs(torch.Storage, torch.FloatStorage)

    def test_conversions(self):
        made = torch.IntStorage([-1, 0, 3])
        for name, dtype, expected in (
            ("float", torch.float32, [-1.0, 0.0, 3.0]), ("byte", torch.uint8, [255, 0, 3]),
            ("bool", torch.bool, [True, False, True]), ("half", torch.float16, [-1.0, 0.0, 3.0]),
            ("complex_double", torch.complex128, [-1 + 0j, 0j, 3 + 0j]),
        ):
            with self.subTest(name):
                converted = getattr(made, name)()
                self.assertEqual(converted.tolist(), expected)
                self.assertIs(converted.dtype, dtype)

    def test_buffers_in_either_byte_order(self):
        data = bytearray([1, 2, 3, 4])
        self.assertEqual(torch.ShortStorage.from_buffer(data, "big").tolist(), [258, 772])
        self.assertEqual(torch.IntStorage.from_buffer(data, "little").tolist(), [67305985])
        self.assertEqual(torch.BoolStorage.from_buffer(b"\0x4A", "big").tolist(), [False, True, True, True])

    def test_refused_arguments(self):
        cases = (
            (RuntimeError, "'device' cannot be specified", lambda: torch.FloatStorage(device="cpu")),
            (RuntimeError, "'dtype' cannot be specified", lambda: torch.FloatStorage(dtype=torch.float32)),
            (RuntimeError, "Too many positional arguments", lambda: torch.FloatStorage(0, 0)),
            (TypeError, "invalid data type", lambda: torch.FloatStorage("text")),
            (TypeError, "Argument type not recognized", lambda: torch.FloatStorage(torch.ones(1))),
            (RuntimeError, "Only child classes", lambda: torch.storage._LegacyStorage()),
            (RuntimeError, "'dtype' must be specified",
             lambda: torch.TypedStorage(wrap_storage=torch.UntypedStorage(4))),
            (TypeError, "must be UntypedStorage",
             lambda: torch.FloatStorage(wrap_storage=torch.FloatStorage(1))),
            (RuntimeError, "cannot set item",
             lambda: torch.FloatStorage(1).fill_(torch.FloatStorage(1))),
            (RuntimeError, "slices are only supported", lambda: torch.FloatStorage(2)[0:1]),
            (IndexError, "out of range", lambda: torch.FloatStorage(2)[2]),
            (NotImplementedError, "Not available for 'meta'",
             lambda: torch.TypedStorage(2, dtype=torch.float32, device="meta")[0]),
        )
        for kind, text, call in cases:
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()

    def test_tensors_of_storages(self):
        self.assertEqual(torch.tensor(torch.FloatStorage([1, 2])).tolist(), [1.0, 2.0])
        untyped = torch.ones(2).untyped_storage()
        self.assertEqual(torch.tensor(untyped, dtype=torch.float32).tolist(), [1.0, 1.0])
        with self.assertRaisesRegex(RuntimeError, "Expected a Storage of type Double"):
            torch.tensor(torch.FloatStorage([1, 2]), dtype=torch.float64)

    def test_copies(self):
        made = torch.FloatStorage([1, 2])
        for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            self.assertEqual(other.tolist(), [1.0, 2.0])

    def test_warning_comes_once(self):
        torch.storage._reset_warn_typed_storage_removal()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.FloatStorage()
            torch.ones(1).storage()
        self.assertEqual(len(caught), 1)
        self.assertRegex(str(caught[0].message), "^TypedStorage is deprecated")

    def test_nothing_here_uses_what_is_deprecated(self):
        torch.storage._reset_warn_typed_storage_removal()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            file = io.BytesIO()
            torch.save({"x": torch.ones(2)}, file)
            file.seek(0)
            torch.load(file)
            copy.deepcopy(torch.ones(2))
            pickle.loads(pickle.dumps(torch.ones(2)))


class Records(unittest.TestCase):
    def test_round_trip(self):
        content = {"a": b"12039", "c/d": b"94589480984058"}
        file = io.BytesIO()
        with torch.serialization._open_zipfile_writer(file) as writer:
            for name, data in content.items():
                writer.write_record(name, data, len(data))
        file.seek(0)
        self.assertTrue(torch.serialization._is_zipfile(file))
        with torch.serialization._open_zipfile_reader(file) as reader:
            for name, data in content.items():
                self.assertEqual(reader.get_record(name), data)
                self.assertEqual(reader.get_record_offset(name) % 64, 0)

    def test_without_byte_order(self):
        file = io.BytesIO()
        torch.save(torch.arange(3), file, _disable_byteorder_record=True)
        file.seek(0)
        with torch.serialization._open_zipfile_reader(file) as reader:
            self.assertFalse(reader.has_record("byteorder"))
        file.seek(0)
        self.assertEqual(torch.load(file).tolist(), [0, 1, 2])


if __name__ == "__main__":
    unittest.main()
