"""`gather` and the `scatter` family with an index that is one number for each slice, expanded."""

import unittest

from module_under_test import torch

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


class Expanded(unittest.TestCase):
    def cases(self):
        torch.manual_seed(0)
        for shape, dim, count in [((6, 8), 0, 11), ((6, 8), 1, 3), ((3, 5, 4), 1, 9), ((2, 7, 1, 6), 1, 7),
                                  ((4, 1), 0, 6), ((5, 40), 0, 1)]:
            vector = torch.randint(0, shape[dim], (count,))
            view = [1] * len(shape)
            view[dim] = count
            sizes = list(shape)
            sizes[dim] = count
            index = vector.reshape(view).expand(sizes)
            yield torch.randn(shape), dim, index, torch.randn(sizes)

    def test_equal_to_a_written_out_index(self):
        for x, dim, index, src in self.cases():
            written = index.contiguous()
            with self.subTest(shape=x.shape, dim=dim):
                self.assertTrue(torch.equal(x.gather(dim, index), x.gather(dim, written)))
                self.assertTrue(torch.equal(x.scatter_add(dim, index, src), x.scatter_add(dim, written, src)))
                self.assertTrue(torch.equal(x.scatter(dim, index, 2.0), x.scatter(dim, written, 2.0)))
                self.assertTrue(torch.equal(x.scatter(dim, index, src), x.scatter(dim, written, src)))
                for reduce in REDUCTIONS:
                    for include in (True, False):
                        a, b = (x.scatter_reduce(dim, i, src, reduce, include_self=include)
                                for i in (index, written))
                        self.assertTrue(torch.allclose(a, b, rtol=1e-6), reduce)

    def test_targets_and_sources_with_strides(self):
        x = torch.randn(8, 6).t()
        index = torch.tensor([0, 5, 5, 2])[:, None].expand(4, 8)
        src = torch.randn(8, 4).t()
        expected = x.contiguous().scatter_add(0, index.contiguous(), src)
        self.assertTrue(torch.equal(x.clone().scatter_add_(0, index, src), expected))
        wide = torch.zeros(6, 16)
        wide[:, ::2].scatter_add_(0, index, src)
        self.assertTrue(torch.equal(wide[:, ::2], torch.zeros(6, 8).scatter_add(0, index.contiguous(), src)))
        self.assertEqual(wide[:, 1::2].abs().sum().item(), 0)

    def test_sources_larger_than_the_index(self):
        x, src = torch.zeros(5, 8), torch.randn(9, 8)
        index = torch.tensor([1, 1, 4])[:, None].expand(3, 8)
        expected = x.scatter_add(0, index.contiguous(), src)
        self.assertTrue(torch.equal(x.scatter_add(0, index, src), expected))

    def test_bounds(self):
        x = torch.zeros(5, 8)
        for wrong in (5, -1):
            index = torch.tensor([0, wrong])[:, None].expand(2, 8)
            for call in (lambda i: x.gather(0, i), lambda i: x.scatter_add(0, i, torch.ones(2, 8)),
                         lambda i: x.scatter_reduce(0, i, torch.ones(2, 8), "amax")):
                with self.assertRaisesRegex((RuntimeError, IndexError), "out of bounds"):
                    call(index)

    def test_gradients(self):
        x = torch.randn(5, 8, dtype=torch.float64, requires_grad=True)
        src = torch.randn(7, 8, dtype=torch.float64, requires_grad=True)
        index = torch.randint(0, 5, (7,))[:, None].expand(7, 8)
        self.assertTrue(torch.autograd.gradcheck(lambda a, b: a.scatter_add(0, index, b), (x, src)))
        self.assertTrue(torch.autograd.gradcheck(lambda a: a.gather(0, index), (x,)))

    def test_other_dtypes(self):
        index = torch.tensor([1, 0, 1])[:, None].expand(3, 8)
        for dtype in (torch.int64, torch.uint8, torch.bool, torch.float16, torch.complex64):
            src = torch.arange(24).reshape(3, 8).to(dtype)
            with self.subTest(dtype=dtype):
                x = torch.ones(4, 8).to(dtype)
                expected = x.scatter_add(0, index.contiguous(), src)
                self.assertTrue(torch.equal(x.scatter_add(0, index, src), expected))
                self.assertTrue(torch.equal(x.gather(0, index), x.gather(0, index.contiguous())))


if __name__ == "__main__":
    unittest.main()
