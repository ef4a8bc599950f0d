"""Arguments that PyTorch refuses or warns of, and the words that programs look for."""

import unittest
import warnings

import numpy as np
from module_under_test import torch

CORTEN = torch.__name__ == "corten"


class Embeddings(unittest.TestCase):
    def test_indices_out_of_range(self):
        table = torch.randn(10, 2)
        for dtype in (torch.float16, torch.float32, torch.float64):
            for mode in (0, 1, 2):
                for padding in (None, 3):
                    for indices in ([11, 8], [-1, 3]):
                        fast = dtype != torch.float64 and mode != 2 and padding is None
                        text = "not in the valid range" if fast else "Expected idx >= 0 && idx < num_emb"
                        with self.assertRaisesRegex(RuntimeError, text):
                            torch.embedding_bag(table.to(dtype), torch.tensor(indices), torch.tensor([0, 1]),
                                                False, mode, False, None, False, padding)

    def test_padding_out_of_range(self):
        for padding in (10, -11):
            with self.assertRaisesRegex(RuntimeError, "padding_idx must be within the number of embeddings"):
                torch.nn.functional.embedding_bag(torch.tensor([1, 8]), torch.ones(10, 2),
                                                  torch.tensor([0, 1]), padding_idx=padding)
            with self.assertRaisesRegex(AssertionError, "padding_idx must be within num_embeddings"):
                torch.nn.EmbeddingBag(10, 3, padding_idx=padding)
            with self.assertRaisesRegex(AssertionError, "Padding_idx must be within num_embeddings"):
                torch.nn.Embedding(10, 3, padding_idx=padding)

    def test_dimensions(self):
        for function in (torch.embedding_bag, torch._embedding_bag, torch._embedding_bag_forward_only):
            for weight, indices, offsets, text in (
                ((2, 6), (2, 0, 0, 6), (2,), "input has to be a 1D or 2D Tensor"),
                ((2, 2), (2,), (2, 0, 0, 6), "offsets has to be a 1D Tensor"),
                ((2, 2, 2), (2,), (2,), "weight has to be a 2D Tensor"),
            ):
                with self.assertRaisesRegex(RuntimeError, text):
                    function(torch.zeros(weight), torch.zeros(indices, dtype=torch.int64),
                             torch.zeros(offsets, dtype=torch.int64))
        with self.assertRaisesRegex(ValueError, "weight has to be a 2D Tensor"):
            torch.nn.functional.embedding_bag(torch.tensor([0]), torch.zeros(2, 2, 2), torch.tensor([0]))


class ComplexNumbers(unittest.TestCase):
    def test_parts(self):
        for function in (torch.complex, torch.polar):
            for dtype in (torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.complex64):
                part = torch.ones(2, dtype=dtype)
                with self.assertRaisesRegex(RuntimeError, "Expected both inputs to be Half, Float or Double"):
                    function(part, part)
            with self.assertRaisesRegex(RuntimeError, "Expected object of scalar type Double but got .* Float"):
                function(torch.ones(2, dtype=torch.float64), torch.ones(2))

    def test_outputs(self):
        for function in (torch.complex, torch.polar):
            for dtype in (torch.float32, torch.float64, torch.complex128, torch.int64):
                text = "Expected object of scalar type ComplexFloat but got scalar type .* for argument 'out'"
                with self.assertRaisesRegex(RuntimeError, text):
                    function(torch.ones(2), torch.ones(2), out=torch.empty(2, dtype=dtype))
            out = torch.empty(2, dtype=torch.complex64)
            self.assertIs(function(torch.ones(2), torch.zeros(2), out=out), out)
            self.assertEqual(out.tolist(), [1, 1])

    def test_default_dtype_of_full(self):
        for dtype, expected in ((torch.float16, torch.complex64), (torch.float32, torch.complex64),
                                (torch.float64, torch.complex128)):
            before = torch.get_default_dtype()
            torch.set_default_dtype(dtype)
            try:
                self.assertIs(torch.full((2,), 1 + 1j).dtype, expected)
            finally:
                torch.set_default_dtype(before)


