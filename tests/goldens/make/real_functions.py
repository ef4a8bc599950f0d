"""Makes ``real_functions.npz``: real functions of one and two arguments beside exact results.

Needs mpmath, and PyTorch for the limits at infinities and poles. Every function has points, which
serve each dtype that has them, and the results, rounded to `float64`. `LIMITS` are the limits for
which PyTorch's answer is not taken.
"""

import math
import pathlib
import zlib

import mpmath as mp
import numpy as np
import real_reference as reference
import torch

INF, NAN = math.inf, math.nan
F64, F32 = np.finfo(np.float64), np.finfo(np.float32)


def signed(values):
    return [sign * value for value in values for sign in (1, -1)]


SPECIAL = signed([
    0.0, 1.0, 0.5, 2.5, INF, F64.max, F32.max, 65504.0, F64.tiny, 5e-324, 1e-310, F32.tiny, 2.0**-149,
    2.0**-14, 2.0**-24, 1e300, 1e38, 1e-300, 1e-38, 1e10, 1e5, 1e19, 1e-10, 1e-5, 1e-3,
]) + [NAN]
WHOLE = signed([2, 3, 4, 5, 8, 10, 13, 20, 50, 100, 500, 1000, 1e6, 1.5, 3.5, 5.5, 10.5, 100.5])
BORDERS = signed([
    709.78, 710.47, 745.13, 708.39, 88.72, 88.73, 89.41, 103.97, 87.33, 11.09, 9.7, 17.3, 1023.9, 1024,
    127.9, 128, 1074.9, 149.5, 15.99, 171.62, 35.04, 26.5, 27.2, 9.19, 10.05, 5.9, 38.4, 37.5, 713.9,
    91.9, 705.3, 741.0, 104.2, 19.99, 20.01, 36.7,
])
NEAR = signed([
    math.pi / 2, math.pi, 3 * math.pi / 2, 11 * math.pi, 355.0, 1e4 * math.pi, 1e6 * math.pi / 2, 5.9e6,
    1e7, 1e9, 1e12, 1e22, 6381956970095103.0 * 2.0**797, np.nextafter(1, 2), np.nextafter(1, 0), 1 + 1e-8,
    1 - 1e-8, np.nextafter(2, 3), np.nextafter(2, 1), 1 - 2**-24, 1 + 2**-23, 0.999, 1.001, 1.4616,
    2.4048, 3.8317, 5.52, 0.8936, 2.1971, 2.3381, 8.0, 7.999, 0.01, 0.1, 0.25, 0.3, 0.4, 0.6, 0.75, 0.85,
    0.9, 0.99, 1.25, 1.9, 2.1, 30.0, 60.0, 200.0,
])
COARSE = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0, INF, -INF, NAN, F64.max, F32.max, -F32.max, F64.tiny,
    5e-324, F32.tiny, 2.0**-149, 1e300, 1e38, -1e38, 1e-300, 1e10, -1e10, 1e5, math.pi / 2, -7.5, 100.0,
]
SHAPES = [
    0.0, 5e-324, 1e-300, 1e-38, 1e-10, 1e-3, 0.5, 1.0, 2.5, 9.5, 19.9, 20.1, 50.0, 171.0, 500.0, 1e4,
    1e5, 1e9, 1e15, 1e30, F32.max, 1e300, F64.max, INF, NAN, -1.0,
]
EXPONENTS = [1.0, 1.0001, 1.5, 2.0, 3.0, 5.0, 17.0, 20.5, 99.0, 1e3, 1e300, NAN, 0.5, -1.0]
STARTS = [
    1.0, 0.5, 0.1, 1e-5, 1e-38, 1e-300, 1.5, 9.0, 50.0, 1e4, 1e10, 1e38, 1e300, NAN, 0.0, -1.0, -0.5, -1.5,
    -2.25, -100.5,
]
PLACES = signed([0.0, 1.0, 0.5, 0.75, 0.999, 1.0000001, 1.5, 2.5, 10.0, 1e5, 1e-5, 1e-300, 1e300, INF]) + [NAN]
DEGREES = [0, 1, 2, 3, 4, 5, 7, 9, 13, 20, 40, 65, 200, 0.5, 2.5, -1, -0.5]


def log_uniform(generator, low, high, count):
    return 10 ** generator.uniform(low, high, count) * generator.choice([-1, 1], count)


def points_of_one(generator):
    """Points of a function of one argument."""
    random = [
        log_uniform(generator, -6, 3, 25), generator.uniform(-12, 12, 25), generator.uniform(-1, 1, 25),
        log_uniform(generator, -30, 30, 10), log_uniform(generator, -307, 307, 10),
    ]
    return [(float(x),) for x in SPECIAL + WHOLE + BORDERS + NEAR + list(np.concatenate(random))]


