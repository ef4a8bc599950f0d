"""Complex functions at special values, near branch points and at the borders of the range.

The expected values were written by tests/goldens/make/complex_values.py.
"""

import pathlib
import unittest

import numpy as np

from module_under_test import torch

GOLDENS = np.load(pathlib.Path(__file__).parent.parent / "goldens" / "complex_values.npz")
DTYPES = ("complex64", "complex128")
# Zeros have the signs that annex G of the C standard gives them.
SIGNED = (
    "exp log sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh abs angle"
).split()
UNARY = SIGNED + (
    "exp2 expm1 log1p log2 log10 sigmoid rsqrt reciprocal square sgn"
).split()
# Units in the last place of each part, beside exact values.
ULPS = {"complex64": 1, "complex128": 4}
LOOSER = {"expm1": 3}
# Beside the magnitude. The logarithm of a power in double precision is rounded where it is small.
POWER_ULPS = {"complex64": 3, "complex128": 24}
CORTEN = torch.__name__ == "corten"


def setUpModule():
    np.seterr(all="ignore")


def parts(array):
    array = np.ascontiguousarray(array)
    return array.view(array.real.dtype) if array.dtype.kind == "c" else array


def distance(result, expected):
    """Units in the last place; infinity where one number is NaN or infinite alone."""
    result, expected = parts(result), parts(expected)
    same = (result == expected) | (np.isnan(result) & np.isnan(expected))
    unlike = ~np.isfinite(result) | ~np.isfinite(expected)
    ulps = np.abs(result - expected) / np.spacing(np.abs(expected))
    return np.where(same, 0, np.where(unlike, np.inf, ulps))


def call(name, *arrays):
    return getattr(torch, name)(*[torch.from_numpy(a.copy()) for a in arrays]).numpy()


