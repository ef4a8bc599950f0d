"""Memory that other libraries describe is checked before a tensor is made of it: random descriptions,
none of which lets a tensor see what lies outside."""

import array
import copy
import ctypes
import importlib
import itertools
import math
import mmap
import os
import random
import tempfile
import unittest
import warnings

from dlpack_capsules import Guarded, Legacy, Maker, Versioned
from module_under_test import torch

try:
    import numpy as np
except ImportError:
    np = None

CORTEN = torch.__name__ == "corten"
BORDERS = (
    -2**63, -2**63 + 1, 2**63 - 1, 2**63 - 2, 2**62, -2**62, 2**61 + 1, 2**60, 2**32, 2**31, -2**31,
)
REFUSED = (RuntimeError, ValueError, BufferError, TypeError, OverflowError, IndexError)


def number(rng):
    """Mostly a small number, sometimes one at a border."""
    kind = rng.randrange(16)
    if kind == 0:
        return rng.choice(BORDERS)
    if kind == 1:
        return 1 << rng.randrange(63)
    return -rng.randrange(9) if kind == 2 else rng.randrange(9)


def bounds(sizes, strides, itemsize, offset=0):
    """First and last byte of a geometry, in exact numbers; strides count bytes."""
    if 0 in sizes:
        return offset, offset
    reach = [(n - 1) * step for n, step in zip(sizes, strides)]
    low = offset + sum(r for r in reach if r < 0)
    return low, offset + sum(r for r in reach if r > 0) + itemsize


def dense(sizes, itemsize):
    """Strides in bytes of a tensor without gaps."""
    return [itemsize * math.prod(sizes[d + 1:]) for d in range(len(sizes))]


def fitting(rng, room, itemsize):
    """Sizes, strides in elements, and an offset in bytes that stay within ``room`` bytes."""
    rank = rng.randrange(4)
    sizes = [rng.randrange(5) for _ in range(rank)]
    strides = [rng.randrange(-6, 30) for _ in range(rank)]
    low, high = bounds(sizes, [step * itemsize for step in strides], itemsize)
    return sizes, strides, rng.randrange(-low, room - high + 1)


