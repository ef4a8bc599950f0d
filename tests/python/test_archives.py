"""Saved objects read from files of all sorts, and pickles of all that weights are saved with."""

import collections
import io
import mmap
import os
import pickle
import struct
import tempfile
import threading
import unittest

from module_under_test import torch

LEGACY = {"_use_new_zipfile_serialization": False}


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


class Slow:
    """A file that gives little at a time, has no `readinto` and says nothing when it is moved."""

    def __init__(self, data):
        self.file = io.BytesIO(data)

    def read(self, count=-1):
        return self.file.read(min(count, 100) if count > 0 else count)

    def readline(self):
        return self.file.readline()

    def tell(self):
        return self.file.tell()

    def seek(self, *place):
        self.file.seek(*place)
        return self.file.tell() if torch.__name__ == "torch" else None


class Failing(io.BytesIO):
    """A file that cannot be read from some point on."""

    reads = 0

    def read(self, *count):
        self.reads += 1
        if self.reads > self.limit:
            raise ConnectionError(f"gone after {self.limit}")
        return super().read(*count)


class Files(unittest.TestCase):
    value = {"a": torch.arange(300.0), "b": [torch.ones(2), "text"]}

    def check(self, found):
        self.assertTrue(torch.equal(found["a"], self.value["a"]))
        self.assertEqual((found["b"][0].tolist(), found["b"][1]), ([1, 1], "text"))

    def test_files_of_python(self):
        data = saved(self.value).getvalue()
        if torch.__name__ == "corten":  # PyTorch wants files that give what they are asked for
            self.check(torch.load(Slow(data)))
        self.check(torch.load(Slow(saved(self.value, **LEGACY).getvalue())))
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            self.check(torch.load(file))

    @unittest.skipUnless(torch.__name__ == "corten", "PyTorch hides it")
    def test_exceptions_of_files_stay_what_they_are(self):
        data = saved(self.value).getvalue()
        whole = Failing(data)
        whole.limit = 10**6
        torch.load(whole)
        for limit in range(1, whole.reads):
            file = Failing(data)
            file.limit = limit
            with self.assertRaisesRegex(ConnectionError, f"gone after {limit}"):
                torch.load(file)

    def test_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pt")
            torch.save(self.value, path)
            found = []
            threads = [threading.Thread(target=lambda: found.append(torch.load(path))) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(len(found), 8)
        for one in found:
            self.check(one)

    @unittest.skipUnless(torch.__name__ == "corten", "checksums of a file that changed are compared")
    def test_shared_maps(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pt")
            torch.save(self.value, path)
            torch.load(path, mmap=True)["a"].zero_()
            self.check(torch.load(path))
            with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
                torch.load(path, mmap=True)["a"][3] = -1
            self.assertEqual(torch.load(path)["a"][:5].tolist(), [0, 1, 2, -1, 4])

    def test_records(self):
        from importlib import import_module

        if torch.__name__ != "corten":
            self.skipTest("PyTorch's reader is native")
        records = import_module("corten._records")
        data = saved(self.value)
        reader = records.RecordReader(data)
        names = reader.get_all_records()
        self.assertEqual(names[0], "data.pkl")
        self.assertTrue(reader.has_record("data/0") and not reader.has_record("data/9"))
        place = reader.get_record_offset("data/0")
        self.assertEqual(reader.get_record("data/0"), data.getvalue()[place:place + 1200])
        with self.assertRaisesRegex(RuntimeError, "failed locating file none: file not found"):
            reader.get_record("none")


class Own:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value


class Restored(Own):
    def __getstate__(self):
        return (self.value,)

    def __setstate__(self, state):
        self.value = state[0]


class Pickles(unittest.TestCase):
    def found(self, value, **options):
        return torch.load(saved(value, **options))

    def test_values(self):
        values = [
            None, True, False, 0, -1, 255, 256, 65536, -2**31, 2**31, -2**63, 2**63, 2**70, -2**70, 0.1,
            float("inf"), 1 + 2j, "", "ä\U0001f600", "\udc80", b"\x00\xff", (), (1,), (1, 2), (1, 2, 3),
            (1, 2, 3, 4), [], [1], list(range(3000)), {}, {"a": 1, 2: (3,), (4, (5,)): 6}, set(), {1, "a"},
            torch.Size([2, 3]), torch.device("cpu"), torch.device("meta", 1), torch.float16, torch.strided,
            bytearray(b"abc"), collections.OrderedDict(b=1, a=2), collections.Counter("aab"),
        ]
        for options in ({}, LEGACY):
            found = self.found(values, **options)
            for value, one in zip(values, found):
                self.assertEqual(one, value)
                self.assertIs(type(one), type(value))

    def test_order_and_attributes(self):
        value = collections.OrderedDict((str(i), i) for i in range(50))
        value.move_to_end("3")
        value._metadata = {"version": 2}
        found = self.found(value)
        self.assertEqual((list(found), found._metadata), (list(value), {"version": 2}))
        found.move_to_end("5")
        self.assertEqual(list(found)[-1], "5")

    def test_one_object_stays_one(self):
        inner, tensor = [1], torch.ones(3)
        value = {"a": inner, "b": inner, "c": tensor, "d": (tensor, tensor)}
        value["itself"] = value
        found = self.found(value)
        self.assertIs(found["a"], found["b"])
        self.assertIs(found["c"], found["d"][1])
        self.assertIs(found["itself"], found)

    def test_own_classes(self):
        value = [Own(3), Restored([torch.ones(1)])]
        with self.assertRaisesRegex(pickle.UnpicklingError, "Unsupported global: GLOBAL .*Own"):
            self.found(value)
        with torch.serialization.safe_globals([Own, Restored]):
            found = self.found(value)
        self.assertEqual(found[0], value[0])
        self.assertEqual(found[1].value[0].item(), 1)

    def test_tensors(self):
        leaf = torch.ones(2, requires_grad=True)
        values = [
            leaf, torch.arange(12.0).view(3, 4).t()[1:, ::2], torch.tensor(3), torch.empty(0, 2),
            torch.tensor([1 + 2j]).conj(), torch.nn.Parameter(torch.ones(2), requires_grad=False),
            torch.tensor([1, 2], dtype=torch.uint16), torch.ones(3).expand(2, 3),
            torch.empty(2, 3, device="meta"), torch.eye(3).to_sparse(),
        ]
        for options in ({}, LEGACY):
            if options:  # the older format lacks newer dtypes
                values = [value for value in values if value.dtype != torch.uint16]
            found = self.found(values, **options)
            for value, one in zip(values, found):
                self.assertIs(type(one), type(value))
                self.assertEqual((one.dtype, one.shape, one.layout), (value.dtype, value.shape, value.layout))
                self.assertEqual((one.requires_grad, one.is_leaf), (value.requires_grad, True))
                if value.layout == torch.strided:
                    self.assertEqual(one.stride(), value.stride())
                    self.assertEqual(one.is_conj(), value.is_conj())
                if value.device.type == "cpu":
                    self.assertEqual(one.tolist() if one.layout == torch.strided else one.to_dense().tolist(),
                                     value.tolist() if value.layout == torch.strided else value.to_dense().tolist())

    def test_tensors_with_attributes(self):
        tensor = torch.ones(2)
        tensor.label = "weights"
        found = self.found([tensor])[0]
        self.assertEqual((found.label, found.tolist()), ("weights", [1, 1]))

    def test_where_storages_go(self):
        seen = []

        def place(storage, location):
            seen.append(location)
            return storage

        for options in ({}, LEGACY):
            seen.clear()
            found = torch.load(saved([torch.ones(2), torch.zeros(3)], **options), map_location=place)
            self.assertEqual((seen, found[0].tolist()), (["cpu", "cpu"], [1, 1]))

            def refuse(storage, location):
                raise KeyError("no such place")

            with self.assertRaisesRegex(KeyError, "no such place"):
                torch.load(saved([torch.ones(2)], **options), map_location=refuse)
            found = torch.load(saved([torch.ones(2)], **options), map_location="meta")
            self.assertEqual(found[0].device.type, "meta")


def stream(body):
    """A stream of the older format around the pickle of an object without tensors."""
    parts = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}]
    heads = [pickle.dumps(part, 2) for part in parts]
    return io.BytesIO(b"".join([*heads, b"\x80\x02" + body + b".", pickle.dumps([], 2)]))