def points_of_two(name, generator):
    """Pairs of arguments."""
    if "polynomial" in name:
        pairs = [(x, n) for x in PLACES for n in DEGREES]
        return pairs + list(zip(generator.uniform(-1.2, 1.2, 40), generator.integers(0, 60, 40)))
    if name.startswith("igamma"):
        pairs = [(a, x) for a in SHAPES for x in SHAPES]
        finite = [a for a in SHAPES if 0 < a < 1e300]
        pairs += [(a, a + step * math.sqrt(a)) for a in finite for step in (-6, -1, 1, 6) if a > 36]
        pairs += [(a, a * factor) for a in finite for factor in (0.69, 0.9, 1.01, 1.31, 3)]
        return pairs + list(zip(10 ** generator.uniform(-3, 4, 60), 10 ** generator.uniform(-3, 4, 60)))
    if name == "zeta":
        pairs = [(s, q) for s in EXPONENTS for q in STARTS]
        return pairs + list(zip(1 + 10 ** generator.uniform(-3, 2, 60), 10 ** generator.uniform(-3, 3, 60)))
    pairs = [(x, y) for x in COARSE for y in COARSE]
    for reach in (3, 38, 300):
        pairs += list(zip(log_uniform(generator, -reach, reach, 40), log_uniform(generator, -reach, reach, 40)))
    if "pow" in name:
        pairs += list(zip(10 ** generator.uniform(-5, 5, 60), generator.uniform(-60, 60, 60)))
    return pairs


def rounded(number, dtype):
    """The number of the dtype next to it, where there is one."""
    near = float(torch.tensor(number, dtype=torch.float64).to(dtype).double())
    return near if math.isinf(number) or not math.isinf(near) else NAN


def spread(points, generator):
    """The points, with some of them rounded to each of the smaller dtypes."""
    every = dict.fromkeys(np.array(p, dtype=np.float64).tobytes() for p in points)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for place in generator.permutation(len(points))[: len(points) // 3]:
            point = [rounded(float(x), dtype) for x in points[place]]
            every[np.array(point).tobytes()] = None
    return [tuple(np.frombuffer(p).tolist()) for p in every]


def leading(point):
    """A polynomial at infinity."""
    x, n = point[0], math.floor(point[1])
    return INF if x > 0 or n % 2 == 0 else -INF


#: e^x over a root of x: PyTorch divides the infinities.
GROWN = ("i0", "i1", "modified_bessel_i0", "modified_bessel_i1")


# Where PyTorch has no limit, another one, or takes for ever. None leaves the point out.
def limit(name, point):
    """The limit of a function at a point where there is one to choose."""
    if any(math.isnan(x) for x in point):
        return None
    if name.startswith("polygamma") and (point[0] < 0 or math.isinf(point[0])):
        sign = -1 if int(name[9:]) % 2 == 0 else 1
        return sign * 0.0 if point[0] > 0 else None if math.isinf(point[0]) else sign * INF
    if name.startswith("mvlgamma"):
        return None
    if name in ("i1", "i1e", "modified_bessel_i1") and point[0] == 0:
        return point[0]
    if name in GROWN and math.isinf(point[0]):
        return point[0] if name.endswith("1") else INF
    if "polynomial" in name:
        if not math.isinf(point[0]) or point[1] < 1 or name.startswith("shifted"):
            return None
        if name.startswith("laguerre"):
            return leading((-point[0], point[1]))
        return leading(point)
    if name in ("zeta", "igamma", "igammac") and any(x < 0 or math.isinf(x) for x in point):
        return None
    return single(name, point)


def single(name, point):
    """PyTorch's value."""
    arguments = [torch.tensor([x], dtype=torch.float64) for x in point]
    return float(called(torch, name)(*arguments))


def called(module, name):
    """The function of a name, as the test calls it."""
    functional = module.nn.functional
    if name.startswith("polygamma"):
        return lambda x: module.polygamma(int(name[9:]), x)
    if name.startswith("mvlgamma"):
        return lambda x: module.mvlgamma(x, int(name[8:]))
    if name == "gelu_tanh":
        return lambda x: functional.gelu(x, approximate="tanh")
    if name == "div_trunc":
        return lambda x, y: module.div(x, y, rounding_mode="trunc")
    spaces = (module, module.special, functional)
    name = {"igamma": "gammainc", "igammac": "gammaincc"}.get(name, name)
    return next(getattr(space, name) for space in spaces if hasattr(space, name))


def is_left_out(name, point):
    """Where there is no result to hold to: phases that are not known, sums that cancel."""
    if name == "airy_ai":
        return point[0] < -3e10
    if name == "polygamma180":
        return point[0] < 0
    return any(map(math.isnan, point)) and (name == "zeta" or "polynomial" in name)


def table(name, function, points):
    """Points and results."""
    kept = []
    for point in points:
        if is_left_out(name, point):
            continue
        value = reference.evaluate(function, point)
        if name == "atan2" and point[0] == 0:
            value = "pole"
        if isinstance(value, mp.mpf):
            value = float(value)
            if value == 0:
                # The sign of a zero is PyTorch's; the test looks at it where an argument is zero.
                sign = limit(name, point)
                value = 0.0 if sign is None else math.copysign(0.0, sign)
        elif value in ("pole", "nonfinite", "nan"):
            value = limit(name, point)
        else:
            continue
        if any(math.isnan(x) for x in point):
            known = name in ("pow", "float_power", "hypot")
            value = single(name, point) if known else NAN
        if value is not None:
            kept.append((*point, value))
    return np.array(kept)


def main():
    tables = {}
    for name, function in {**reference.UNARY, **reference.BINARY}.items():
        generator = np.random.default_rng(zlib.crc32(name.encode()))
        one = name in reference.UNARY
        points = points_of_one(generator) if one else points_of_two(name, generator)
        tables[name] = table(name, function, spread(points, generator))
        print(name, len(tables[name]), flush=True)
    here = pathlib.Path(__file__).resolve().parent
    np.savez_compressed(here.parent / "real_functions.npz", **tables)


if __name__ == "__main__":
    main()
