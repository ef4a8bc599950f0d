"""Writes cpu_operators.bin: calls of elementwise operators and reductions with the results of the
real PyTorch. Read by crates/corten-cpu/tests/operators.rs, which describes the format.

    python cpu_operators.py
"""
import itertools
import struct
import sys
import warnings
from pathlib import Path

import torch

warnings.simplefilter("ignore")
torch.set_num_threads(1)
NUMBERS = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
           torch.float32: 6, torch.float64: 7, torch.complex32: 8, torch.complex64: 9, torch.complex128: 10,
           torch.bool: 11, torch.bfloat16: 15}
out, pool, pool_index = bytearray(), bytearray(), {}
cases = 0


def text(s):
    b = s.encode()
    return struct.pack("<H", len(b)) + b


def raw(t):
    return bytes(t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()) if t.numel() else b""


def tensor(t):
    """dtype, rank, sizes, strides, offset, and the elements of the whole storage."""
    whole = t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0)
    data = raw(whole)
    return (struct.pack("<BB", NUMBERS[t.dtype], t.dim()) + struct.pack(f"<{2 * t.dim()}q", *t.shape, *t.stride())
            + struct.pack("<qI", t.storage_offset(), len(data)) + data)


def pooled(t):
    b = tensor(t)
    if b not in pool_index:
        pool_index[b] = len(pool_index)
        pool.extend(b)
    return pool_index[b]


def argument(a):
    if a is None:
        return b"\0"
    if isinstance(a, torch.Tensor):
        return b"\1" + struct.pack("<H", pooled(a))
    if isinstance(a, bool):
        return b"\4" + struct.pack("<B", a)
    if isinstance(a, int):
        return b"\2" + struct.pack("<q", a)
    if isinstance(a, float):
        return b"\3" + struct.pack("<d", a)
    if isinstance(a, str):
        return b"\5" + text(a)
    if isinstance(a, (list, tuple)):
        return b"\6" + struct.pack("<B", len(a)) + struct.pack(f"<{len(a)}q", *a)
    if isinstance(a, torch.dtype):
        return b"\7" + struct.pack("<B", NUMBERS[a])
    if isinstance(a, complex):
        return b"\10" + struct.pack("<dd", a.real, a.imag)
    raise TypeError(a)


def case(name, *args, tol=None):
    """Appends one call; `tol` is the allowed relative error, by dtype when not given."""
    global cases
    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")
    schema = op._schema
    given = list(args) + [a.default_value for a in schema.arguments[len(args):]]
    # Keyword-only arguments are positional on the stack of a boxed call.
    names = [a.name for a in schema.arguments]
    count = sum(not a.kwarg_only for a in schema.arguments)
    head = text("aten::" + name) + struct.pack("<B", len(given)) + b"".join(argument(a) for a in given)
    try:
        result = op(*[a.clone() if isinstance(a, torch.Tensor) and base.endswith("_") else a for a in given[:count]],
                    **dict(zip(names[count:], given[count:])))
    except Exception as error:
        body = struct.pack("<B", 255) + text(str(error).split("\n")[0])
    else:
        results = result if isinstance(result, (tuple, list)) else [result]
        body = struct.pack("<B", len(results))
        for r in results:
            body += (struct.pack("<BB", NUMBERS[r.dtype], r.dim()) + struct.pack(f"<{r.dim()}q", *r.shape)
                     + struct.pack("<I", r.numel() * r.element_size()) + raw(r))
    out.extend(struct.pack("<d", -1.0 if tol is None else tol) + head + body)
    cases += 1


inf, nan = float("inf"), float("nan")
F = [-3.5, -2.0, -1.5, -1.0, -0.5, -0.25, -0.0, 0.0, 1e-3, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.0, 7.25, 20.0, nan, inf, -inf]
I = [-7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 100, -128, 127]
C = [complex(a, b) for a in (-1.5, 0.0, 0.5, 2.0) for b in (-0.75, 0.0, 1.25)]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]


