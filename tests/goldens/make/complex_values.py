"""Writes tests/goldens/complex_values.npz: complex functions, quotients, powers and gradients.

Run with PyTorch, NumPy and mpmath: python tests/goldens/make/complex_values.py

The parts of the arguments are special values: zeros with signs, infinities, NaN, the borders of the
range. Where the arguments are finite, values are those of mpmath, with the signs of the C library
(through NumPy), since mpmath knows no signed zero and so no sides of a branch cut. Elsewhere they are
those of annex G of the C standard, through NumPy, or PyTorch's for functions that the standard does
not have.
"""

import itertools
import pathlib
import random

import mpmath
import numpy as np
import torch

np.seterr(all="ignore")
mpmath.mp.prec = 2200

PARTS = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-310, np.pi / 2]
FEW = [0.0, -0.0, -1.0, 2.5, np.inf, np.nan, 1e300, 1e-310]
DTYPES = {"complex64": np.float32, "complex128": np.float64}
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
         "acosh": "arccosh", "atanh": "arctanh", "abs": "absolute"}
LN_2 = mpmath.log(2)

EXACT = {
    "exp": mpmath.exp, "log": mpmath.log, "sqrt": mpmath.sqrt, "sin": mpmath.sin,
    "cos": mpmath.cos, "tan": mpmath.tan, "asin": mpmath.asin, "acos": mpmath.acos,
    "atan": mpmath.atan, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "asinh": mpmath.asinh, "acosh": mpmath.acosh, "atanh": mpmath.atanh, "abs": abs,
    "angle": mpmath.arg,
    "exp2": lambda z: mpmath.exp(z * LN_2),
    "expm1": lambda z: mpmath.exp(z) - 1,
    "log1p": lambda z: mpmath.log(1 + z),
    "log2": lambda z: mpmath.log(z) / LN_2,
    "log10": lambda z: mpmath.log(z) / mpmath.log(10),
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "reciprocal": lambda z: 1 / z,
    "square": lambda z: z * z,
    "sgn": lambda z: z / abs(z),
}
# Their rounding is that of naive products; special values only.
LOOSE = {"square", "sgn"}
# PyTorch is the reference for these; the others are NumPy's, that is, the C library's.
OF_TORCH = {"sigmoid", "rsqrt", "reciprocal", "square", "sgn"}


def table(parts, dtype):
    part = DTYPES[dtype]
    values = np.array(parts).astype(part)
    z = np.empty((len(parts), len(parts)), dtype)
    z.real, z.imag = values[:, None], values[None, :]
    return z.ravel()


def finite_points(dtype):
    """Numbers near branch points, near the unit circle, near zeros, and of all sizes."""
    draw = random.Random(5)
    points = []
    largest = 30 if dtype == "complex64" else 250
    for _ in range(30):
        points.append(complex(draw.gauss(0, 1), draw.gauss(0, 1)))
        size = 10.0 ** draw.uniform(-largest, largest)
        points.append(size * complex(draw.gauss(0, 1), draw.gauss(0, 1)))
        points.append(complex(10.0 ** draw.uniform(-20, 2), -(10.0 ** draw.uniform(-20, 2))))
        angle, distance = draw.uniform(-3.1, 3.1), 10.0 ** draw.uniform(-14, -1)
        points.append((1 + distance) * complex(np.cos(angle), np.sin(angle)))
        for near in (1, -1, 1j, -1j, complex(0, np.pi), complex(0, np.pi / 2), -0.5):
            points.append(near + distance * complex(np.cos(angle), np.sin(angle)))
        points.append(complex(distance**2 / 2, distance))
        points.append(complex(-(distance**2) / 2, distance))
        points.append(complex(draw.uniform(-700, 708), draw.uniform(-50, 50)))
    for x in (709.5, 710.2, 711, -708, -745, 88.5, 89.1, -87.5, 1023.5, 1024.2, 20.5, 22.5, 355.0):
        points += [complex(x, 1.25), complex(1.25, x), complex(x, -0.001)]
    return np.array(points).astype(dtype)


def as_mp(z):
    return mpmath.mpc(float(z.real), float(z.imag))


def rounded(value, dtype):
    parts = []
    for part in (mpmath.mpc(value).real, mpmath.mpc(value).imag):
        parts.append(DTYPES[dtype](float(part)))
    return parts


