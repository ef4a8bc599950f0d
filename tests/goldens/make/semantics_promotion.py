"""tests/goldens/semantics/promotion.txt"""

import itertools

from semantics import write
from tables import DTYPES, USUAL

BINARY = ["a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "a ** b", "a == b", "a < b",
    "a & b", "a << b", "torch.maximum(a, b)", "torch.atan2(a, b)", "torch.logical_and(a, b)",
    "torch.where(torch.tensor(True), a, b)", "torch.div(a, b, rounding_mode='trunc')",
    "torch.fmod(a, b)", "torch.true_divide(a, b)", "torch.float_power(a, b)"]
LISTS = ["torch.cat([a, b])", "torch.stack([a, b])", "torch.result_type(a, b)", "torch.dot(a, b)",
    "torch.addcmul(a, a, b)", "torch.lerp(a, a, b)", "torch.complex(a, b)", "torch.hypot(a, b)",
    "torch.isclose(a, b)", "torch.outer(a, b)", "torch.xlogy(a, b)", "torch.copysign(a, b)"]
IN_PLACE = ["a.add_(b)", "a.mul_(b)", "a.div_(b)", "a.pow_(b)", "a.floor_divide_(b)", "a.eq_(b)",
    "a.copy_(b)", "a.bitwise_and_(b)", "a.masked_fill_(a == a, b[0])",
    "a.__setitem__(0, b[0]) or a", "a.index_copy_(0, torch.tensor([0]), b)",
    "torch.add(b, b, out=a)", "torch.eq(b, b, out=a)", "torch.sqrt(b, out=a)"]
NUMBERS = ["True", "2", "1.5", "1j", "np.float32(1)", "np.int8(1)"]
UNARY = ["x.sum()", "x.sum(0)", "x.prod()", "x.mean()", "x.cumsum(0)", "x.cumprod(0)", "x.max()",
    "x.argmax()", "x.all()", "x.any(0)", "x.var()", "x.norm()", "x.abs()", "-x", "~x", "x.sqrt()",
    "x.exp()", "x.sin()", "x.floor()", "x.round()", "x.sign()", "x.sgn()", "x.square()",
    "x.reciprocal()", "x.sigmoid()", "x.relu()", "x.isnan()", "x.isfinite()", "x.logical_not()",
    "x.signbit()", "x.angle()", "x.real", "x.conj()", "x.nonzero()", "x.count_nonzero()",
    "x.clone()", "x.float()", "x.nan_to_num()", "x.softmax(0)", "x.log_softmax(0)",
    "x.logsumexp(0)", "x.erf()", "x.cumsum(0, dtype=torch.float64)",
    "x.sum(dtype=torch.int8)", "x.sum(dtype=torch.float32)", "x.mean(dtype=torch.float64)",
    "x.softmax(0, dtype=torch.float64)", "x.prod(dtype=torch.complex64)", "x.nansum()", "x.amax(0)",
    "x.aminmax()[0]", "x.std()", "x.trunc()", "x.frac()", "x.clamp(0, 1)", "x.clamp(0.5, 1)",
    "x.clamp(max=1)", "x.deg2rad()", "x.tril()" ,
    "torch.zeros_like(x)", "torch.empty_like(x, dtype=torch.int8)", "x.new_zeros(2)",
    "x.new_tensor([1.5])", "x.new_full((2,), 1.5)", "torch.full_like(x, 2.5)", "torch.rand_like(x)",
    "torch.arange(2, dtype=X)", "torch.linspace(0, 1, 2, dtype=X)", "torch.eye(2, dtype=X)",
    "torch.tensor([1], dtype=X)", "torch.tensor(1.5, dtype=X)", "torch.tensor(True, dtype=X)",
    "torch.as_tensor(x)", "torch.is_floating_point(x)", "x.is_complex()", "x.is_signed()",
    "X.is_floating_point", "X.is_complex", "X.is_signed", "X.itemsize", "X.to_real()",
    "X.to_complex()", "x.type()", "torch.finfo(X).bits", "torch.iinfo(X).max", "torch.iinfo(X).min",
    "torch.finfo(X).eps", "torch.finfo(X).max", "torch.finfo(X).tiny", "x.element_size()",
    "type(x.item()).__name__",
    "x.bool()", "x.repeat(2)", "x.flip(0)", "x.unique()", "x.tolist()", "x @ x", "x.dot(x)",
    "x.view(1, 1) @ x.view(1, 1)", "torch.isin(x, x)", "x.diff()", "x.bincount()",
    "torch.nn.functional.relu(x)", "torch.nn.functional.one_hot(x)", "torch.nn.functional.gelu(x)",
    "x.log1p()", "x.masked_select(x == x)", "x.gather(0, torch.tensor([0]))",
    "x.index_select(0, torch.tensor([0]))", "x[0]", "x[x == x]", "x.numpy().dtype.name"]