def values(dtype, shift=0):
    if dtype.is_complex:
        v = C
    elif dtype.is_floating_point:
        v = F
    elif dtype == torch.bool:
        v = [True, False, True, True, False]
    else:
        v = [abs(x) for x in I] if dtype == torch.uint8 else I
    v = v[shift:] + v[:shift]
    return torch.tensor(v).to(dtype)


ALL = FLOATS + INTS + [torch.bool] + COMPLEX
UNARY = """abs neg reciprocal sqrt rsqrt square exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh
tanh asinh acosh atanh sigmoid erf erfc floor ceil trunc round frac sign sgn conj_physical angle sinc deg2rad rad2deg
logit nan_to_num relu isnan isinf isfinite isposinf isneginf signbit logical_not bitwise_not leaky_relu elu selu celu silu
mish softplus hardtanh hardsigmoid hardswish softshrink hardshrink log_sigmoid gelu relu6 isreal positive""".split()
for name, dtype in itertools.product(UNARY, ALL):
    # PyTorch's vectors give NaN for gelu of infinity, its scalars infinity.
    case(name, values(dtype)[:-2] if name == "gelu" else values(dtype))
for dtype in FLOATS:
    x = values(dtype)
    for decimals in (-1, 0, 1, 3):
        case("round.decimals", x, decimals)
    case("logit", x, 0.1)
    case("nan_to_num", x, 1.0, 2.0, -3.0)
    case("gelu", x[:-2], "tanh")
    case("threshold", x, 0.5, -9.0)
    case("elu", x, 1.5, 0.5, 2.0)
    case("softplus", x, 2.0, 3.0)
    case("hardtanh", x, -0.5, 2.0)
    case("leaky_relu", x, 0.2)
    case("softshrink", x, 0.75)
    case("hardshrink", x, 0.75)
    case("celu", x, 2.0)
case("nan_to_num", torch.tensor([complex(nan, 1), complex(inf, -inf)], dtype=torch.complex64))

BINARY = """add.Tensor sub.Tensor mul.Tensor div.Tensor remainder.Tensor fmod.Tensor pow.Tensor_Tensor atan2 hypot maximum
minimum fmax fmin copysign.Tensor xlogy.Tensor logaddexp logaddexp2 heaviside eq.Tensor ne.Tensor lt.Tensor le.Tensor
gt.Tensor ge.Tensor logical_and logical_or logical_xor bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor
floor_divide clamp_min.Tensor clamp_max.Tensor rsub.Tensor""".split()
for name, dtype in itertools.product(BINARY, ALL):
    x = values(dtype)
    y = values(dtype, 5)
    if not dtype.is_floating_point and not dtype.is_complex and any(k in name for k in ("rem", "fmod", "floor")):
        y = torch.where(y == 0, torch.ones_like(y), y)
    case(name, x, y)
for name in ("bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor"):
    for dtype in INTS:
        x = values(dtype)
        for by in (0, 1, 3, 7, 8, 31, 63, 64, 100) + ((-1,) if dtype != torch.uint8 else ()):
            case(name, x, torch.full_like(x, by if by < 128 else 0))
for mode in ("floor", "trunc", None):
    for dtype in FLOATS + INTS:
        y = values(dtype, 4)
        case("div.Tensor_mode", values(dtype), y if dtype.is_floating_point else torch.where(y == 0, torch.ones_like(y), y), mode)
for name in ("floor_divide", "remainder.Tensor", "fmod.Tensor"):
    case(name, torch.tensor([1, 2]), torch.tensor([1, 0]))
for exponent in (0, 1, 2, 3, -1, 0.5, -0.5, -2, 2.5, -1.5):
    for dtype in FLOATS + [torch.int64, torch.uint8, torch.complex64]:
        # float16 takes powf for square roots, which tells infinities apart from sqrt.
        x = values(dtype)[:-1] if dtype == torch.float16 else values(dtype)
        case("pow.Tensor_Scalar", x, exponent)