class Values(unittest.TestCase):
    def check(self, name, result, expected, arguments, limit):
        wrong = np.flatnonzero(distance(result, expected) > limit)
        per = 2 if result.dtype.kind == "c" else 1
        shown = [
            (*(a[i // per] for a in arguments), result.ravel()[i // per], expected[i // per])
            for i in wrong[:5]
        ]
        self.assertEqual(shown, [], f"{name}: {len(wrong)} parts are wrong")

    @unittest.skipUnless(CORTEN, "PyTorch's errors are larger")
    def test_functions_of_one_number(self):
        for dtype in DTYPES:
            for name in UNARY:
                with self.subTest(name, dtype=dtype):
                    expected = GOLDENS[f"{name}/{dtype}"]
                    points = GOLDENS[f"points/{dtype}"][: len(expected)]
                    limit = max(ULPS[dtype], LOOSER.get(name, 0))
                    result = call(name, points)
                    self.check(name, result, expected, [points], limit)
                    if name in SIGNED:
                        zero = (parts(result) == 0) & (parts(expected) == 0)
                        signs = np.signbit(parts(result)) == np.signbit(parts(expected))
                        self.assertTrue(signs[zero].all(), "signs of zeros")

    @unittest.skipUnless(CORTEN, "PyTorch's errors are larger")
    def test_quotients(self):
        for dtype in DTYPES:
            a, b = GOLDENS[f"left/{dtype}"], GOLDENS[f"right/{dtype}"]
            with self.subTest(dtype):
                self.check("div", call("div", a, b), GOLDENS[f"div/{dtype}"], [a, b], 3)

    def test_products_have_four_terms(self):
        for dtype in DTYPES:
            a, b = GOLDENS[f"left/{dtype}"], GOLDENS[f"right/{dtype}"]
            expected = np.empty_like(a)
            expected.real = a.real * b.real - a.imag * b.imag
            expected.imag = a.real * b.imag + a.imag * b.real
            with self.subTest(dtype):
                self.check("mul", call("mul", a, b), expected, [a, b], 0 if CORTEN else 2**20)

    @unittest.skipUnless(CORTEN, "PyTorch's errors are larger")
    def test_powers(self):
        for dtype in DTYPES:
            a, b = GOLDENS[f"left/{dtype}"], GOLDENS[f"exponent/{dtype}"]
            result, expected = call("pow", a, b), GOLDENS[f"pow/{dtype}"]
            # A part that is small beside the other one has the error of that.
            size = np.abs(expected)[:, None]
            limit = POWER_ULPS[dtype] * np.spacing(size).repeat(2, 1).ravel()
            close = np.abs(parts(result) - parts(expected)) <= limit
            kinds = (distance(result, expected) == 0) | np.isfinite(parts(expected))
            exact = np.isfinite(expected).repeat(2)
            with self.subTest(dtype):
                wrong = np.flatnonzero(np.where(exact, close, kinds) == 0) // 2
                shown = [(a[i], b[i], result[i], expected[i]) for i in wrong[:5]]
                self.assertEqual(shown, [])

    def test_powers_of_numbers(self):
        z = torch.tensor([complex("inf+1j"), complex("nan"), 2.5j, 0j], dtype=torch.complex128)
        infinite = torch.tensor([complex("inf"), complex("nan"), 1j], dtype=torch.complex128)
        self.assertEqual((z**0).tolist(), [1] * 4)
        self.assertEqual((1**infinite).tolist(), [1] * 3)
        self.assertEqual(str((z**1).tolist()), str(z.tolist()))
        self.assertEqual((torch.tensor([1e300 + 0j], dtype=torch.complex128) ** -1).item(), 1e-300)


@unittest.skipUnless(CORTEN, "PyTorch's bits depend on the layout")
class Layouts(unittest.TestCase):
    """Long and short, contiguous and strided, in place and into an output: the same bits."""

    FUNCTIONS = ["exp", "log", "sqrt", "sin", "tanh", "acosh", "expm1", "reciprocal", "sigmoid"]

    def layouts(self, name, z):
        function = getattr(torch, name)
        yield function(torch.from_numpy(z.repeat(3))[::3])
        yield function(torch.from_numpy(z[::-1].copy()).flip(0))
        yield getattr(torch.from_numpy(z.copy()), name + "_")()
        yield function(torch.from_numpy(z.copy()), out=torch.empty(z.size, dtype=function(torch.from_numpy(z)).dtype))
        square = torch.from_numpy(np.stack([z, z], 1))
        yield function(square)[:, 0]

    def test_results_do_not_depend_on_the_layout(self):
        for dtype in DTYPES:
            points = GOLDENS[f"points/{dtype}"]
            for name in self.FUNCTIONS:
                whole = parts(call(name, points))
                for length in (1, 3, 8, 17, 300):
                    piece = points[-length:].copy()
                    expected = whole[-2 * length :]
                    for result in self.layouts(name, piece):
                        with self.subTest(name, dtype=dtype, length=length):
                            result = parts(result.contiguous().numpy())
                            np.testing.assert_array_equal(result, expected)

    def test_quotients_and_products_do_not_depend_on_the_layout(self):
        for dtype in DTYPES:
            a, b = GOLDENS[f"left/{dtype}"][-317:], GOLDENS[f"right/{dtype}"][-317:]
            for name in ("mul", "div", "pow", "logaddexp"):
                whole = parts(call(name, a, b))
                for length in (1, 3, 8, 17):
                    with self.subTest(name, dtype=dtype, length=length):
                        short = parts(call(name, a[-length:], b[-length:]))
                        np.testing.assert_array_equal(short, whole[-2 * length :])
                strided = getattr(torch, name)(
                    torch.from_numpy(a.repeat(2))[::2], torch.from_numpy(b.repeat(3))[::3]
                )
                np.testing.assert_array_equal(parts(strided.numpy()), whole)


class Gradients(unittest.TestCase):
    def test_gradients_are_those_of_pytorch(self):
        for dtype in DTYPES:
            points = GOLDENS[f"gradient_points/{dtype}"]
            names = [k.split("/")[1] for k in GOLDENS.files if k.startswith("gradient/")]
            for name in sorted(set(names)):
                x = torch.from_numpy(points.copy()).requires_grad_(True)
                y = getattr(torch, name)(x)
                y.backward(torch.ones_like(y))
                result = x.grad.resolve_conj().numpy()
                expected = GOLDENS[f"gradient/{name}/{dtype}"]
                kept = GOLDENS[f"kept/{name}/{dtype}"]
                size = np.abs(np.where(np.isfinite(expected), expected, 0))
                if name == "expm1":
                    # Its error is beside the one that is subtracted.
                    size = np.maximum(size, 1)
                near = np.abs(result - expected) <= 256 * np.spacing(size)
                kinds = distance(result, expected).reshape(-1, 2).max(1) <= 256
                wrong = np.flatnonzero(kept & ~(near | kinds))
                shown = [(points[i], result[i], expected[i]) for i in wrong[:5]]
                with self.subTest(name, dtype=dtype):
                    self.assertEqual(shown, [])

    @unittest.skipUnless(CORTEN, "PyTorch gives NaN")
    def test_gradients_of_binary_operators_at_zero(self):
        for make in (lambda x, e: x**e, lambda x, e: x * e, lambda x, e: e / (x + 2)):
            x = torch.zeros(2, dtype=torch.complex128, requires_grad=True)
            e = torch.tensor([2 + 0j, 1 + 0j], dtype=torch.complex128, requires_grad=True)
            make(x, e).backward(torch.ones(2, dtype=torch.complex128))
            self.assertTrue(torch.isfinite(x.grad).all())
            self.assertTrue(torch.isfinite(e.grad).all())


class LogarithmsOfSums(unittest.TestCase):
    def test_infinities(self):
        inf = float("inf")
        for dtype in (torch.complex64, torch.complex128):
            for values, expected in [
                ([complex(inf, 0), complex(inf, 1)], complex(inf, np.pi / 4)),
                ([complex(-inf, 0), complex(-inf, 2)], complex(-inf, 0)),
                ([complex(1, 2), complex(-inf, 2)], complex(1, 2)),
                ([complex(inf, 0), complex(1, 2)], complex(inf, 0)),
            ]:
                with self.subTest(values, dtype=dtype):
                    z = torch.tensor(values, dtype=dtype)
                    last = z.logcumsumexp(0)[-1].item()
                    self.assertEqual(last.real, expected.real)
                    self.assertAlmostEqual(last.imag, expected.imag, 6)
            nan = torch.tensor([complex(0, np.nan), 1j], dtype=dtype).logcumsumexp(0)
            self.assertTrue(torch.isnan(nan).all())

    def test_equal_real_parts(self):
        a, b = torch.tensor([0j, 2.5j, 1 + 1j]), torch.tensor([2.5j, 0j, 1 - 1j])
        for dtype, places in ((torch.complex64, 6), (torch.complex128, 14)):
            x, y = a.to(dtype), b.to(dtype)
            expected = np.log(np.exp(x.numpy()) + np.exp(y.numpy()))
            for result, want in zip(torch.logaddexp(x, y).tolist(), expected):
                self.assertAlmostEqual(result, complex(want), places)


if __name__ == "__main__":
    unittest.main()
