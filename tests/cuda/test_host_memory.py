"""Pinned, registered and mapped host memory, and loaders that pin."""

import collections
import ctypes
import sys
import threading
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

cuda = torch.cuda
Pair = collections.namedtuple("Pair", "first second")


class Custom:
    def __init__(self, tensor):
        self.tensor = tensor

    def pin_memory(self):
        return Custom(self.tensor.pin_memory())


class Data(torch.utils.data.Dataset):
    def __init__(self, bad=-1):
        self.bad = bad

    def __len__(self):
        return 9

    def __getitem__(self, place):
        if place == self.bad:
            raise ValueError(f"bad item {place}")
        return {"x": torch.tensor([float(place)]), "pair": Pair(place, str(place))}


class Unpinnable:
    def __init__(self, batch):
        self.threads = []

    def pin_memory(self):
        raise RuntimeError(f"not in {threading.current_thread().name}")


def as_custom(batch):
    return Custom(torch.stack([one["x"] for one in batch]))


@usable
class Host(CudaTest):
    def test_registered_memory(self):
        library = cuda.cudart()
        memory = (ctypes.c_float * 4096)(*range(4096))
        tensor = torch.frombuffer(memory, dtype=torch.float32)
        self.assertFalse(tensor.is_pinned())
        self.assertEqual(library.cudaHostRegister(tensor.data_ptr(), tensor.nbytes, 0), library.cudaError.success)
        self.assertTrue(tensor.is_pinned())
        self.assertTrue(tensor[100:].is_pinned())
        self.assertEqual(int(library.cudaHostRegister(tensor.data_ptr(), tensor.nbytes, 0)), 712)
        there = tensor.to("cuda", non_blocking=True)
        there += 1
        tensor.copy_(there, non_blocking=True)
        cuda.synchronize()
        self.assertEqual(tensor[:3].tolist(), [1, 2, 3])
        self.assertEqual(library.cudaHostUnregister(tensor.data_ptr()), library.cudaError.success)
        self.assertFalse(tensor.is_pinned())
        self.assertEqual(int(library.cudaHostUnregister(tensor.data_ptr())), 713)

    def test_mapped_memory(self):
        host, there = cuda.mapped_empty(3, 2, dtype=torch.int32)
        self.assertTrue(host.is_pinned())
        self.assertEqual((there.device.type, there.shape, there.dtype), ("cuda", (3, 2), torch.int32))
        there.fill_(4)
        cuda.synchronize()
        self.assertTrue(bool((host == 4).all()))
        host[1] = 9
        self.assertEqual(there.sum(1).tolist(), [8, 18, 8])
        self.assertEqual(there.cpu().tolist(), host.tolist())
        part = cuda.mapped(host.t()[:, 1:])
        self.assertEqual(part.tolist(), [[9, 4], [9, 4]])
        del host, part
        there += 1
        self.assertEqual(there[0].tolist(), [5, 5])
        with self.assertRaisesRegex(RuntimeError, "expected a tensor in pinned memory"):
            cuda.mapped(torch.ones(3))

    def test_nested_structures(self):
        pin = torch.utils.data._utils.pin_memory.pin_memory
        x = torch.ones(2)
        found = pin({"a": [x, (x, "text")], "b": Pair(x, 3), "c": Custom(x), "d": b"bytes"})
        self.assertTrue(found["a"][0].is_pinned() and found["a"][1][0].is_pinned() and found["b"].first.is_pinned())
        self.assertTrue(found["c"].tensor.is_pinned())
        self.assertEqual((found["a"][1][1], type(found["b"]), found["d"]), ("text", Pair, b"bytes"))
        packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
        self.assertTrue(pin(packed).data.is_pinned())


@usable
class Loaders(CudaTest):
    def test_batches(self):
        for workers in (0, 2):
            loader = torch.utils.data.DataLoader(
                Data(), batch_size=2, num_workers=workers, pin_memory=True, persistent_workers=workers > 0)
            for _ in range(2):
                found = []
                for batch in loader:
                    self.assertTrue(batch["x"].is_pinned() and batch["pair"].first.is_pinned())
                    found += batch["x"].to("cuda", non_blocking=True).flatten().tolist()
                self.assertEqual(found, list(range(9)))
            iterator = iter(loader)
            next(iterator)
            del iterator

    def test_custom_batches(self):
        loader = torch.utils.data.DataLoader(Data(), 3, num_workers=1, pin_memory=True, collate_fn=as_custom)
        self.assertTrue(all(batch.tensor.is_pinned() for batch in loader))

    def test_errors(self):
        loader = torch.utils.data.DataLoader(Data(bad=2), 2, num_workers=1, pin_memory=True)
        iterator = iter(loader)
        self.assertEqual(len(iterator), 5)
        self.assertEqual(next(iterator)["x"].flatten().tolist(), [0, 1])
        with self.assertRaisesRegex(ValueError, "bad item 2"):
            next(iterator)
        self.assertEqual(next(iterator)["x"].flatten().tolist(), [4, 5])
        loader = torch.utils.data.DataLoader(Data(), 2, num_workers=1, pin_memory=True, collate_fn=Unpinnable)
        with self.assertRaisesRegex(RuntimeError, "in pin memory thread for device 0.*(?s:.)*not in pt_data_pin"):
            next(iter(loader))

    def test_device_that_is_named(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            next(iter(torch.utils.data.DataLoader(Data(), pin_memory=True, pin_memory_device="cuda")))
        self.assertTrue(any("pin_memory_device is deprecated" in str(one.message) for one in seen))


if __name__ == "__main__":
    unittest.main()