for base in (0, 2, 2.5, -1.5):
    for dtype in FLOATS + [torch.int64]:
        case("pow.Scalar", base, values(dtype) if dtype.is_floating_point else torch.tensor([0, 1, 2, 5]))
MIXED = [torch.float32, torch.int64, torch.uint8, torch.bool, torch.float16, torch.float64, torch.complex64]
for a, b in itertools.product(MIXED, MIXED):
    x, y = values(a)[:5], values(b, 3)[:5]
    case("add.Tensor", x, y)
    case("mul.Tensor", x, y)
    case("lt.Tensor", x, y)
    case("div.Tensor", x, y)
    case("add.Tensor", x, y[0])
for dtype in ALL:
    x = values(dtype)
    for scalar in (2, 2.5, True, 1 + 2j):
        if isinstance(scalar, complex) and dtype == torch.bfloat16:
            continue
        case("add.Scalar", x, scalar)
        case("mul.Scalar", x, scalar)
        case("add.Tensor", x, x, scalar)
        case("sub.Tensor", x, x, scalar)
    for low, high in ((-1, 2), (None, 1), (0.5, None), (2, -1), (None, None)):
        case("clamp", x, low, high)
    case("clamp_min", x, 1)
    case("clamp_max", x, 1.5)
    case("addcmul", x, x, values(dtype, 3), 2)
    case("addcdiv", x, x, values(dtype, 3), 2)
for dtype in FLOATS + COMPLEX:
    x, y, z = values(dtype), values(dtype, 3), values(dtype, 7)
    for weight in (0.25, 0.5, 0.75, 2.0):
        case("lerp.Scalar", x, y, weight)
    case("lerp.Tensor", x, y, z)
    case("addcmul", x, y, z, 0.5)
    if not dtype.is_complex:
        case("clamp.Tensor", x, y, z)
    for name in ("sigmoid_backward", "tanh_backward"):
        case(name, x, y)
for dtype in FLOATS:
    g, x = values(dtype, 2), values(dtype)
    for name, args in (("threshold_backward", (0.5,)), ("leaky_relu_backward", (0.1, False)), ("silu_backward", ()),
                       ("mish_backward", ()), ("softplus_backward", (1.0, 20.0)), ("hardtanh_backward", (-1.0, 1.0)),
                       ("hardsigmoid_backward", ()), ("hardswish_backward", ()), ("softshrink_backward", (0.5,)),
                       ("hardshrink_backward", (0.5,)), ("gelu_backward", ("none",)), ("gelu_backward", ("tanh",)),
                       ("logit_backward", (None,))):
        # hardsigmoid_backward takes its constant in single precision.
        if name != "logit_backward" and (name, dtype) != ("hardsigmoid_backward", torch.float64):
            case(name, g, x, *args)
    case("elu_backward", g, 1.5, 1.0, 1.0, False, x)
    case("elu_backward", g, 1.0, 1.0, 1.0, True, x)
    if dtype != torch.float16:  # Its buffer underflows.
        case("log_sigmoid_backward", g, x, torch.exp(-x.abs()))

# Shapes: broadcasting, strides, channels last, empty, rank 0.
gen = torch.Generator().manual_seed(0)
a = torch.randn(3, 4, 5, generator=gen)
shapes = [(a, a), (a, a[0]), (a, a[:, :1]), (a[:, :, :1], a[0, :1]), (a.transpose(0, 2), a.transpose(0, 2)), (a[::2], a[:2].flip(0)),
          (a[..., ::2], a[..., :3]), (a.permute(1, 2, 0), a.permute(1, 2, 0)[:, :, :1]), (a[:0], a[:1]), (a[0, 0, 0], a[0, 0, 1]),
          (a[0, 0, 0], a), (torch.randn(2, 3, 5, 7, generator=gen).to(memory_format=torch.channels_last), torch.randn(1, 3, 1, 1, generator=gen))]
