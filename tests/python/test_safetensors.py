"""Safetensors files: parts of tensors, metadata, refusals."""

import json
import os
import tempfile
import unittest
from importlib import import_module

from module_under_test import torch

if torch.__name__ == "torch":
    safetensors = import_module("safetensors.torch")
    safe_open = import_module("safetensors").safe_open
else:
    safetensors = import_module(f"{torch.__name__}.safetensors")
    safe_open = safetensors.safe_open


class Parts(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = os.path.join(holder.name, "x.safetensors")
        self.whole = torch.arange(24.0).view(4, 6)
        tensors = {"a": self.whole, "b": torch.tensor([True, False]), "ü": torch.ones(3).double()}
        safetensors.save_file(tensors, self.path, {"format": "pt", "k": 'quoted "v" \n'})

    def test_slices(self):
        with safe_open(self.path, framework="pt") as file:
            part = file.get_slice("a")
            self.assertEqual((part.get_shape(), part.get_dtype()), ([4, 6], "F32"))
            for index in (
                slice(1, 3), (slice(None), slice(2, 5)), (slice(1), slice(5, None)), 2, (0, 1), ...,
                (slice(None), -1),
            ):
                found = part[index]
                self.assertTrue(torch.equal(found, self.whole[index]), index)
                self.assertTrue(found.is_contiguous() or torch.__name__ == "torch")

    def test_what_a_file_says(self):
        with safe_open(self.path, framework="pt") as file:
            self.assertEqual(sorted(file.keys()), ["a", "b", "ü"])
            self.assertEqual(file.metadata(), {"format": "pt", "k": 'quoted "v" \n'})
            with self.assertRaisesRegex(Exception, "does not contain tensor none"):
                file.get_tensor("none")
            self.assertEqual(file.get_tensor("b").tolist(), [True, False])
            self.assertEqual(list(file.offset_keys()), ["ü", "a", "b"])
        with open(self.path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            self.assertEqual(size % 8, 0)
            header = json.loads(file.read(size))
        self.assertEqual(header["a"], {"dtype": "F32", "shape": [4, 6], "data_offsets": [24, 120]})

    def test_tensors_are_their_own(self):
        found = safetensors.load_file(self.path)
        found["a"].zero_()
        self.assertTrue(torch.equal(safetensors.load_file(self.path)["a"], self.whole))
        self.assertEqual(found["a"].untyped_storage().nbytes(), 96)
        self.assertNotEqual(
            found["a"].untyped_storage().data_ptr(), found["ü"].untyped_storage().data_ptr()
        )
        safetensors.save_file(found, self.path)
        self.assertEqual(safetensors.load_file(self.path)["a"].sum().item(), 0)

    def test_elements_in_order(self):
        turned = torch.arange(6.0).view(2, 3).t()
        if torch.__name__ == "corten":  # the package of PyTorch wants contiguous tensors
            self.assertTrue(torch.equal(safetensors.load(safetensors.save({"a": turned}))["a"], turned))
        self.assertEqual(safetensors.load(safetensors.save({})), {})
        empty = safetensors.load(safetensors.save({"a": torch.empty(0, 3), "b": torch.tensor(2)}))
        self.assertEqual((empty["a"].shape, empty["b"].item()), ((0, 3), 2))

    def test_views_of_bytes(self):
        data = safetensors.save({"a": self.whole})
        for view in (data, bytearray(data), memoryview(data)):
            if torch.__name__ == "torch" and not isinstance(view, bytes):
                continue
            self.assertTrue(torch.equal(safetensors.load(view)["a"], self.whole))

    def test_errors(self):
        good = safetensors.save({"a": torch.ones(2)})
        for bad, message in (
            (b"", "header too small"), (b"\xff" * 30, "header too large"),
            (good[:20], "invalid header length"), (good + b"x", "incomplete metadata"),
            ((8).to_bytes(8, "little") + b"\xff" * 8, "invalid UTF-8 in header"),
            ((8).to_bytes(8, "little") + b"nonsense", "invalid JSON in header"),
        ):
            with self.assertRaisesRegex(Exception, f"Error while deserializing( header)?: .*{message}"):
                safetensors.load(bad)


if __name__ == "__main__":
    unittest.main()
