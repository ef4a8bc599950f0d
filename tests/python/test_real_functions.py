"""Real functions of one and two arguments beside exact results.

The points and results of `tests/goldens/real_functions.npz` are every function's special points, the
borders of its range and random ones. Results of 16 and 32 bits are correct but for the last digit or
two, those of 64 bits as far as `DOUBLE` says.
"""

import math
import pathlib
import unittest

import numpy as np
from module_under_test import torch

GOLDENS = np.load(pathlib.Path(__file__).resolve().parents[1] / "goldens" / "real_functions.npz")

DTYPES = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
LEAST = {"float64": -1074, "float32": -149, "float16": -24, "bfloat16": -133}
MOST = {"float64": 1024, "float32": 128, "float16": 16, "bfloat16": 128}


def called(name):
    """The function of a name."""
    functional = torch.nn.functional
    if name.startswith("polygamma"):
        return lambda x: torch.polygamma(int(name[9:]), x)
    if name.startswith("mvlgamma"):
        return lambda x: torch.mvlgamma(x, int(name[8:]))
    if name == "gelu_tanh":
        return lambda x: functional.gelu(x, approximate="tanh")
    if name == "div_trunc":
        return lambda x, y: torch.div(x, y, rounding_mode="trunc")
    name = {"igamma": "gammainc", "igammac": "gammaincc"}.get(name, name)
    return next(getattr(s, name) for s in (torch, torch.special, functional) if hasattr(s, name))


# What results may lack: units in the last place of float64, and of the smaller dtypes; a relative error of
# float64; and an absolute one next to zeros, in units in the last place of 1.
USUAL = (4, 2, 0, 0)
ALLOWED = {
    "lgamma": (4, 2, 0, 2), "digamma": (4, 2, 2e-15, 16), "log_ndtr": (4, 2, 1e-14, 0), "ndtr": (4, 2, 2e-13, 0),
    **{f"polygamma{n}": (4, 2, 5e-14, 64) for n in (2, 3, 10, 40)}, "polygamma180": (4, 2, 1e-12, 0),
    "ndtri": (8, 2, 0, 2), "i1": (12, 2, 0, 0), "i1e": (12, 2, 0, 0), "modified_bessel_i1": (12, 2, 0, 0),
    **{f"{scaled}modified_bessel_k{n}": (32, 2, 0, 0) for scaled in ("", "scaled_") for n in (0, 1)},
    **{f"bessel_{kind}{n}": (8, 2, 0, 2) for kind in "jy" for n in (0, 1)},
    "airy_ai": (32, 2, 1e-14, 4), "logit": (16, 4, 0, 1), "igamma": (16, 2, 4e-13, 0),
    "igammac": (16, 2, 4e-13, 0), "zeta": (16, 2, 0, 0),
    # The left tails have no digits of their own.
    "gelu": (4, 2, 0, 16), "gelu_tanh": (4, 2, 0, 16), "tanhshrink": (4, 2, 0, 16),
    "mish": (4, 2, 1e-12, 1), "logaddexp": (4, 2, 0, 4), "logaddexp2": (4, 4, 0, 4),
    # The quotient is rounded before it is cut.
    "div_trunc": (4, 2, 0, 0),
    # Recurrences and multiples of angles: errors grow with the degree.
    **{name: (4, 2, 4e-11, 1 << 13) for name in GOLDENS.files if "polynomial" in name},
}
# Results for which e^x would overflow on the way are zero.
FLUSHED = ("sigmoid", "silu", "mish")


def units(want, dtype):
    """One in the last place of results of a dtype."""
    exponents = np.frexp(want)[1] - DTYPES[dtype]
    return np.exp2(np.maximum(exponents, LEAST[dtype]).astype(np.float64))


def as_numbers(tensor):
    return tensor.to(torch.float64).numpy()


def wrong(name, dtype, want, got):
    """Where results are further from exact ones than they may be."""
    double, single, relative, absolute = ALLOWED.get(name, USUAL)
    # Beyond it a result is rounded to infinity.
    most = math.ldexp(1.0 - 2.0 ** -(DTYPES[dtype] + 1), MOST[dtype] - 1) * 2.0
    with np.errstate(all="ignore"):
        unit = units(np.where(np.isfinite(want), np.clip(want, -most, most), 0.0), dtype)
        last = double if dtype == "float64" else single
        within = last * unit + absolute * 2.0 ** -DTYPES[dtype]
        within = within + (relative * np.abs(want) if dtype == "float64" else 0.0)
        # A result next to the largest number may be infinite, and the other way round.
        ceiling = np.where(np.isinf(got), np.copysign(most, got), got)
        goal = np.clip(want, -most, most)
        near = np.abs(ceiling - goal) <= within
        if name in FLUSHED:
            near |= np.abs(want) < 2.0 ** (LEAST[dtype] + DTYPES[dtype] + 12)
        near |= (want == got) | (np.isnan(want) & np.isnan(got))
    return ~near


def points_of(table, dtype):
    """The arguments that a dtype has, and the results."""
    arguments, want = table[:, :-1], table[:, -1]
    kind = getattr(torch, dtype)
    tensors = [torch.tensor(np.ascontiguousarray(column)).to(kind) for column in arguments.T]
    kept = np.ones(len(table), dtype=bool)
    for tensor, column in zip(tensors, arguments.T):
        back = as_numbers(tensor)
        kept &= (back == column) | np.isnan(column)
    place = torch.tensor(np.flatnonzero(kept))
    return [tensor[place] for tensor in tensors], arguments[kept], want[kept]


class RealFunctions(unittest.TestCase):
    def check(self, name, dtype):
        tensors, points, want = points_of(GOLDENS[name], dtype)
        function = called(name)
        got = as_numbers(function(*tensors))
        if name == "float_power":
            dtype = "float64"
        for place in np.flatnonzero(wrong(name, dtype, want, got))[:3]:
            with self.subTest(name=name, dtype=dtype, point=points[place].tolist()):
                self.assertEqual(got[place], want[place])
        # Zeros of zero or infinite arguments have a sign.
        if "polynomial" in name:
            return
        edge = ((points == 0) | np.isinf(points)).any(axis=1) & (want == 0) & (got == 0)
        for place in np.flatnonzero(edge & (np.signbit(got) != np.signbit(want)))[:3]:
            with self.subTest(name=name, dtype=dtype, point=points[place].tolist()):
                self.assertEqual(str(got[place]), str(want[place]))

    def check_layouts(self, name, dtype):
        tensors, points, _ = points_of(GOLDENS[name], dtype)
        function = called(name)
        whole = as_numbers(function(*tensors))
        wide = [torch.stack([t, t, t], 1)[:, 1] for t in tensors]
        others = {"strided": (as_numbers(function(*wide)), whole)}
        for start, end in ((1, None), (3, 10), (5, 6)):
            part = function(*[t[start:end] for t in tensors])
            others[f"{start}:{end}"] = (as_numbers(part), whole[start:end])
        for layout, (got, want) in others.items():
            with self.subTest(name=name, dtype=dtype, layout=layout):
                np.testing.assert_array_equal(got, want)
                np.testing.assert_array_equal(np.signbit(got), np.signbit(want))

    def test_results(self):
        for name in GOLDENS.files:
            for dtype in DTYPES:
                self.check(name, dtype)

    def test_layouts(self):
        for name in GOLDENS.files:
            for dtype in DTYPES:
                self.check_layouts(name, dtype)


if __name__ == "__main__":
    unittest.main()
