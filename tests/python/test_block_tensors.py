"""Block-quantised tensors: what they are, products, views, files."""

import copy
import io
import os
import pathlib
import pickle
import tempfile
import unittest

import numpy as np
from module_under_test import torch

F = torch.nn.functional
GOLDENS = pathlib.Path(__file__).parents[1] / "goldens"
FORMATS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4")


@unittest.skipUnless(torch.__name__ == "corten", "PyTorch has no block formats")
class BlockTensors(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.dense = torch.randn(6, 256)
        self.blocks = torch.quantize_blocks(self.dense, "q8_0")
        self.values = self.blocks.to_dense()

    def assert_blocks(self, made, format, values):
        self.assertEqual(made.block_format, format)
        self.assertTrue(torch.equal(made.to_dense(), values))

    def assert_near(self, product, expected):
        """A product by blocks: activations have 8 bits in it."""
        self.assertIsNone(product.block_format)
        self.assertEqual(product.shape, expected.shape)
        self.assertLess((product - expected).abs().max().item(), 0.03 * expected.abs().max().item() + 1e-6)

    def test_what_it_is(self):
        for format in FORMATS:
            for name in (format, format.lower()):
                made = torch.quantize_blocks(self.dense, name)
                self.assertEqual((made.block_format, made.shape, made.dtype), (format, (6, 256), torch.float32))
            error = (made.to_dense() - self.dense).norm() / self.dense.norm()
            self.assertLess(error.item(), 0.35 if format == "Q2_K" else 0.25)
        self.assertIsNone(self.dense.block_format)
        self.assertIsNone(self.dense.to_mkldnn().block_format)
        self.assertLess((self.values - self.dense).abs().max().item(), 0.02)
        self.assertTrue(repr(self.blocks).endswith("layout=torch._mkldnn, block_format='Q8_0')"))
        self.assertTrue(torch.equal(self.blocks.half(), self.values.half()))
        self.assertIs(self.blocks.to(torch.float32), self.blocks)
        for dense in (self.blocks.dequantize(), self.blocks.to_dense(), self.blocks.t().dequantize().t()):
            self.assertEqual((dense.block_format, dense.layout), (None, torch.strided))
            self.assertTrue(torch.equal(dense, self.values))

    def test_bytes(self):
        data = torch.block_bytes(self.blocks)
        self.assertEqual((data.dtype, data.shape), (torch.uint8, (6, 8 * 34)))
        self.assert_blocks(torch.block_tensor(data, "q8_0", (6, 256)), "Q8_0", self.values)
        self.assert_blocks(torch.block_tensor(data, "Q8_0", (2, 3, 256)), "Q8_0", self.values.view(2, 3, 256))
        for size in ((6, 255), (5, 256), (), (2**40, 2**40), (-6, 256)):
            with self.assertRaises(ValueError):
                torch.block_tensor(data, "q8_0", size)
        with self.assertRaises(ValueError):
            torch.block_tensor(data.t(), "q8_0", (6, 256))
        for wrong in (self.dense, self.blocks.t()):
            with self.assertRaisesRegex(ValueError, "expects a block-quantised tensor"):
                torch.block_bytes(wrong)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no block format 'q9'; the formats are"):
            torch.quantize_blocks(self.dense, "q9")
        with self.assertRaisesRegex(ValueError, "not whole blocks of 256"):
            torch.quantize_blocks(torch.ones(2, 64), "q4_k")
        with self.assertRaisesRegex(ValueError, "floating-point numbers"):
            torch.quantize_blocks(torch.ones(2, 64, dtype=torch.long), "q8_0")
        with self.assertRaisesRegex(NotImplementedError, "cannot be written to in place"):
            self.blocks.mul_(2)
        with self.assertRaises(NotImplementedError):
            self.blocks.untyped_storage()
        with self.assertRaisesRegex(RuntimeError, "cannot be multiplied"):
            F.linear(torch.ones(2, 32), self.blocks)

    def test_large_ones_are_quantised_by_all_threads(self):
        dense, threads = torch.randn(1100, 256), torch.get_num_threads()
        try:
            made = []
            for count in (1, 3):
                torch.set_num_threads(count)
                made.append(torch.block_bytes(torch.quantize_blocks(dense, "q4_0")))
        finally:
            torch.set_num_threads(threads)
        self.assertTrue(torch.equal(*made))

    def test_products(self):
        bias = torch.randn(6)
        for shape in ((256,), (1, 256), (5, 256), (2, 3, 256), (0, 256)):
            x = torch.randn(shape)
            expected = x @ self.values.t()
            self.assertEqual(F.linear(x, self.blocks).shape, expected.shape)
            if x.numel():
                self.assert_near(F.linear(x, self.blocks), expected)
                self.assert_near(F.linear(x, self.blocks, bias), expected + bias)
                for turned in (self.blocks.t(), self.blocks.T, self.blocks.mT, self.blocks.transpose(0, 1)):
                    self.assertEqual((turned.block_format, turned.shape), ("Q8_0", (256, 6)))
                    self.assert_near(x @ turned, expected)
        x = torch.randn(3, 256)
        self.assert_near(torch.mm(x, self.blocks.t()), x @ self.values.t())
        self.assert_near(
            torch.addmm(bias, x, self.blocks.t(), beta=0.5, alpha=2), 0.5 * bias + 2 * (x @ self.values.t())
        )
        self.assertTrue(torch.equal(torch.addmm(bias, x, self.blocks.t(), beta=0), x.mm(self.blocks.t())))
        self.assertTrue(torch.allclose(self.blocks @ x.t(), self.values @ x.t(), atol=1e-4))
        self.assertTrue(torch.allclose(x.t()[:, :1].expand(-1, 6).t() @ self.blocks.t(),
                                       x[:1].expand(6, -1) @ self.values.t(), atol=0.5))
        half = F.linear(x.bfloat16(), self.blocks)
        self.assertEqual(half.dtype, torch.bfloat16)
        self.assert_near(half.float(), x @ self.values.t())
        # The transpose twice is the same matrix of blocks.
        self.assert_blocks(self.blocks.t().t(), "Q8_0", self.values)
        self.assertTrue(torch.equal(self.blocks.t().to_dense(), self.values.t()))

    def test_gradients_reach_the_input(self):
        for product in (F.linear, lambda x, w: x @ w.t(), lambda x, w: torch.addmm(torch.zeros(6), x, w.t())):
            x = torch.randn(4, 256, requires_grad=True)
            weights = torch.randn(4, 6)
            (product(x, self.blocks) * weights).sum().backward()
            self.assertTrue(torch.allclose(x.grad, weights @ self.values, atol=1e-4))

    def test_rows(self):
        indices = torch.tensor([[3, 0], [5, 3]])
        self.assertTrue(torch.equal(F.embedding(indices, self.blocks), F.embedding(indices, self.values)))
        self.assertTrue(torch.equal(self.blocks.index_select(0, indices[0]), self.values[indices[0]]))
        self.assert_blocks(self.blocks[1:3], "Q8_0", self.values[1:3])
        self.assert_blocks(self.blocks[-2:], "Q8_0", self.values[-2:])
        self.assert_blocks(self.blocks[2], "Q8_0", self.values[2])
        self.assert_blocks(self.blocks.narrow(0, 2, 3), "Q8_0", self.values[2:5])
        self.assertTrue(torch.equal(self.blocks[indices], self.values[indices]))
        with self.assertRaises(IndexError):
            self.blocks[6]
        with self.assertRaises(IndexError):
            F.embedding(torch.tensor([6]), self.blocks)
        for part, of in zip(self.blocks.chunk(3), self.values.chunk(3)):
            self.assertTrue(torch.equal(part.to_dense(), of))
        for part, of in zip(self.blocks.split([1, 5]), self.values.split([1, 5])):
            self.assertTrue(torch.equal(part.to_dense(), of))

    def test_other_operators_see_the_values(self):
        for function in (
            lambda w: w + 1, lambda w: w.sum(), lambda w: w.view(2, 3, 256), lambda w: w[:, 3], lambda w: w.unsqueeze(0),
            lambda w: w.permute(1, 0), lambda w: w.reshape(-1), lambda w: torch.cat([w, w]), lambda w: w.abs().max(),
            lambda w: w[::2], lambda w: w.expand(2, 6, 256), lambda w: w.transpose(0, 0), lambda w: w == w,
        ):
            made = function(self.blocks)
            self.assertTrue(torch.equal(made.to_dense(), function(self.values)))
            self.assertEqual(made.layout if made.block_format is None else torch.strided, torch.strided)

    def test_writing_quantises(self):
        kept, other = self.blocks, torch.randn(6, 256)
        version = kept._version
        row = kept[1]
        self.assertIs(kept.copy_(other), kept)
        self.assertGreater(kept._version, version)
        expected = torch.quantize_blocks(other, "q8_0")
        self.assert_blocks(kept, "Q8_0", expected.to_dense())
        self.assert_blocks(row, "Q8_0", expected.to_dense()[1])
        kept.copy_(torch.quantize_blocks(self.dense, "q8_0"))
        self.assert_blocks(kept, "Q8_0", self.values)
        kept.t().copy_(other.t())
        self.assert_blocks(kept, "Q8_0", expected.to_dense())
        with self.assertRaisesRegex(RuntimeError, "of shape"):
            kept.copy_(torch.ones(256))
        self.assertTrue(torch.equal(torch.empty(6, 256).copy_(kept), kept.to_dense()))

    def test_copies(self):
        for made in (self.blocks.clone(), copy.copy(self.blocks), copy.deepcopy(self.blocks), self.blocks.detach(),
                     self.blocks.contiguous(), self.blocks.cpu(), self.blocks.data, self.blocks.float()):
            self.assert_blocks(made, "Q8_0", self.values)
        clone = self.blocks.clone()
        torch.block_bytes(clone).zero_()
        self.assertEqual(clone.to_dense().abs().sum().item(), 0)
        self.assert_blocks(self.blocks, "Q8_0", self.values)
        self.assert_blocks(copy.deepcopy(self.blocks.t()).t(), "Q8_0", self.values)

    def test_pickles_and_files(self):
        parameter = torch.nn.Parameter(self.blocks, requires_grad=False)
        held = {"w": self.blocks, "t": self.blocks.t(), "p": parameter, "row": self.blocks[2], "dense": self.dense}
        held["k"] = torch.quantize_blocks(self.dense, "q4_k")
        file = io.BytesIO()
        torch.save(held, file)
        for weights_only in (True, False):
            file.seek(0)
            found = torch.load(file, weights_only=weights_only)
            self.assert_blocks(found["w"], "Q8_0", self.values)
            self.assert_blocks(found["t"], "Q8_0", self.values.t())
            self.assert_blocks(found["row"], "Q8_0", self.values[2])
            self.assert_blocks(found["p"], "Q8_0", self.values)
            self.assertIsInstance(found["p"], torch.nn.Parameter)
            self.assertFalse(found["p"].requires_grad)
            self.assert_blocks(found["k"], "Q4_K", held["k"].to_dense())
        self.assert_blocks(pickle.loads(pickle.dumps(self.blocks)), "Q8_0", self.values)
        # A row shares the bytes of the whole, in files too.
        torch.block_bytes(found["w"]).zero_()
        self.assertEqual(found["row"].to_dense().abs().sum().item(), 0)

    def test_in_modules(self):
        model = torch.nn.Sequential(torch.nn.Embedding(6, 256), torch.nn.Linear(256, 6))
        for layer in model:
            layer.weight = torch.nn.Parameter(torch.quantize_blocks(layer.weight, "q8_0"), requires_grad=False)
        tokens = torch.tensor([[1, 5, 2]])
        expected = model(tokens)
        self.assert_near(expected, F.linear(model[0].weight.to_dense()[tokens], model[1].weight.to_dense(), model[1].bias))
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            self.assertEqual(other[1].weight.block_format, "Q8_0")
            self.assertTrue(torch.equal(other(tokens), expected))
        state = model.state_dict()
        self.assertEqual(state["1.weight"].block_format, "Q8_0")
        plain = torch.nn.Sequential(torch.nn.Embedding(6, 256), torch.nn.Linear(256, 6))
        plain.load_state_dict(state)
        self.assertTrue(torch.equal(plain[1].weight, state["1.weight"].to_dense()))
        plain.load_state_dict(state, assign=True)
        self.assertTrue(torch.equal(plain(tokens), expected))
        other = copy.deepcopy(model)
        torch.block_bytes(other[1].weight).zero_()
        other.load_state_dict(state)
        self.assertTrue(torch.equal(other(tokens), expected))
        self.assertEqual(model.to("cpu")[1].weight.block_format, "Q8_0")


@unittest.skipUnless(torch.__name__ == "corten", "PyTorch does not read the format")
class Files(unittest.TestCase):
    """A file of the package ``gguf`` with every format and every type of metadata."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = os.path.join(holder.name, "x.gguf")
        self.file = torch.gguf.load(GOLDENS / "blocks.gguf")
        self.weights = {name: torch.from_numpy(array) for name, array in np.load(GOLDENS / "blocks.npz").items()}

    def test_tensors(self):
        for name, expected in self.weights.items():
            found = self.file.tensors[name]
            self.assertEqual((found.block_format, self.file.types[name]), (name, name))
            self.assertTrue(torch.equal(found.to_dense(), expected), name)
            x = torch.randn(4, 256)
            product = F.linear(x, found)
            self.assertLess((product - x @ expected.t()).abs().max() / product.abs().max(), 0.05, name)
        self.assertEqual(self.file.tensors["IQ2_XXS"].dtype, torch.uint8)
        self.assertEqual(self.file.quantized, {*self.weights, "IQ2_XXS"})

    def test_dequantised(self):
        with self.assertRaisesRegex(NotImplementedError, "IQ2_XXS"):
            torch.gguf.load(GOLDENS / "blocks.gguf", dequantize=True)
        tensors = {name: tensor for name, tensor in self.file.tensors.items() if name != "IQ2_XXS"}
        torch.gguf.save(tensors, self.path)
        for name, tensor in torch.gguf.load(self.path, dequantize=True).tensors.items():
            self.assertEqual(tensor.layout, torch.strided)
            if name in self.weights:
                self.assertTrue(torch.equal(tensor, self.weights[name]))

    def test_the_same_file_again(self):
        torch.gguf.save(self.file, self.path)
        self.assertEqual(pathlib.Path(self.path).read_bytes(), (GOLDENS / "blocks.gguf").read_bytes())

    def test_changed_metadata_and_tensors(self):
        metadata = {**self.file.metadata, "test.u8": 7, "new": [1, -2], "large": [2**40]}
        tensors = {"w": self.file.tensors["Q4_K"], "v": torch.quantize_blocks(torch.ones(2, 3, 32), "q8_0")}
        torch.gguf.save(tensors, self.path, metadata, model=self.file)
        found = torch.gguf.load(self.path)
        self.assertEqual(found.metadata, metadata)
        self.assertEqual(found.types, {"w": "Q4_K", "v": "Q8_0"})
        self.assertEqual(found.shapes["v"], (2, 3, 32))
        self.assertTrue(torch.equal(found.tensors["w"].to_dense(), self.weights["Q4_K"]))
        with self.assertRaisesRegex(TypeError, "no element type"):
            torch.gguf.save({"IQ2_XXS": self.file.tensors["IQ2_XXS"]}, self.path)


if __name__ == "__main__":
    unittest.main()