ONES = "torch.ones(1, dtype={})"
ZERO_DIM = "torch.ones((), dtype={})"


def rows(expressions, a, b):
    """Each expression with `a` of each dtype in turn and `b` of all dtypes."""
    return [
        f'row("{e}", a="{a.format(short)}", b="{b.format("X")}")'
        for e in expressions for short in USUAL]


def all_rows(expressions, a, b):
    return [
        f'row("{e}", ALL, a="{a.format(short)}", b="{b.format("X")}")'
        for e in expressions for short in DTYPES]


def number_rows(expressions, numbers, ranks=(ONES,)):
    return [
        f'row("{e}", x="{x.format("X")}", n="{n}")'
        for e in expressions for n in numbers for x in ranks]


WITH_NUMBER = ["x + n", "x * n", "n - x", "x / n", "n / x", "x // n", "x % n", "x ** n", "n ** x",
    "x == n", "x & n", "torch.where(x == x, x, n)", "torch.result_type(x, n)", "x.clone().add_(n)",
    "x.clone().div_(n)", "x.clone().fill_(n)", "torch.full_like(x, n)",
    "torch.maximum(x, torch.tensor(n))", "x.clamp(n)", "torch.add(x, x, alpha=n)",
    "x.masked_fill(x == x, n)", "torch.remainder(n, x)", "torch.pow(n, x)", "x.lerp(x, n)"]
DEFAULTS = ["float64", "float16", "bfloat16"]
AFTER_DEFAULT = ["torch.tensor(1.0)", "torch.tensor(1j)", "torch.tensor([1, 2.5])",
    "torch.tensor([])", "torch.zeros(1)", "torch.arange(3.)", "torch.arange(3)",
    "torch.linspace(0, 1, 2)", "torch.full((1,), 1.0)", "torch.full((1,), 1j)",
    "torch.full((1,), 1)", "torch.ones(1, dtype=torch.long) / 2",
    "torch.ones(1, dtype=torch.long) + 1.5", "torch.ones(1, dtype=torch.long) * 1j",
    "torch.ones(1, dtype=torch.bool).sqrt()",
    "torch.rand(1)", "torch.empty(0)", "torch.eye(1)",
    "torch.tensor(1.0) + torch.ones(1, dtype=torch.float32)", "torch.Tensor([1])",
    "torch.get_default_dtype()", "torch.tensor(np.float32(1))", "torch.tensor(np.ones(1))",
    "torch.as_tensor([1.5])", "torch.nn.Linear(1, 1).weight",
    "torch.mean(torch.ones(1, dtype=torch.float32))", "torch.scalar_tensor(1.0)",
    "torch.zeros(1, dtype=complex)", "torch.zeros(1, dtype=float)", "torch.logspace(0, 1, 2)",
    "torch.complex(torch.ones(1), torch.ones(1))", "torch.result_type(1.0, 1)",
    "torch.result_type(torch.tensor(1), 1j)", "torch.randn(1)"]
PAIR_WORDS = [("uint8", "uint16"), ("bool", "uint64"), ("int64", "uint64"), ("complex64", "uint16"),
    ("float8_e5m2", "float32"), ("float8_e5m2", "float8_e4m3fn"), ("bool", "bool"), ("bool",
        "float32"), ("float32", "complex64"), ("int64", "float32"), ("uint16", "uint16"), ("float8_e5m2",
        "float8_e5m2"), ("float16", "int64"), ("complex64", "complex64"), ("complex64", "bool"), ("int64",
        "complex64")]
WORD_CALLS = BINARY + LISTS[:8] + IN_PLACE + ["~a", "-a", "a.mean()", "a.exp_()", "a.sqrt_()",
    "torch.promote_types(a.dtype, b.dtype)", "a.max()", "a.floor()", "a.sign()", "a.argmax()",
    "a.var()", "a.cumsum(0)", "torch.exp(a, out=b)", "a.sum(dtype=b.dtype)", "a.to(b.dtype)",
    "a.lt(b)", "a @ b"]

