"""Operators on every dtype beside the memory roof, and beside PyTorch's, on one thread.

    make bench-dtypes PYTHON_WITH_TORCH=path/to/python
    PYTHONPATH=python python3 benches/dtypes.py --only 'eq*' --all

The roof is the time in which a copy moves as many bytes. A pair of operator and dtype is printed where
it takes more than `--times` that time, or more than `--beside` times PyTorch's where that is installed;
arithmetic explains some of the former, nothing the latter.
"""

import argparse
import fnmatch
import sys
import time

DTYPES = (
    "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
    "float32", "float64", "complex64", "complex128",
)

# Each operator as an expression: x and y are tensors, s a number, c a mask, o a result that is there, i
# positions, z a tensor of the dtype of the second word in the name.
OPERATORS = {
    "add": "x + y", "add_scalar": "x + s", "sub": "x - y", "mul": "x * y", "mul_scalar": "x * s",
    "div": "x / y", "neg": "-x", "abs": "x.abs()", "sign": "x.sign()", "square": "x.square()",
    "eq": "x == y", "ne": "x != y", "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y",
    "eq_scalar": "x == s", "ne_scalar": "x != s", "lt_scalar": "x < s", "ne_zero": "x != 0",
    "ge_scalar": "x >= s", "gt_half": "x > 0.5", "isnan": "t.isnan(x)", "isinf": "t.isinf(x)",
    "isfinite": "t.isfinite(x)", "signbit": "t.signbit(x)", "logical_and": "t.logical_and(x, y)", "logical_or": "t.logical_or(x, y)",
    "logical_xor": "t.logical_xor(x, y)", "logical_not": "t.logical_not(x)",
    "bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y", "bitwise_not": "~x",
    "bitwise_and_scalar": "x & s", "shift_left": "x << s", "shift_right": "x >> s",
    "clamp": "x.clamp(s, u)", "clamp_min": "x.clamp_min(s)", "maximum": "t.maximum(x, y)",
    "minimum": "t.minimum(x, y)", "floor_divide": "x // y", "remainder": "x % y", "fmod": "t.fmod(x, y)",
    "sum": "x.sum()", "sum_rows": "w.sum(1)", "sum_columns": "w.sum(0)", "prod": "x.prod()",
    "mean": "x.mean()", "any": "x.any()", "all": "a.all()", "any_rows": "v.any(1)", "all_columns": "a2.all(0)",
    "any_zeros": "v0.any()", "any_columns": "v.any(0)",
    "count_nonzero": "t.count_nonzero(x)", "count_rows": "t.count_nonzero(w, 1)", "amax": "x.amax()",
    "max": "x.max()", "min": "x.min()", "aminmax": "t.aminmax(x)", "amax_rows": "w.amax(1)",
    "amax_columns": "w.amax(0)", "argmax": "x.argmax()", "argmin": "x.argmin()", "argmax_rows": "w.argmax(1)",
    "max_rows": "w.max(1)", "argmax_columns": "w.argmax(0)",
    "cumsum": "x.cumsum(0)", "cumprod": "x.cumprod(0)", "cumsum_rows": "w.cumsum(1)", "cummax": "x.cummax(0)",
    "where": "t.where(c, x, y)", "where_scalar": "t.where(c, x, s)", "masked_fill": "x.masked_fill(c, s)",
    "masked_fill_": "o.masked_fill_(c, s)", "copy_": "o.copy_(x)", "fill_": "o.fill_(s)",
    "zero_": "o.zero_()", "clone": "x.clone()", "transposed": "w.t().contiguous()", "flip": "x.flip(0)",
    "roll": "x.roll(1000)", "cat": "t.cat([x, y])", "index_select": "w.index_select(0, i)",
    "index": "x[j]", "gather": "w.gather(1, k)", "take": "x.take(j)", "nonzero": "x.nonzero()",
    "masked_select": "x[c]", "index_fill": "w.index_fill(0, i, s)", "scatter": "w.scatter(1, k, w)",
    "index_add": "w.index_add(0, i, w)", "equal": "t.equal(x, x2)", "isclose": "t.isclose(x, y)",
    "lerp": "t.lerp(x, y, 0.5)", "addcmul": "t.addcmul(x, y, y)", "tril": "w.tril()", "repeat": "x.repeat(2)",
    "expand_add": "w + w[0]", "expand_column": "w + w[:, :1]", "every_second": "x[::2].clone()",
    "isin": "t.isin(x, s)", "diff": "x.diff()", "nan_to_num": "x.nan_to_num()", "sqrt": "x.sqrt()",
    **{f"to_{name}": f"x.to(t.{name})" for name in DTYPES},
}