def extent(tensor):
    """Where a tensor's storage begins and ends."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


class Fuzz(unittest.TestCase):
    def setUp(self):
        self.rebuild = importlib.import_module(f"{torch.__name__}._utils")._rebuild_tensor
        self.rng = random.Random(56)
        self.memory = Guarded()
        self.before = self.memory.bytes()

    def tearDown(self):
        self.assertEqual(self.memory.bytes(), self.before)

    def check_view(self, made, start, sizes, strides, itemsize):
        """That a tensor over the guarded memory has the elements it should, and reaches no further.
        The first byte lies at ``start``; strides count bytes."""
        low, high = extent(made)
        self.assertLessEqual(low, high)
        if 0 not in sizes:
            exact = bounds(sizes, strides, itemsize, start)
            self.assertEqual((low, high), exact)
            places = itertools.product(*(range(n) for n in sizes))
            if math.prod(sizes) <= 16:
                offset = start - self.memory.start
                expected = [
                    self.before[at:at + itemsize]
                    for at in (offset + sum(map(int.__mul__, place, strides)) for place in places)
                ]
                found = made.clone(memory_format=torch.contiguous_format)
                found = found.reshape(-1).view(torch.uint8)
                self.assertEqual(bytes(found.tolist()), b"".join(expected))
        room = (high - low) // itemsize
        for size, stride, offset in (((room + 1,), (1,), 0), ((1,), (1,), room),
                                     ((2,), (-1,), 0), ((2,), (room or 1,), 0)):
            with self.assertRaises(RuntimeError):
                made.as_strided(size, stride, offset)
        if self.rng.randrange(8) == 0:
            copied = copy.deepcopy(made)
            self.assertEqual((copied.shape, copied.stride()), (made.shape, made.stride()))
            self.assertEqual(copied.untyped_storage().nbytes(), high - low)

    @unittest.skipUnless(CORTEN, "PyTorch wraps offsets around")
    def test_capsules_within_their_memory(self):
        make, rng = Maker(), self.rng
        dtypes = {(0, 8, 1): 1, (0, 16, 1): 2, (0, 32, 1): 4, (0, 64, 1): 8, (1, 8, 1): 1}
        for _ in range(2000):
            dtype = rng.choice(list(dtypes))
            itemsize = dtypes[dtype]
            sizes, strides, offset = fitting(rng, self.memory.size, itemsize)
            shift = rng.randrange(offset + 1)
            capsule = make(
                self.memory.start + offset - shift, sizes, strides, dtype=dtype, byte_offset=shift,
                kind=rng.choice((Legacy, Versioned)), flags=rng.randrange(4),
            )
            negative = any(n > 1 and step < 0 for n, step in zip(sizes, strides)) and 0 not in sizes
            if negative:
                with self.assertRaisesRegex(RuntimeError, "calculation overflowed.*negative strid"):
                    torch.from_dlpack(capsule)
                self.assertTrue(make.forget(capsule))
                continue
            made = torch.from_dlpack(capsule)
            self.assertFalse(make.forget(capsule))
            in_bytes = [step * itemsize for step in strides]
            self.check_view(made, self.memory.start + offset, sizes, in_bytes, itemsize)
            deleted = make.deleted
            del made
            self.assertEqual(make.deleted, deleted + 1)
        self.assertEqual(len(make.kept), 0)

    @unittest.skipUnless(CORTEN, "PyTorch reads outside")
    def test_capsules_of_anything(self):
        make, rng, accepted = Maker(), self.rng, 0
        for _ in range(8000):
            rank = rng.randrange(5)
            sizes = [number(rng) for _ in range(rank)]
            strides = rng.choice((None, [number(rng) for _ in range(rank)]))
            base = rng.choice((0, 1, self.memory.start, 2**64 - 8, 2**63 - 4096))
            byte_offset = rng.choice((0, 0, 8, 3, 2**63, 2**64 - 8, abs(number(rng))))
            dtype = (2, 32, 1) if rng.randrange(8) else tuple(rng.randrange(130) for _ in range(3))
            ndim = rank if rng.randrange(16) else rng.choice((-1, -2**31, 2**31 - 1, 129))
            device = (1, 0) if rng.randrange(16) else (rng.randrange(-3, 20), rng.randrange(3))
            kind = rng.choice((Legacy, Versioned))
            capsule = make(
                base, sizes if rng.randrange(32) or ndim <= 0 else None, strides, kind=kind,
                ndim=ndim, device=device, dtype=dtype, byte_offset=byte_offset,
                version=rng.choice(((1, 0), (1, 3), (0, 8), (2, 0))), flags=rng.getrandbits(64),
            )
            try:
                made = torch.from_dlpack(capsule)
            except REFUSED as error:
                self.assertNotIn("INTERNAL", str(error))
                self.assertTrue(make.forget(capsule))
                continue
            accepted += 1
            self.assertEqual((ndim, device[0]), (rank, 1))
            self.assertGreaterEqual(min(sizes, default=0), 0)
            itemsize = made.element_size()
            steps = dense(sizes, itemsize) if strides is None else [s * itemsize for s in strides]
            if 0 not in sizes:
                start = base + byte_offset
                self.assertEqual(extent(made), bounds(sizes, steps, itemsize, start))
                self.assertTrue(0 < base <= start and extent(made)[1] < 2**63)
            else:
                self.assertEqual(made.untyped_storage().nbytes(), 0)
            self.assertEqual(made.shape, tuple(sizes))
            for name in ("numel", "nbytes", "is_contiguous", "__repr__"):
                if name != "__repr__" or made.numel() == 0:
                    value = getattr(made, name)
                    value() if callable(value) else value
        self.assertGreater(accepted, 500)

    @unittest.skipUnless(np, "numpy is not installed")
    def test_array_interfaces(self):
        rng, kinds = self.rng, ("<f8", "<i4", "|i1", "<f2", ">f4", "|b1", "<c8", "<u2", "|V8", "<U1")
        for _ in range(3000):
            kind = rng.choice(kinds)
            itemsize = np.dtype(kind).itemsize
            sizes, strides, offset = fitting(rng, self.memory.size, itemsize)
            strides = [step * itemsize + (rng.randrange(12) == 0) for step in strides]
            low, high = bounds(sizes, strides, itemsize, offset)
            if low < 0 or high > self.memory.size:
                continue
            start = self.memory.start + offset

            class Interface:
                __array_interface__ = {
                    "version": 3, "shape": tuple(sizes), "strides": tuple(strides),
                    "typestr": kind, "data": (start, rng.random() < 0.2),
                }

            seen = np.asarray(Interface())
            if min(seen.shape, default=1) == 0:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    made = torch.from_numpy(seen)
            except (TypeError, ValueError) as error:
                odd = any(step % itemsize or step < 0 for step in seen.strides)
                self.assertTrue(odd or kind in (">f4", "|V8", "<U1"), (error, seen.strides, kind))
                continue
            self.assertNotIn(kind, (">f4", "|V8", "<U1"))
            self.assertEqual(made.shape, seen.shape)
            if kind != "|b1":
                self.check_view(made, start, sizes, seen.strides, itemsize)

    @unittest.skipUnless(np, "numpy is not installed")
    def test_strides_of_arrays_that_lie(self):
        base, rng = np.zeros(8), self.rng
        for _ in range(3000):
            rank = rng.randrange(4)
            sizes = [abs(number(rng)) % 2**40 for _ in range(rank)]
            strides = [number(rng) for _ in range(rank)]
            try:
                seen = np.lib.stride_tricks.as_strided(base, sizes, strides)
                made = torch.from_numpy(seen)
            except REFUSED:
                continue
            if made.numel():
                exact = bounds(sizes, seen.strides, 8, base.ctypes.data)
                self.assertEqual(extent(made), exact)
            self.assertTrue(min(made.stride(), default=0) >= 0)

    @unittest.skipUnless(CORTEN, "PyTorch wraps counts around")
    def test_buffers(self):
        rng = self.rng
        data = bytearray(range(64))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3000):
                start, end = sorted(rng.randrange(65) for _ in range(2))
                view = memoryview(rng.choice((data, bytes(data))))[start:end]
                dtype = rng.choice((torch.uint8, torch.int16, torch.float32, torch.complex128))
                count, offset = rng.choice((-1, number(rng))), number(rng)
                length, size = end - start, dtype.itemsize
                wanted = (length - offset) // size if count < 0 else count
                sound = length and count and 0 <= offset < length and (
                    (length - offset) % size == 0 if count < 0
                    else offset + count * size <= length
                )
                try:
                    made = torch.frombuffer(view, dtype=dtype, count=count, offset=offset)
                except ValueError:
                    self.assertFalse(sound, (length, size, count, offset))
                    continue
                self.assertTrue(sound, (length, size, count, offset))
                self.assertEqual((made.shape, made.untyped_storage().nbytes()),
                                 ((wanted,), wanted * size))
                first = start + offset
                self.assertEqual(bytes(made.view(torch.uint8).tolist()),
                                 bytes(data[first:first + wanted * size]))

    def test_geometries_over_storages(self):
        rng, refused = self.rng, 0
        for _ in range(3000):
            base = torch.arange(16, dtype=torch.int32)
            storage = base.untyped_storage()
            rank = rng.randrange(4)
            size = tuple(number(rng) for _ in range(rank))
            stride = tuple(number(rng) for _ in range(rank + (rng.randrange(20) == 0)))
            offset = number(rng)
            kind = rng.randrange(4)
            try:
                if kind == 0:
                    made = base.as_strided(size, stride, offset)
                elif kind == 1:
                    if np is not None:  # its memory cannot grow
                        storage = torch.from_numpy(np.zeros(16, "i4")).untyped_storage()
                    made = torch.empty(0, dtype=torch.int32).set_(storage, offset, size, stride)
                elif kind == 2:
                    made = torch.empty(0, dtype=torch.int32).set_(base, offset, size, stride)
                else:
                    typed = base._typed_storage()
                    made = self.rebuild(typed, offset, size, stride)
            except REFUSED as error:
                self.assertNotIn("INTERNAL", str(error))
                refused += 1
                continue
            if 0 not in size:
                low, high = bounds(size, [4 * step for step in stride], 4, 4 * offset)
                self.assertTrue(0 <= low <= high <= made.untyped_storage().nbytes())
                if made.numel() < 100:
                    made.clone()
            if CORTEN:
                self.assertGreaterEqual(min(size, default=0), 0)
        self.assertGreater(refused, 1000)


@unittest.skipUnless(np, "numpy is not installed")
class Cases(unittest.TestCase):
    @unittest.skipUnless(CORTEN, "an error without words of strides")
    def test_reversed_arrays(self):
        for seen in (np.arange(12.0)[4:8][::-1], np.arange(12.0).reshape(3, 4)[:, ::-1],
                     np.arange(24.0).reshape(2, 3, 4)[::-1, 1:, ::-2]):
            with self.assertRaisesRegex(RuntimeError, "tensors with negative strides are not"):
                torch.from_dlpack(seen)
            with self.assertRaisesRegex(ValueError, "stride in the given numpy array is negative"):
                torch.from_numpy(seen)
        one = torch.from_dlpack(np.arange(12.0)[4:5][::-1])
        self.assertEqual((one.tolist(), one.stride()), ([4.0], (1,)))

    def test_strides_that_nothing_multiplies(self):
        a = np.arange(8.0)
        one = np.lib.stride_tricks.as_strided(a, (1, 3), (2**62, 8))
        for made in (torch.from_numpy(one), torch.from_dlpack(one)):
            self.assertEqual(made.tolist(), [[0, 1, 2]])
            self.assertEqual((made + 1).reshape(3).tolist(), [1, 2, 3])
            self.assertEqual(made.view(3).tolist(), [0, 1, 2])
            self.assertEqual(made.t().contiguous().tolist(), [[0], [1], [2]])
        none = np.lib.stride_tricks.as_strided(a, (0, 3), (2**62, -8))
        self.assertEqual(torch.from_dlpack(none).sum().item(), 0)

    def test_fields_of_records(self):
        records = np.zeros(4, dtype=[("a", "i1"), ("b", "f4"), ("c", "f4", (3,))])
        records["a"] = range(4)
        made = torch.from_numpy(records["a"])
        self.assertEqual((made.tolist(), made.stride()), ([0, 1, 2, 3], (17,)))
        self.assertEqual(made.untyped_storage().nbytes(), 52)
        for name in "bc":
            with self.assertRaisesRegex(ValueError, "not a multiple of the element byte size"):
                torch.from_numpy(records[name])
        with self.assertRaisesRegex(TypeError, "numpy.void"):
            torch.from_numpy(records)

    def test_byte_orders(self):
        with self.assertRaisesRegex(ValueError, "byte order different from the native"):
            torch.from_numpy(np.arange(3, dtype=">i2"))
        self.assertEqual(torch.from_numpy(np.arange(3, dtype=">i1")).tolist(), [0, 1, 2])
        with self.assertRaisesRegex(ValueError, "non-native byte order .format '>i'"):
            torch.asarray(memoryview(np.arange(3, dtype=">i4")))

    def test_elements_between_places(self):
        data = bytearray(41)
        a = np.frombuffer(data, dtype="f8", offset=1)
        a[:] = range(5)
        for made in (torch.from_numpy(a), torch.from_dlpack(a)):
            self.assertEqual((made.data_ptr() % 8, made.sum().item()), (a.ctypes.data % 8, 10))
            self.assertTrue(torch.equal(made, made.clone()))
            self.assertEqual(made[1:4].exp().tolist(), made[1:4].clone().exp().tolist())
        index = np.frombuffer(bytearray(17), dtype="i8", offset=1)
        index[:] = 2, 0
        added = torch.zeros(3).index_add(0, torch.from_numpy(index), torch.tensor([1.0, 2.0]))
        self.assertEqual(added.tolist(), [2, 0, 1])

    def test_formats_of_buffers(self):
        """The format says the dtype, unless one is given, which takes the bytes as they are."""
        for code, dtype in (("b", "int8"), ("B", "uint8"), ("h", "int16"), ("H", "uint16"),
                            ("i", "int32"), ("I", "uint32"), ("l", "int64"), ("q", "int64"),
                            ("Q", "uint64"), ("f", "float32"), ("d", "float64")):
            made = torch.asarray(array.array(code, [1, 2, 3]))
            self.assertEqual((str(made.dtype), made.tolist()), ("torch." + dtype, [1, 2, 3]))
        for dtype in ("f2", "c8", "c16", "?"):
            seen = np.ones((2, 3), dtype=dtype)
            self.assertEqual(torch.asarray(memoryview(seen)).tolist(), [1] * 6)
        self.assertEqual(torch.asarray((ctypes.c_long * 2)(3, -4)).tolist(), [3, -4])
        self.assertEqual(torch.asarray(b"ab").tolist(), [97, 98])
        given = torch.asarray(array.array("d", [1.0]), dtype=torch.int16)
        self.assertEqual(given.tolist(), [0, 0, 0, 0x3FF0])
        for seen in (np.zeros(2, "i4,i4"), np.zeros(2, "S3"), np.zeros(2, "g")):
            with self.assertRaisesRegex(ValueError, "could not infer a dtype from buffer format"):
                torch.asarray(memoryview(seen))
        for view in (memoryview(bytes(9))[::2], memoryview(bytes(9))[::-1],
                     memoryview(np.zeros((3, 4), order="F"))):
            for make in (torch.asarray, lambda v: torch.frombuffer(v, dtype=torch.uint8)):
                with self.assertRaisesRegex(RuntimeError, "could not retrieve a contiguous buffer"):
                    make(view)
        with self.assertRaisesRegex(ValueError, "must be a multiple of element size"):
            torch.asarray(bytes(3), dtype=torch.float32)

    def test_devices_and_copies(self):
        a = np.arange(3.0)
        self.assertEqual(torch.from_dlpack(a, device="cpu").data_ptr(), a.ctypes.data)
        self.assertNotEqual(torch.from_dlpack(a, copy=True).data_ptr(), a.ctypes.data)
        with self.assertRaises(BufferError):
            torch.from_dlpack(a, device="meta")
        with self.assertRaisesRegex(AssertionError, "device and copy kwargs not supported"):
            torch.from_dlpack(a.__dlpack__(), copy=True)
        for wrong in (3, "text", object()):
            with self.assertRaisesRegex(RuntimeError, "received an invalid capsule"):
                torch.from_dlpack(wrong)
        if CORTEN and not torch.cuda.is_available():
            with self.assertRaises(RuntimeError):
                torch.from_dlpack(a, device="cuda")

            class OnGpu:
                __cuda_array_interface__ = {
                    "version": 3, "shape": (3,), "typestr": "<f8", "data": (a.ctypes.data, False),
                }

            for make in (torch.tensor, torch.as_tensor, torch.asarray):
                with self.assertRaisesRegex(RuntimeError, "(?i)cuda|nvidia"):
                    make(OnGpu())

    @unittest.skipUnless(CORTEN, "PyTorch exports the memory without the sign")
    def test_signs_that_are_not_in_memory(self):
        with self.assertRaisesRegex(BufferError, "negative bit"):
            torch._neg_view(torch.ones(3)).__dlpack__()


class ReadOnly(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "data")
        with open(self.path, "wb") as file:
            file.write(bytes(range(64)) * 128)

    def tearDown(self):
        self.folder.cleanup()

    def sources(self):
        """Tensors over a file that is mapped for reading."""
        with open(self.path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        yield torch.frombuffer(mapped, dtype=torch.uint8)
        yield torch.asarray(mapped, dtype=torch.uint8)
        if np is not None:
            seen = np.memmap(self.path, mode="r", dtype="u1")
            yield torch.from_numpy(seen)
            yield torch.from_numpy(seen[64:])
            yield torch.from_dlpack(seen)

    @unittest.skipUnless(CORTEN, "PyTorch ends the process")
    def test_protected_memory(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for made in self.sources():
                self.assertEqual(made[:4].tolist(), [0, 1, 2, 3])
                writes = (
                    made.zero_, lambda: made.fill_(1), lambda: made[1:].mul_(2),
                    lambda: made.__setitem__(0, 1), lambda: torch.add(made, 1, out=made),
                    lambda: made.untyped_storage().fill_(0), lambda: made.copy_(made.clone()),
                    lambda: made.untyped_storage().__setitem__(0, 1), made.random_,
                    lambda: made.index_fill_(0, torch.tensor([0]), 5), made.sort,
                )
                for write in writes[:-1]:
                    with self.assertRaisesRegex(RuntimeError, "the memory of this tensor is read-onl"):
                        write()
                writes[-1]()
                self.assertEqual(made.clone().zero_().sum().item(), 0)
                self.assertEqual(made[:3].tolist(), [0, 1, 2])
                if np is not None:
                    self.assertFalse(made.numpy().flags.writeable)
                    self.assertFalse(np.from_dlpack(made).flags.writeable)
                    with self.assertRaises(BufferError):
                        made.__dlpack__()

    @unittest.skipUnless(np, "numpy is not installed")
    def test_flags_of_libraries(self):
        """Memory that is only called read-only is warned of once, and written."""
        seen = np.arange(3.0)
        seen.flags.writeable = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = torch.from_numpy(seen)
        made[0] = 5
        self.assertEqual(seen[0], 5)
        self.assertEqual(torch.from_dlpack(seen).tolist(), [5, 1, 2])


if __name__ == "__main__":
    unittest.main()
