"""Losses, convolutions and bilinear forms whose operands have several dtypes."""

import itertools
import unittest
import warnings

from module_under_test import torch

F = torch.nn.functional
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def entropy(x, t, weight=None, positive=None):
    """Binary cross entropy of logits in double precision."""
    x, t = x.double(), t.double()
    factor = 1 if positive is None else 1 + (positive.double() - 1) * t
    losses = (1 - t) * x + factor * (torch.log1p(torch.exp(-x.abs())) + (-x).clamp(min=0))
    return (losses if weight is None else losses * weight.double()).mean()


class CrossEntropyOfLogits(unittest.TestCase):
    x = torch.linspace(-2, 2, 12).reshape(3, 4)
    t = torch.linspace(0, 1, 12).reshape(3, 4)
    w = torch.tensor([0.5, 1.0, 1.5, 2.0])

    def test_the_targets_have_the_say(self):
        for a, b in itertools.product(FLOATS, FLOATS):
            with self.subTest(input=a, target=b):
                x, t = self.x.to(a, copy=True), self.t.to(b, copy=True)
                x.requires_grad_(), t.requires_grad_()
                loss = F.binary_cross_entropy_with_logits(x, t)
                self.assertEqual(loss.dtype, b)
                self.assertAlmostEqual(loss.item(), entropy(self.x, self.t).item(), delta=2e-2)
                loss.backward()
                self.assertEqual((x.grad.dtype, t.grad.dtype), (a, b))
                expected = (torch.sigmoid(self.x) - self.t) / 12
                self.assertLess((x.grad.float() - expected).abs().max().item(), 2e-2)

    def test_weights(self):
        for a, b in itertools.product(FLOATS, FLOATS):
            with self.subTest(input=a, weight=b):
                x, t, w = self.x.to(a), self.t.to(a), self.w.to(b)
                for name in ("weight", "pos_weight"):
                    loss = F.binary_cross_entropy_with_logits(x, t, **{name: w})
                    self.assertEqual(loss.dtype, a)
                    weights = {"weight": w} if name == "weight" else {"positive": w}
                    self.assertAlmostEqual(loss.item(), entropy(x, t, **weights).item(), delta=3e-2)

    def test_one_dtype_keeps_its_digits(self):
        x, t = self.x.double(), self.t.double()
        self.assertAlmostEqual(
            F.binary_cross_entropy_with_logits(x, t).item(), entropy(x, t).item(), delta=1e-14
        )

    def test_whole_numbers_are_refused(self):
        for dtype in (torch.int64, torch.uint8):
            with self.assertRaisesRegex(RuntimeError, "result type Float can't be cast to the desired output"):
                F.binary_cross_entropy_with_logits(self.x, torch.ones(3, 4, dtype=dtype))
        with self.assertRaisesRegex(NotImplementedError if torch.__version__ >= "2.15" else RuntimeError,
                                    "Subtraction"):
            F.binary_cross_entropy_with_logits(self.x, torch.ones(3, 4, dtype=torch.bool))


class OtherLosses(unittest.TestCase):
    def test_soft_margins_have_the_dtype_of_the_input(self):
        x, t = torch.linspace(-2, 2, 6), torch.tensor([1.0, -1.0] * 3)
        for a, b in itertools.product(FLOATS, (*FLOATS, torch.int64)):
            with self.subTest(input=a, target=b):
                given = x.to(a, copy=True).requires_grad_()
                loss = F.soft_margin_loss(given, t.to(b))
                self.assertEqual(loss.dtype, a)
                expected = torch.log1p(torch.exp(-t * x)).mean().item()
                self.assertAlmostEqual(loss.item(), expected, delta=2e-2)
                loss.backward()
                self.assertEqual(given.grad.dtype, a)
                slopes = -t * torch.sigmoid(-t * x) / 6
                self.assertLess((given.grad.float() - slopes).abs().max().item(), 1e-2)

    def test_soft_margins_of_truth_values(self):
        x = torch.linspace(-2, 2, 6)
        expected = F.soft_margin_loss(x, (x > 0).float()).item()
        self.assertAlmostEqual(F.soft_margin_loss(x, x > 0).item(), expected, delta=1e-6)

    def test_soft_margins_of_labels_promote(self):
        x, t = torch.linspace(-2, 2, 6).reshape(2, 3), torch.tensor([[1.0, 0.0, 1.0]] * 2)
        for a, b in itertools.product(FLOATS, FLOATS):
            loss = F.multilabel_soft_margin_loss(x.to(a), t.to(b))
            self.assertEqual(loss.dtype, torch.promote_types(a, b))

    def test_divergence_refuses_what_is_no_distribution(self):
        x = torch.rand(2, 3)
        for other in (torch.int64, torch.bool, torch.uint8):
            whole = torch.ones(2, 3, dtype=other)
            for a, b in ((x, whole), (whole, x)):
                for logarithmic in (False, True):
                    with self.assertRaisesRegex(RuntimeError, "kl_div: Integral inputs not supported"):
                        F.kl_div(a, b, reduction="sum", log_target=logarithmic)
        with self.assertRaisesRegex(RuntimeError, "kl_div: Complex inputs not supported"):
            F.kl_div(x.to(torch.complex64), x, reduction="sum")


class Bias(unittest.TestCase):
    def test_transposed_convolutions_take_any_float(self):
        torch.manual_seed(0)
        # PyTorch does where it does not hand the work to oneDNN.
        inputs = (torch.float64,) if torch.__name__ == "torch" else FLOATS
        for n, (a, b) in itertools.product((1, 2), itertools.product(inputs, FLOATS)):
            with self.subTest(dims=n, input=a, bias=b):
                x = torch.rand(2, 2, *[5] * n).to(a)
                weight, bias = torch.rand(2, 3, *[2] * n).to(a), torch.tensor([0.5, 1.0, 2.0], dtype=b)
                bias.requires_grad_()
                convolve = getattr(F, f"conv_transpose{n}d")
                result = convolve(x, weight, bias)
                self.assertEqual(result.dtype, a)
                expected = convolve(x, weight, bias.detach().to(a))
                self.assertLess((result - expected).abs().max().item(), 5e-2)
                result.float().sum().backward()
                self.assertEqual(bias.grad.dtype, b)
                self.assertEqual(bias.grad.tolist(), [2.0 * 6**n] * 3)

    def test_others_do_not(self):
        with self.assertRaises(RuntimeError):
            F.conv_transpose3d(torch.rand(1, 2, 4, 4, 4), torch.rand(2, 3, 2, 2, 2), torch.rand(3).double())
        with self.assertRaisesRegex(RuntimeError, "bias type"):
            F.conv2d(torch.rand(1, 2, 4, 4), torch.rand(3, 2, 2, 2), torch.rand(3).double())
        with self.assertRaises(RuntimeError):
            F.conv_transpose2d(torch.rand(1, 2, 4, 4), torch.rand(2, 3, 2, 2).double(), torch.rand(3))

    def test_bilinear_forms_have_one_dtype(self):
        x, form = torch.rand(2, 3), torch.rand(4, 3, 3)
        for operands, end in (
            ((x, x.double(), form), "input2: double, weight: float$"),
            ((x, x, form.double()), "weight: double$"),
            ((x, x, form, torch.rand(4).double()), "weight: float, bias: double$"),
        ):
            with self.assertRaisesRegex(RuntimeError, f"All tensors must have the same dtype.*{end}"):
                F.bilinear(*operands)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