def operands(module, dtype, count):
    """The values that expressions name."""
    generator = module.Generator().manual_seed(0)
    side = 1 << (count.bit_length() // 2)
    numbers = module.randint(0, 2 if dtype == "bool" else 100, (count,), generator=generator)
    x = numbers.to(getattr(module, dtype))
    y = (x.flip(0) if dtype == "bool" else (numbers.flip(0) % 7 + 1).to(x.dtype)).clone()
    w = x.view(-1, side)
    true = module.ones(count, dtype=x.dtype)
    return {
        "t": module, "x": x, "y": y, "w": w, "o": x.clone(), "x2": x.clone(), "a": true, "a2": true.view(-1, side),
        "v": module.zeros(count, dtype=x.dtype).view(-1, side), "v0": module.zeros(count, dtype=x.dtype),
        "s": True if dtype == "bool" else 3, "u": True if dtype == "bool" else 50,
        "c": numbers % 2 == 0, "i": module.randperm(w.shape[0], generator=generator),
        "j": module.randint(0, count, (count,), generator=generator),
        "k": module.randint(0, side, tuple(w.shape), generator=generator),
    }


def nbytes(result):
    """The bytes of all tensors of a result."""
    if isinstance(result, (tuple, list)):
        return sum(map(nbytes, result))
    return result.numel() * result.element_size() if hasattr(result, "element_size") else 0


def best(function, seconds=0.05, most=8):
    """The least time of some calls."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < 2 or (len(times) < most and time.perf_counter() < end):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(expression, names, values):
    """The time of an expression and the bytes that it must move; None where the dtype has no such operator."""
    code = compile(expression, expression, "eval")
    try:
        result = eval(code, values)
    except (RuntimeError, TypeError, NotImplementedError, IndexError, ValueError):
        return None
    read = {name: nbytes(values[name]) for name in names if name in values and name != "t"}
    if "o" in read and "copy" not in expression and "mask" not in expression:
        read = {}
    return best(lambda: eval(code, values)), sum(read.values()) + nbytes(result)


def rows(modules, only, count):
    """Operator, dtype, time over the roof, and time over PyTorch's."""
    for dtype in DTYPES:
        sets = [operands(module, dtype, count) for module in modules]
        copy = best(lambda: sets[0]["o"].copy_(sets[0]["x"]), seconds=0.2, most=30)
        roof = copy / (2 * nbytes(sets[0]["x"]))
        for operator, expression in OPERATORS.items():
            if not fnmatch.fnmatch(operator, only):
                continue
            names = compile(expression, "", "eval").co_names
            results = [measure(expression, names, values) for values in sets]
            if results[0] is None:
                continue
            seconds, moved = results[0]
            beside = seconds / results[1][0] if len(results) > 1 and results[1] else None
            yield operator, dtype, seconds, seconds / (roof * max(moved, 1)), beside


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="*", help="operators, as a pattern")
    parser.add_argument("--count", type=int, default=1 << 24, help="elements of a tensor")
    parser.add_argument("--times", type=float, default=4.0, help="of the roof")
    parser.add_argument("--beside", type=float, default=1.3, help="of PyTorch's time")
    parser.add_argument("--all", action="store_true", help="print every pair")
    options = parser.parse_args()
    import corten

    modules = [corten]
    try:
        import torch

        modules.append(torch)
    except ImportError:
        print("without PyTorch")
    for module in modules:
        module.set_num_threads(1)
    print(f"{'operator':20} {'dtype':10} {'ms':>8} {'of roof':>8} {'of torch':>8}")
    for operator, dtype, seconds, roofs, beside in rows(modules, options.only, options.count):
        if options.all or (beside or 0) > options.beside or (beside is None and roofs > options.times):
            ratio = "" if beside is None else f"{beside:8.2f}"
            print(f"{operator:20} {dtype:10} {seconds * 1e3:8.2f} {roofs:8.1f} {ratio:>8}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
