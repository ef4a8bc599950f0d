"""Opaque tensors, of the layout ``torch._mkldnn``, and modules with weights in it."""

import copy
import importlib
import pickle
import unittest

from module_under_test import torch

F = torch.nn.functional


class Opaque(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.dense = torch.randn(3, 4)
        self.opaque = self.dense.to_mkldnn()

    def assert_same(self, opaque, dense):
        self.assertEqual(opaque.layout, torch._mkldnn)
        self.assertTrue(torch.equal(opaque.to_dense(), dense))

    def test_what_it_is(self):
        m = self.opaque
        self.assertTrue(m.is_mkldnn and m.layout == torch._mkldnn)
        self.assertFalse(self.dense.is_mkldnn or m.is_sparse)
        self.assertEqual((tuple(m.shape), m.dim(), m.numel(), m.nbytes), ((3, 4), 2, 12, 48))
        self.assertEqual(m.dtype, torch.float32)
        self.assertTrue(torch.equal(m.to_dense(), self.dense))
        self.assertIs(self.dense.to_dense(), self.dense)
        self.assertTrue(repr(m).endswith("layout=torch._mkldnn)"))
        self.assertEqual(m.to_dense(torch.bfloat16).dtype, torch.bfloat16)
        self.assert_same(self.dense.to_mkldnn(torch.bfloat16), self.dense.bfloat16())

    def test_it_has_elements_of_its_own(self):
        self.dense.zero_()
        self.assertGreater(self.opaque.to_dense().abs().sum().item(), 0)
        self.opaque.to_dense().zero_()
        self.assertGreater(self.opaque.to_dense().abs().sum().item(), 0)

    def test_what_it_cannot_hold(self):
        for given in (self.dense.double(), self.dense.long(), self.dense > 0):
            with self.assertRaisesRegex(RuntimeError, "expects float, bfloat16, half, uint8, int8"):
                given.to_mkldnn()
        with self.assertRaisesRegex(RuntimeError, "number of dimensions > 5"):
            torch.zeros(1, 1, 1, 1, 1, 1).to_mkldnn()
        with self.assertRaises(RuntimeError):
            torch.tensor(1.0).to_mkldnn()

    def test_it_has_no_memory_to_look_at(self):
        with self.assertRaisesRegex(NotImplementedError, "Cannot access storage of OpaqueTensorImpl"):
            self.opaque.untyped_storage()
        with self.assertRaisesRegex(RuntimeError, "doesn't have storage"):
            self.opaque.data_ptr()
        with self.assertRaisesRegex(RuntimeError, "does not support view. Change to use reshape"):
            self.opaque.view(4, 3)
        with self.assertRaises(NotImplementedError):
            self.opaque[0]
        with self.assertRaisesRegex(TypeError, "can't convert Mkldnn layout tensor to numpy"):
            self.opaque.numpy()
        with self.assertRaisesRegex(RuntimeError, "doesn't have storage"):
            self.opaque.tolist()

    def test_operators_keep_the_layout(self):
        m, x = self.opaque, self.dense
        self.assert_same(m + m, x + x)
        self.assert_same(m.mul(2), x * 2)
        self.assert_same(m * m, x * x)
        self.assert_same(m.relu(), x.relu())
        self.assert_same(F.relu(m), x.relu())
        self.assert_same(m.clone(), x)
        self.assert_same(m.detach(), x)
        self.assert_same(m.reshape(2, 6), x.reshape(2, 6))
        self.assert_same(m.flatten(), x.flatten())
        self.assert_same(m.float(), x)
        self.assert_same(m.t(), x.t())
        self.assert_same(m.transpose(0, 1).relu(), x.t().relu())
        self.assert_same(torch.zeros(2, 3, layout=torch._mkldnn), torch.zeros(2, 3))
        for function in (torch.sigmoid, torch.tanh, F.gelu, lambda t: t.softmax(1)):
            self.assertEqual(function(m).layout, torch._mkldnn)
            self.assertTrue(torch.allclose(function(m).to_dense(), function(x), rtol=1e-5, atol=1e-6))

    def test_writes(self):
        m, x = self.opaque, self.dense.clone()
        version = m._version
        self.assert_same(m.add_(m), x.add_(x))
        self.assert_same(m.mul_(2), x.mul_(2))
        self.assert_same(m.relu_(), x.relu_())
        self.assertGreater(m._version, version)
        alias = m.detach()
        self.assert_same(m.zero_(), x.zero_())
        self.assert_same(alias, x)

    def test_images(self):
        x = torch.randn(2, 3, 8, 8)
        m, w = x.to_mkldnn(), torch.randn(4, 3, 3, 3)
        for function in (lambda t: F.max_pool2d(t, 2), lambda t: F.avg_pool2d(t, 2),
                         lambda t: F.adaptive_avg_pool2d(t, 1), lambda t: F.conv2d(t, w),
                         lambda t: F.conv2d(t, w.to_mkldnn(), stride=2, padding=1) if t.is_mkldnn
                         else F.conv2d(t, w, stride=2, padding=1)):
            self.assertEqual(function(m).layout, torch._mkldnn)
            self.assertTrue(torch.allclose(function(m).to_dense(), function(x), rtol=1e-4, atol=1e-5))

    def test_linear(self):
        for rows, inputs, outputs in ((1, 4, 3), (5, 33, 70), (40, 600, 129), (17, 1030, 64)):
            x, w, b = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
            for bias in (b, None):
                expected = F.linear(x.double(), w.double(), None if bias is None else b.double())
                m, weight = x.to_mkldnn(), w.to_mkldnn()
                kept = None if bias is None else b.to_mkldnn()
                for _ in range(2):
                    made = F.linear(m, weight, kept)
                    self.assertEqual((made.layout, tuple(made.shape)), (torch._mkldnn, (rows, outputs)))
                    self.assertTrue(torch.allclose(made.to_dense().double(), expected, atol=1e-3))
                # The elements are the same after they were put in order for the product.
                self.assertTrue(torch.equal(weight.to_dense(), w))
        x = torch.randn(2, 3, 33)
        self.assertEqual(tuple(F.linear(x.to_mkldnn(), torch.ones(5, 33).to_mkldnn()).shape), (2, 3, 5))
        with self.assertRaises(RuntimeError):
            F.linear(torch.ones(2, 3).to_mkldnn(), torch.ones(4, 5).to_mkldnn())

    def test_linear_of_halves(self):
        x, w = torch.randn(9, 35).bfloat16(), torch.randn(66, 35).bfloat16()
        made = F.linear(x.to_mkldnn(), w.to_mkldnn())
        self.assertEqual((made.dtype, made.layout), (torch.bfloat16, torch._mkldnn))
        expected = F.linear(x.double(), w.double())
        self.assertTrue(torch.allclose(made.to_dense().double(), expected, rtol=1e-2, atol=1e-1))

    def test_gradients(self):
        x = torch.randn(3, 4, requires_grad=True)
        (x.to_mkldnn().relu().to_dense() * 3).sum().backward()
        self.assertTrue(torch.equal(x.grad, 3.0 * (x > 0)))
        m = self.opaque.detach().requires_grad_()
        m.relu().to_dense().sum().backward()
        self.assert_same(m.grad, (self.dense > 0).float())

    def test_modules(self):
        convert = importlib.import_module(f"{torch.__name__}.utils.mkldnn").to_mkldnn
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5)
        ).eval()
        x = torch.randn(2, 3, 8, 8)
        expected = net(x)
        for dtype, tolerance in ((torch.float, 1e-4), (torch.bfloat16, 3e-2)):
            made = convert(copy.deepcopy(net), dtype)
            self.assertEqual(type(made[0]).__name__, "MkldnnConv2d")
            self.assertEqual(type(made[3]).__name__, "MkldnnLinear")
            self.assertEqual(made[3].weight.layout, torch._mkldnn)
            out = made(x.to_mkldnn(dtype)).to_dense().float()
            self.assertTrue(torch.allclose(out, expected, atol=tolerance, rtol=tolerance))
        with self.assertRaisesRegex(AssertionError, "MKLDNN only support float, bfloat16, and half"):
            convert(net, torch.float64)