def exact(function, z, reference, dtype):
    """mpmath's parts with the reference's signs; what NumPy and PyTorch do not compute is NaN there."""
    if function is not mpmath.fdiv and z[0] == 0:
        return reference
    # Angles beyond have more digits than a logarithm of two in double precision.
    if function is EXACT["exp2"] and abs(z[0].imag) > 1e15:
        return np.exp2(np.complex128(z[0])).astype(dtype)
    # Here e^-z overflows, and PyTorch's quotient is NaN.
    if function is EXACT["sigmoid"] and abs(z[0].real) > 709:
        return reference
    try:
        value = function(*[as_mp(x) for x in z])
    except (ZeroDivisionError, ValueError, OverflowError):
        return reference
    result = np.empty((), np.result_type(reference, np.complex64))
    parts = rounded(value, dtype)
    signs = (reference.real, reference.imag)
    # mpmath knows no signed zero: neither sides of a cut nor signs of results that are zero.
    on_axis = z[0].real == 0 or z[0].imag == 0
    parts = [
        np.copysign(part, sign) if sign == sign and (part == 0 or on_axis) else part
        for part, sign in zip(parts, signs)
    ]
    # Where a part overflows, the other one may be a zero times an infinity in the reference.
    undecided = np.isnan(reference) or function is mpmath.fdiv
    if undecided and not np.isfinite(parts).all():
        return reference
    result.real, result.imag = parts
    return result


def unary():
    goldens = {}
    for dtype in DTYPES:
        points = np.concatenate([table(PARTS, dtype), finite_points(dtype)])
        goldens[f"points/{dtype}"] = points
        tensor = torch.from_numpy(points)
        for name, function in EXACT.items():
            z = table(PARTS, dtype) if name in LOOSE else points
            of_torch = getattr(torch, name)(torch.from_numpy(z)).numpy()
            of_numpy = getattr(np, NUMPY.get(name, name), None)
            of_c = name in OF_TORCH or of_numpy is None
            reference = of_torch if of_c else of_numpy(z)
            if name not in LOOSE:
                reference = np.array([
                    exact(function, (x,), r, dtype) if np.isfinite(x) else r
                    for x, r in zip(z, reference)
                ])
            if name in ("abs", "angle"):
                reference = reference.real
            goldens[f"{name}/{dtype}"] = reference.astype(of_torch.dtype)
    return goldens


def power(z, w):
    return mpmath.exp(w * mpmath.log(z))


def binary():
    goldens = {}
    for dtype in DTYPES:
        z = table(FEW, dtype)
        a, b = (np.array(x) for x in zip(*itertools.product(z, z)))
        draw = np.random.default_rng(3)
        size = 8.0 if dtype == "complex64" else 100.0
        more = [
            (draw.normal(size=300) + 1j * draw.normal(size=300))
            * 10.0 ** draw.uniform(-size, size, 300)
            for _ in range(2)
        ]
        a, b = (np.concatenate([x, y.astype(dtype)]) for x, y in zip((a, b), more))
        goldens[f"left/{dtype}"], goldens[f"right/{dtype}"] = a, b
        quotient = (torch.from_numpy(a) / torch.from_numpy(b)).numpy()
        finite = np.isfinite(a) & np.isfinite(b)
        goldens[f"div/{dtype}"] = np.array([
            exact(mpmath.fdiv, (x, y), r, dtype) if f and y != 0 else r
            for x, y, r, f in zip(a, b, quotient, finite)
        ])
        b = b.copy()
        # Exponents of moderate size.
        b[-300:] = (draw.normal(size=300) * 3 + 1j * draw.normal(size=300)).astype(dtype)
        goldens[f"exponent/{dtype}"] = b
        powers = torch.pow(torch.from_numpy(a), torch.from_numpy(b)).numpy()
        powers[b == 0] = 1
        for i in np.flatnonzero(finite & (np.abs(b) < 1e5) & (a != 0) & np.isfinite(powers)):
            # Signs of zero imaginary parts choose the side of the cut.
            base = as_mp(a[i])
            log = mpmath.log(base)
            if a[i].imag == 0 and np.signbit(a[i].imag) and a[i].real < 0:
                log = mpmath.conj(log)
            powers[i] = complex(*rounded(mpmath.exp(as_mp(b[i]) * log), dtype))
        goldens[f"pow/{dtype}"] = powers
    return goldens


GRADIENTS = sorted(EXACT) + ["sinc"]


def gradients():
    """PyTorch's, and where they are masked out: NaN at finite numbers, and the wrong side of a cut."""
    goldens = {}
    for dtype in DTYPES:
        points = table(PARTS, dtype)
        goldens[f"gradient_points/{dtype}"] = points
        for name in GRADIENTS:
            x = torch.from_numpy(points.copy()).requires_grad_(True)
            y = getattr(torch, name)(x)
            y.backward(torch.ones_like(y))
            grad = x.grad.resolve_conj().numpy()
            kept = np.isfinite(grad) | ~np.isfinite(points)
            if name == "acosh":
                kept &= ~((points.imag == 0) & np.signbit(points.imag))
            goldens[f"gradient/{name}/{dtype}"] = grad
            goldens[f"kept/{name}/{dtype}"] = kept
    return goldens


def main():
    path = pathlib.Path(__file__).parent.parent / "complex_values.npz"
    np.savez_compressed(path, **unary(), **binary(), **gradients())


if __name__ == "__main__":
    main()
