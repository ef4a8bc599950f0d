"""How far the vector math is from the exact results: the page docs/accuracy.md.

    make accuracy

Every function is called with random numbers of the range that is named, and as many whose bits are
random, and compared with mpmath at 40 digits: the greatest error is written down, in units in the last
place of the exact result (see `units`). It is taken on every instruction set of the processor, in a
process of its own, since an instruction set is chosen when the library is loaded.
"""

import math
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEVELS = ["default", "avx2", "avx512"]
SAMPLES = {"float32": 20_000, "float64": 10_000}

# Bits behind the leading one, and the exponent of the least normal number.
MANTISSA = {"float32": (23, -126, "<f", "<I"), "float64": (52, -1022, "<d", "<Q")}

# Name, range of the arguments, name in mpmath or a function of mpmath and the arguments.
UNARY = [
    ("exp", (-80, 80), "exp"),
    ("exp2", (-120, 120), lambda mp, x: mp.mpf(2) ** x),
    ("expm1", (-10, 10), "expm1"),
    ("log", (0, 10), "log"),
    ("log2", (0, 10), lambda mp, x: mp.log(x) / mp.log(2)),
    ("log10", (0, 10), "log10"),
    ("log1p", (-1, 10), "log1p"),
    ("sigmoid", (-80, 80), lambda mp, x: 1 / (1 + mp.exp(-x))),
    ("sin", (-1000, 1000), "sin"),
    ("cos", (-1000, 1000), "cos"),
    ("tan", (-1000, 1000), "tan"),
    ("asin", (-1, 1), "asin"),
    ("acos", (-1, 1), "acos"),
    ("atan", (-10, 10), "atan"),
    ("sinh", (-20, 20), "sinh"),
    ("cosh", (-20, 20), "cosh"),
    ("tanh", (-10, 10), "tanh"),
    ("asinh", (-100, 100), "asinh"),
    ("acosh", (1, 100), "acosh"),
    ("atanh", (-1, 1), "atanh"),
    ("erf", (-4, 4), "erf"),
    ("erfc", (-4, 8), "erfc"),
    ("rsqrt", (0, 100), lambda mp, x: 1 / mp.sqrt(x)),
    ("sqrt", (0, 100), "sqrt"),
]
BINARY = [
    ("pow", (0, 10), (-20, 20), "power"),
    ("atan2", (-10, 10), (-10, 10), "atan2"),
    ("hypot", (-10, 10), (-10, 10), "hypot"),
]

HEAD = """# How exact the vector math is

Made by `make accuracy` (`benches/accuracy.py`): the greatest error of {singles:,} calls on `float32` and
{doubles:,} on `float64`, half of them with arguments from the range in the table and half with random
bits, against mpmath at 40 digits. The unit is the distance of two neighbouring numbers at the exact
result, so that 0.5 is the best rounding. Results below the least normal number are left out: `sigmoid`,
as PyTorch's, has zero for them. `float16` and `bfloat16` are computed in `float32` and rounded once more.

| function | arguments | {levels} |
|---|---|{rules}|
"""


def rounded(value, dtype):
    """The number of this dtype nearest to a Python float."""
    kind = MANTISSA[dtype][2]
    try:
        return struct.unpack(kind, struct.pack(kind, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def samples(rng, bounds, count, dtype):
    """Numbers of a range, and as many of random bits."""
    _, _, kind, bits = MANTISSA[dtype]
    values = [rounded(rng.uniform(*bounds), dtype) for _ in range(count // 2)]
    while len(values) < count:
        pattern = struct.pack(bits, rng.getrandbits(8 * struct.calcsize(bits)))
        value = struct.unpack(kind, pattern)[0]
        if math.isfinite(value):
            values.append(value)
    return values


def questions():
    """What every function is called with: its arguments per name and dtype."""
    rng = random.Random(0)
    asked = {}
    for dtype, count in SAMPLES.items():
        for name, *ranges, _ in UNARY + BINARY:
            asked[name, dtype] = [samples(rng, bounds, count, dtype) for bounds in ranges]
    return asked


def answer(asked):
    """The results of this process's instruction set."""
    import corten as torch

    return {
        (name, dtype): getattr(torch, name)(
            *(torch.tensor(values, dtype=getattr(torch, dtype)) for values in arguments)
        ).tolist()
        for (name, dtype), arguments in asked.items()
    }


def answers_of(level, folder):
    """`answer` in a process that uses at most this instruction set."""
    results = folder / "results"
    environment = dict(os.environ, CORTEN_CPU_CAPABILITY=level)
    subprocess.run([sys.executable, __file__, folder / "asked", results], env=environment, check=True)
    return pickle.loads(results.read_bytes())


def units(got, exact, dtype, mp):
    """The error in units in the last place of the exact result; infinite where only one of them is
    finite."""
    mantissa, least, *_ = MANTISSA[dtype]
    if mp.isnan(exact) or isinstance(exact, mp.mpc):
        return 0.0 if math.isnan(got) else math.inf
    want = rounded(float(exact), dtype)
    if got == want and (want == 0 or math.isinf(want)) or abs(exact) < mp.mpf(2) ** least:
        return 0.0
    if not math.isfinite(got) or not math.isfinite(want):
        return math.inf
    exponent = int(mp.floor(mp.log(abs(exact), 2)))
    return float(abs(mp.mpf(got) - exact) / mp.mpf(2) ** (exponent - mantissa))


def exact_results(asked):
    """The exact results per name and dtype, `None` where a function has none."""
    import mpmath as mp

    mp.mp.dps = 40

    def one(function, values):
        try:
            return function(mp, *values) if callable(function) else getattr(mp, function)(*values)
        except (ValueError, ZeroDivisionError, OverflowError):
            return None

    return mp, {
        (name, dtype): [
            one(function, [mp.mpf(value) for value in values]) for values in zip(*asked[name, dtype])
        ]
        for name, *_, function in UNARY + BINARY
        for dtype in SAMPLES
    }


def greatest(got, exact, dtype, mp):
    """The greatest error of a function."""
    pairs = ((g, e) for g, e in zip(got, exact) if e is not None)
    return max(units(g, e, dtype, mp) for g, e in pairs)


def page(levels):
    """The whole page."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        asked = questions()
        (folder / "asked").write_bytes(pickle.dumps(asked))
        results = {level: answers_of(level, folder) for level in levels}
    mp, exact = exact_results(asked)
    columns = [(level, dtype) for dtype in SAMPLES for level in levels]
    titles = " | ".join(f"{dtype}, {level}" for level, dtype in columns)
    lines = HEAD.format(
        singles=SAMPLES["float32"], doubles=SAMPLES["float64"], levels=titles,
        rules="|".join(["---"] * len(columns)),
    )
    for name, *ranges, _ in UNARY + BINARY:
        spans = ", ".join(f"{low} to {high}" for low, high in ranges)
        errors = (
            greatest(results[level][name, dtype], exact[name, dtype], dtype, mp)
            for level, dtype in columns
        )
        lines += f"| {name} | {spans} | " + " | ".join(f"{error:.2f}" for error in errors) + " |\n"
    return lines


def available():
    """The instruction sets of this processor, lowest first."""
    import corten as torch

    return LEVELS[: LEVELS.index(torch.backends.cpu.get_cpu_capability().lower()) + 1]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        source, target = map(pathlib.Path, sys.argv[1:])
        target.write_bytes(pickle.dumps(answer(pickle.loads(source.read_bytes()))))
    else:
        (ROOT / "docs" / "accuracy.md").write_text(page(available()))