class Reductions(unittest.TestCase):
    def test_outputs_of_truth(self):
        for name in ("any", "all"):
            for args in ((), (0,), ((0, 1),)):
                for dtype in (torch.float32, torch.int64, torch.complex64):
                    text = f"{name} only supports bool tensor for result"
                    with self.assertRaisesRegex(RuntimeError, text):
                        getattr(torch, name)(torch.ones(2, 2), *args, out=torch.empty(0, dtype=dtype))
                for dtype in (torch.bool, torch.uint8):
                    out = getattr(torch, name)(torch.ones(2, 2), *args, out=torch.empty(0, dtype=dtype))
                    self.assertTrue(out.bool().all())

    def test_means_of_integers(self):
        for dtype in (torch.bool, torch.int16):
            with self.assertRaisesRegex(RuntimeError, "nanmean.*floating point or complex dtype"):
                torch.nanmean(torch.ones(3, dtype=dtype))

    def test_outputs_of_histograms(self):
        for bins in (4, torch.arange(5.0)):
            for place, name in enumerate(("hist", "bin_edges")):
                out = [torch.empty(0), torch.empty(0)]
                out[place] = torch.empty(0, dtype=torch.float64)
                text = f"input tensor and {name} tensor should have the same dtype.*float and {name} double"
                with self.assertRaisesRegex(RuntimeError, text):
                    torch.histogram(torch.ones(3), bins, out=tuple(out))
            hist, edges = torch.empty(0), torch.empty(0)
            torch.histogram(torch.tensor([0.5, 1.5, 1.5, 3.5]), bins, out=(hist, edges))
            self.assertEqual(hist.sum(), 4)
            self.assertEqual(edges.numel(), 5)

    def test_products_over_no_dimensions(self):
        x = torch.tensor([[1.0, 2], [3, 4]])
        self.assertEqual(torch.masked.prod(x, dim=[]).tolist(), x.tolist())
        self.assertEqual(torch.masked.prod(x, dim=()), 24)
        for dim in ((), []):
            self.assertEqual(torch.masked.sum(x, dim=dim), 10)


class ManyDimensions(unittest.TestCase):
    def test_more_than_64(self):
        x = torch.ones([1] * 65)
        self.assertEqual(x.permute(*range(64, -1, -1)).dim(), 65)
        self.assertEqual(torch.empty([1] * 65).uniform_().dim(), 65)
        self.assertEqual((x + x).dim(), 65)
        with self.assertRaisesRegex(RuntimeError, "duplicate dims"):
            x.permute(*range(64), 0)
        with self.assertRaisesRegex(RuntimeError, "up to 64 dims are supported"):
            x.flip([0, 64])


class Warnings(unittest.TestCase):
    def given(self, function):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            function()
        return [str(one.message) for one in found]

    def test_bounds_of_random_integers(self):
        for dtype, bits in ((torch.bfloat16, 8), (torch.float32, 24), (torch.float64, 53)):
            bound = 2 ** bits + 2
            given = self.given(lambda: torch.empty(5, dtype=dtype).random_(-bound, bound))
            self.assertEqual(len(given), 2)
            for name, text in zip(("from", "to - 1"), given):
                self.assertIn(f"{name} is out of bounds [-(2^{bits}), 2^{bits}]", text)
            self.assertEqual(self.given(lambda: torch.empty(5, dtype=dtype).random_(-5, 5)), [])
        for dtype, name in ((torch.uint8, "unsigned char"), (torch.int16, "short int"), (torch.bool, "bool")):
            with self.assertRaisesRegex(RuntimeError, f"from is out of bounds for {name}"):
                torch.empty(5, dtype=dtype).random_(-2 ** 40, 2 ** 40)

    @unittest.skipUnless(CORTEN, "PyTorch warns once in a process")
    def test_searches_of_tensors_that_are_not_contiguous(self):
        turned = torch.ones(3, 3).t()
        given = self.given(lambda: torch.searchsorted(
            turned, turned, sorter=torch.zeros(3, 3, dtype=torch.int64).t()))
        for name in ("input value", "boundary", "sorter"):
            self.assertTrue(any(f"searchsorted(): {name} tensor is non-contiguous" in one for one in given))
        self.assertEqual(self.given(lambda: torch.searchsorted(turned, turned)), [])

    @unittest.skipUnless(CORTEN, "PyTorch warns once in a process")
    def test_lists_of_arrays(self):
        given = self.given(lambda: torch.tensor([np.array([0]), np.array([1])]))
        self.assertIn("list of numpy.ndarrays is extremely slow", given[0])


class Shapes(unittest.TestCase):
    def test_broadcast_shapes(self):
        for shapes, kind, text in (
            (((1, -12), (4, -7)), ValueError, "negative length"),
            ((1.5, (3,)), RuntimeError, "Input shapes should be of type ints"),
        ):
            with self.assertRaisesRegex(kind, text):
                torch.broadcast_shapes(*shapes)
        self.assertEqual(tuple(torch.broadcast_shapes([1, 2], None, 3 - 1)), (1, 2))

    def test_unravel_index(self):
        for indices, shape, text in (
            (torch.tensor(0.5), (2, 2), "expected 'indices' to be integer"),
            (torch.tensor(1), torch.tensor([2, 2]), "expected 'shape' to be int or sequence"),
            (torch.tensor(1), (2, 2.0), "expected 'shape' sequence to only contain ints"),
        ):
            with self.assertRaisesRegex(TypeError, text):
                torch.unravel_index(indices, shape)

    def test_outputs_of_range_keep_their_shape(self):
        x = torch.zeros(2, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.range(0, 3, out=x.narrow(1, 1, 2))
        self.assertEqual(x.tolist(), [[0, 0, 1], [0, 2, 3]])


if __name__ == "__main__":
    unittest.main()