@unittest.skipUnless(torch.__name__ == "corten", "PyTorch has fewer operators on the layout")
class Further(unittest.TestCase):
    def test_other_operators(self):
        x = torch.randn(3, 4)
        m = x.to_mkldnn()
        self.assertTrue(torch.equal(m.exp().to_dense(), x.exp()))
        self.assertTrue(torch.equal((m + 1).to_dense(), x + 1))
        self.assertEqual((m > 0).layout, torch.strided)
        self.assertTrue(torch.equal(m.sum(), x.sum()))
        self.assertTrue(torch.equal(torch.zeros_like(m).to_dense(), torch.zeros(3, 4)))
        self.assertEqual(torch.zeros_like(m, layout=torch.strided).layout, torch.strided)
        self.assertTrue(torch.equal(x + m, x + x))
        self.assertEqual((x + m).layout, torch.strided)
        self.assertTrue(torch.equal(torch.cat([m, m]).to_dense(), torch.cat([x, x])))
        self.assertEqual(m.double().dtype, torch.float64)
        with self.assertRaisesRegex(RuntimeError, "must have the same dtype, but got float and c10::BFloat16"):
            F.linear(m, x.to_mkldnn(torch.bfloat16))
        with self.assertRaisesRegex(RuntimeError, "need to be at least 1D, but they are 0D and 2D"):
            torch._C._nn.mkldnn_linear(torch.tensor(1.0), m)
        for out in (torch.empty(3, 4), x.to_mkldnn()):
            self.assertIs(torch.add(m, m, out=out), out)
            self.assertTrue(torch.equal(out.to_dense(), x + x))
        self.assertTrue(torch.equal(copy.deepcopy(m).to_dense(), x))

    def test_gradients_of_linear(self):
        x, w, b = (torch.randn(*shape) for shape in ((5, 7), (3, 7), (3,)))
        dense = [t.clone().requires_grad_() for t in (x, w, b)]
        F.linear(*dense).square().sum().backward()
        given = [t.clone().requires_grad_() for t in (x, w, b)]
        out = F.linear(*(t.to_mkldnn() for t in given))
        out.to_dense().square().sum().backward()
        for left, right in zip(dense, given):
            self.assertTrue(torch.allclose(left.grad, right.grad, rtol=1e-4, atol=1e-4))

    def test_written_after_it_was_put_in_order(self):
        x, w = torch.randn(5, 33), torch.randn(70, 33)
        weight = w.to_mkldnn()
        first = F.linear(x, weight)
        self.assertEqual(first.layout, torch.strided)
        self.assertTrue(torch.allclose(first, F.linear(x, w), atol=1e-4))
        weight.mul_(2)
        self.assertTrue(torch.equal(weight.to_dense(), w * 2))
        self.assertTrue(torch.allclose(F.linear(x, weight), 2 * first, atol=1e-4))

    def test_threads_do_not_change_results(self):
        x, weight = torch.randn(70, 300), torch.randn(500, 300).to_mkldnn()
        threads = torch.get_num_threads()
        try:
            results = []
            for count in (1, 2, 5):
                torch.set_num_threads(count)
                results.append(F.linear(x, weight))
        finally:
            torch.set_num_threads(threads)
        self.assertTrue(all(torch.equal(results[0], other) for other in results))

    def test_modules_of_every_kind(self):
        convert = importlib.import_module("corten.utils.mkldnn").to_mkldnn
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.PReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Flatten(), torch.nn.Linear(4 * 9, 5),
        ).eval()
        x = torch.randn(2, 3, 8, 8)
        expected = net(x)
        made = convert(net)
        self.assertTrue(torch.allclose(made(x), expected, atol=1e-4))
        self.assertTrue(torch.allclose(made(x.to_mkldnn()).to_dense(), expected, atol=1e-4))
        again = pickle.loads(pickle.dumps(made))
        self.assertEqual(again[5].weight.layout, torch._mkldnn)
        self.assertTrue(torch.equal(again(x), made(x)))
        # Other than zeros around the image are no business of the converted module.
        circular = torch.nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")
        self.assertIs(convert(circular), circular)


if __name__ == "__main__":
    unittest.main()
