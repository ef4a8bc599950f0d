"""GGUF files: metadata, plain and quantised tensors, refusals."""

import os
import struct
import tempfile
import unittest
from importlib import import_module

from module_under_test import torch


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def quantised(kind=8, sizes=(64, 3), block=34):
    """A file of one tensor of blocks; its bytes count from zero."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
    head += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    head += text("w") + struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
    head += struct.pack("<IQ", kind, 0)
    head += bytes(-len(head) % 32)
    return head + bytes(i % 256 for i in range(3 * 2 * block))


@unittest.skipUnless(torch.__name__ == "corten", "PyTorch does not read the format")
class Files(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = os.path.join(holder.name, "x.gguf")
        self.gguf = import_module(f"{torch.__name__}.gguf")

    def written(self, content):
        with open(self.path, "wb") as file:
            file.write(content)
        return self.path

    def test_round_trip(self):
        metadata = {
            "general.architecture": "llama", "llama.block_count": 2, "large": 2**40, "scale": 0.5,
            "flag": True, "tokens": ["a", "ü"], "sizes": [-1, 3], "nested": [[False]],
        }
        tensors = {
            "first": torch.arange(6.0).view(2, 3), "turned": torch.arange(6.0).view(2, 3).t(),
            "half": torch.tensor([0.5, 1.5], dtype=torch.bfloat16),
            "words": torch.tensor([-1, 2**40]), "wide": torch.tensor([0.1], dtype=torch.float64),
        }
        for alignment in ({}, {"general.alignment": 64}):
            self.gguf.save(tensors, self.path, {**metadata, **alignment})
            found = self.gguf.load(self.path)
            self.assertEqual(found.metadata, {**metadata, **alignment})
            self.assertEqual(list(found.tensors), list(tensors))
            for name, tensor in tensors.items():
                self.assertEqual(found.tensors[name].dtype, tensor.dtype)
                self.assertTrue(torch.equal(found.tensors[name], tensor), name)
                self.assertEqual(found.shapes[name], tuple(tensor.shape))
            self.assertEqual(found.types["half"], "BF16")
            self.assertEqual(found.quantized, frozenset())
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["x.gguf"])

    def test_quantised_tensors(self):
        found = self.gguf.load(self.written(quantised()))
        self.assertEqual((found.types, found.shapes), ({"w": "Q8_0"}, {"w": (3, 64)}))
        self.assertEqual(found.quantized, {"w"})
        self.assertEqual((found.tensors["w"].block_format, found.tensors["w"].shape), ("Q8_0", (3, 64)))
        self.assertEqual(torch.block_bytes(found.tensors["w"]).flatten().tolist(), [i % 256 for i in range(204)])
        self.assertEqual(self.gguf.load(self.path, dequantize=True).tensors["w"].layout, torch.strided)

    def test_writing_does_not_change_the_file(self):
        self.gguf.save({"a": torch.ones(4)}, self.path)
        self.gguf.load(self.path).tensors["a"].zero_()
        self.assertEqual(self.gguf.load(self.path).tensors["a"].tolist(), [1, 1, 1, 1])

    def test_what_is_refused(self):
        good = quantised()
        for bad in (
            b"", b"GGUF", b"GGML" + good[4:], good[:4] + struct.pack("<I", 9) + good[8:],
            quantised(kind=77), quantised(sizes=(63, 3)), quantised(sizes=(2**63, 2)),
            quantised(sizes=(2**40, 2**40)), quantised(sizes=(1,) * 9),
            good[:8] + struct.pack("<QQ", 2**60, 1) + good[24:],
            good[:8] + struct.pack("<QQ", 1, 2**60) + good[24:],
            *(good[:end] for end in range(8, len(good), 7)),
        ):
            with self.assertRaises(RuntimeError):
                self.gguf.load(self.written(bad))
        with self.assertRaises(FileNotFoundError):
            self.gguf.load(self.path + ".none")
        with self.assertRaisesRegex(TypeError, "no element type"):
            self.gguf.save({"a": torch.tensor([1j])}, self.path)
        with self.assertRaisesRegex(TypeError, "metadata are numbers"):
            self.gguf.save({}, self.path, {"a": None})
        with self.assertRaisesRegex(TypeError, "no tensor"):
            self.gguf.save({"a": 1}, self.path)


if __name__ == "__main__":
    unittest.main()