for x, y in shapes:
    for name in ("add.Tensor", "mul.Tensor", "atan2", "lt.Tensor", "maximum"):
        case(name, x, y)
        if x.numel() < 1000:
            case(name, x.to(torch.bfloat16), y.to(torch.bfloat16))
            case(name, (x * 10).to(torch.int32), (y * 10).to(torch.int32))
    case("exp", x)
    case("addcmul", x, y, y, 0.5)
case("add.Tensor", torch.ones(3), torch.ones(4))

# Reductions.
dims = [None, [0], [1], [2], [0, 1], [1, 2], [0, 2], [-1], []]
big = torch.randn(3, 37, 9, generator=gen)
inputs = [a, big, big.transpose(0, 2), big[:, ::2], big.permute(1, 2, 0), a[:0], big.to(torch.bfloat16), big.to(torch.float16), big.double(),
          torch.complex(a, a + 1), (a * 100).to(torch.int32), (a * 100).to(torch.uint8), a > 0, torch.tensor([[[1.0, nan, 3.0]]])]
for x in inputs:
    floating = x.is_floating_point() or x.is_complex()
    exact = 0.0 if x.dtype in (torch.float32, torch.float64) else None
    case("sum", x, tol=exact)
    case("prod", x)
    case("any", x)
    case("all", x)
    case("count_nonzero.dim_IntList", x, [0])
    for d in dims if x.numel() < 500 else ([0], [1], [2], [0, 2]):
        case("sum.dim_IntList", x, d, d == [1], tol=exact)
        if floating and x.numel() < 500:
            case("mean.dim", x, d, False, tol=exact)
            case("var.correction", x, d, 1, False)
            case("std.correction", x, d, 0, True)
            case("var_mean.correction", x, d, None, False)
            for order in (0, 1, 2, 3, 0.5, inf, -inf):
                case("linalg_vector_norm", x, order, d, False)
            if d is not None and d:
                case("logsumexp", x, d, False)
        if not x.is_complex():
            if d is not None:
                case("amax", x, d, False)
                case("amin", x, d, True)
            if x.dtype not in (torch.bfloat16, torch.float16):  # PyTorch rounds its partial results.
                case("nansum", x, d, False)
        case("any.dims", x, d, False)
    for d in (0, 1, 2, -1) if x.numel() < 500 else ():
        case("cumsum", x, d)
        case("cumprod", x, d)
        case("all.dim", x, d, True)
        case("prod.dim_int", x, d, False)
        if not x.is_complex():
            for name in ("max.dim", "min.dim"):
                case(name, x, d, False)
            case("argmax", x, d, True)
            case("argmin", x, d, False)
            case("aminmax", x, d, False)
            case("cummax", x, d)
            case("cummin", x, d)
        if floating:
            case("logcumsumexp", x, d)
    if not x.is_complex():
        case("max", x)
        case("min", x)
        case("argmax", x, None, False)
        case("argmin", x, None, True)
        case("aminmax", x, None, False)
    if not floating:
        case("mean", x)
        case("sum", x, torch.float32)
    else:
        case("sum", x, torch.float64 if not x.is_complex() else torch.complex128)
long = torch.randn(20011, generator=gen)
case("sum", long, tol=0.0)
case("mean", long, tol=0.0)
case("sum", long[::3], tol=0.0)
case("sum.dim_IntList", long[:20000].view(100, 200), [0], tol=0.0)
case("sum.dim_IntList", long[:20000].view(100, 200).t(), [0], tol=0.0)
case("sum.dim_IntList", long[:20000].view(200, 10, 10), [0, 2], tol=0.0)
for n in (1, 7, 8, 9, 31, 33, 1000, 4097):
    case("sum", long[:n], tol=0.0)
case("sum", torch.randn(3000, generator=gen).to(torch.bfloat16), tol=0.0)
case("dist", a, a * 2, 2)
case("isclose", a, a + 1e-9)
case("norm.Scalar", a, 3)

path = Path(__file__).parents[1] / "cpu_operators.bin"
path.write_bytes(b"CGLD" + struct.pack("<II", len(pool_index), cases) + pool + out)
print(cases, "cases,", path.stat().st_size, "bytes", file=sys.stderr)