SECTIONS = {
    "promote_types": ("text", [f'row("torch.promote_types({s}, X)", ALL)' for s in DTYPES]),
    "can_cast": ("text", [f'row("int(torch.can_cast({s}, X))", ALL)' for s in DTYPES]),
    "tensors": ("text", rows(BINARY + LISTS, ONES, ONES)),
    "tensor and 0-d tensor": ("text", rows(BINARY + LISTS[2:3], ONES, ZERO_DIM)),
    "0-d tensor and tensor": ("text", rows(BINARY[:8] + LISTS[2:3], ZERO_DIM, ONES)),
    "0-d tensors": ("text", rows(BINARY[:9] + LISTS[2:3], ZERO_DIM, ZERO_DIM)),
    "operators for every dtype": ("text", all_rows(
        ["a + b", "torch.where(torch.tensor(True), a, b)", "torch.cat([a, b])",
                "torch.stack([a, b])", "torch.result_type(a, b)", "a.copy_(b)", "a.to(b.dtype)"],
            ONES, ONES)
        + all_rows(["torch.result_type(a, b)"], ONES, ZERO_DIM) + all_rows(["torch.result_type(a, b)"],
            ZERO_DIM, ZERO_DIM)),
    "in-place and out=": ("text", rows(IN_PLACE, ONES, ONES)),
    "numbers": ("text", number_rows(WITH_NUMBER, NUMBERS, (ONES, ZERO_DIM))),
    "one operand": ("text", [f'row("{e}", x="{ONES.format("X")}")' for e in UNARY]),
    "another default dtype": ("text", [
            f"torch.set_default_dtype(torch.{d}); {e if 'get_default' in e or 'result_type' in e else '(' + e + ').dtype'}"
            for d in DEFAULTS for e in AFTER_DEFAULT]
        + [f"torch.set_default_dtype(torch.{d}); torch.get_default_dtype()" for d in ("float32",
                "int64", "complex64", "bool", "float8_e5m2")]
        + ["torch.set_default_dtype(1)",
            "torch.set_default_dtype(torch.float64); repr(torch.ones(1))",
            "torch.set_default_dtype(torch.float64); repr(torch.ones(1, dtype=torch.float32))"]
        + [
            f'torch.set_default_dtype(torch.{d}); row("{e}", x="{ONES.format("X")}", n="{n}")'
            for d in DEFAULTS for e in ("x + n", "x / n", "torch.result_type(x, n)",
                "x.sqrt()") for n in ("2", "1.5", "1j")]),
    "inferred from data": ("text", [f"torch.tensor({d}).dtype" for d in ("1", "1.0", "True", "1j",
                "[]", "[1, 2.5]", "[True, 2]", "[True, 1.5]", "[1, 2j]", "[[1], [2.0]]", "[[], []]",
                "np.float16(1)", "np.float64(1)", "np.int8(1)", "np.bool_(True)",
                "np.complex128(1)", "[np.float64(1)]", "[np.float32(1), 2]", "[np.int8(1)]",
                "np.ones(2, dtype=np.int16)", "np.uint16(1)",
                "[torch.tensor(1.0, dtype=torch.float64)]",
                "[torch.tensor(1), 2.5]", "2 ** 63", "2 ** 64", "-2 ** 63 - 1", "None", "'a'",
                "[None]", "[1, 'a']", "[[1], [2, 3]]", "[1, [2]]", "(1, 2)", "range(3)", "{1: 2}",
                "object()", "[[[]]]", "np.array('a')", "nan", "torch.tensor(2)", "b'ab'",
                "bytearray(b'ab')", "np.zeros((2, 0))", "[2 ** 40]", "[1e400]", "True, dtype=float",
                "1.5, dtype=int", "1, dtype=bool", "1, dtype=complex", "1, dtype='float'",
                "300, dtype=torch.uint8", "-1, dtype=torch.uint8", "1.5, dtype=torch.int64",
                "1j, dtype=torch.float32", "[1, 2], dtype=torch.bool", "nan, dtype=torch.int32",
                "1e10, dtype=torch.int32", "70000., dtype=torch.float16")]),
    "words": ("text", [
            f"a, b = torch.ones(1, dtype=torch.{p}), torch.ones(1, dtype=torch.{q}); ({c}).dtype"
            for p, q in PAIR_WORDS for c in WORD_CALLS if "promote_types" not in c]
        + [f"torch.promote_types(torch.{p}, torch.{q})" for p, q in PAIR_WORDS]),
}

write("promotion", SECTIONS)