@unittest.skipUnless(torch.__name__ == "corten", "PyTorch raises other classes")
class Opcodes(unittest.TestCase):
    def test_texts_of_python_2(self):
        for body in (b"U\x04caf\xe9", b"T" + struct.pack("<i", 4) + b"caf\xe9"):
            with self.assertRaises(pickle.UnpicklingError):
                torch.load(stream(body))
        self.assertEqual(torch.load(stream(b"U\x03abc")), "abc")

    def test_refusals(self):
        for body, message in (
            (b"K\x01\x93", "Unsupported operand 147"), (b"\xff", "Unsupported operand 255"),
            (b"h\x05", "Memo value not found at index 5"),
            (b"}]K\x01s", "TypeError: unhashable type: 'list'"), (b"]K\x01K\x02s", "Can only SETITEM for dict"),
            (b"}K\x01a", "Can only append to lists, but got <class 'dict'>"), (b"K\x01t", "the pickle has no mark"),
            (b"\x80\x09N", "Unsupported protocol 9"), (b"X\x02\x00\x00\x00\xff\xfe", "UnicodeDecodeError"),
            (b"T\xff\xff\xff\xffabc", "negative length"), (b"N\x86", "the stack of the pickle is empty"),
        ):
            with self.assertRaisesRegex(pickle.UnpicklingError, message):
                torch.load(stream(body))
        with self.assertRaisesRegex(EOFError, "Ran out of input: pickle data was truncated"):
            torch.load(io.BytesIO(b"\x80\x02X\xff\xff\xff\xffabc"))


if __name__ == "__main__":
    unittest.main()
