"""tests/goldens/semantics/numbers.txt: casts and arithmetic."""

import itertools

from semantics import write

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["uint8", "int8", "int16", "int32", "int64"]
FLOAT8 = ["float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu"]
COMPLEX = ["complex64", "complex128"]
ODD = "[0., -0., 0.5, -0.5, 1.5, -1.5, 2.5, 127.5, 128., 255.9, 256., -129., 300.7, 32768., 65504., 65520., 7e4, 2147483648., 4294967296., 1e10, -1e10, 9.3e18, -9.3e18, 1e20, inf, -inf, nan, 1e-8, 5.9e-8, 1e-40]"
EDGES = {"uint8": "[0, 1, 2, 7, 128, 254, 255]", "int8": "[-128, -127, -7, -1, 0, 1, 7, 127]",
    "int16": "[-32768, -300, -7, -1, 0, 1, 7, 32767]",
    "int32": "[-2147483648, -70000, -7, -1, 0, 1, 7, 2147483647]",
    "int64": "[-9223372036854775808, -5000000000, -7, -1, 0, 1, 7, 9223372036854775807]"}
ARITHMETIC = ["x + 1", "x - 1", "x * 3", "x * x", "-x", "abs(x)", "x // 2", "x // -2", "x % 3",
    "x % -3", "torch.fmod(x, 3)", "torch.fmod(x, -3)", "torch.div(x, 2, rounding_mode='trunc')",
    "torch.div(x, -2, rounding_mode='floor')", "x / 2", "x << 1", "x << 7", "x << 63", "x << 64",
    "x >> 1", "x >> 7", "x >> 64", "x << -1", "x >> -1",
    "x ** 2", "x ** 3", "x ** 0", "x & 5", "x | 8", "x ^ -1", "~x", "x.sum()", "x.prod()",
    "x.cumsum(0)", "x.sign()", "x.clamp(-3, 3)", "x.clamp(min=1)", "x > 0", "x == -1", "x.max()",
    "x.min()", "x.bool()", "x.float()", "x.to(torch.uint8)", "x.to(torch.int8)",
    "x.to(torch.int16)", "x.to(torch.int32)", "x.to(torch.int64)", "x.to(torch.float16)",
    "x.to(torch.bfloat16)", "x.to(torch.complex64)", "x.square()", "1 - x", "5 // x.clamp(min=1)",
    "2 ** x.clamp(0, 6)", "x.logical_not()", "x + True", "x * 1.5", "x.add(2, alpha=3)",
    "x.bitwise_not()", "x.relu()", "x.round()", "x.floor()", "x.remainder(7)", "(x + x) // 2",
    "x.float().to(x.dtype)", "x.argmax()", "x.addcmul(x, x)"]
ZERO = ["x // 0", "x % 0", "torch.fmod(x, 0)", "x / 0", "torch.div(x, 0, rounding_mode='trunc')",
    "torch.div(x, 0, rounding_mode='floor')", "x // torch.zeros_like(x)", "x % torch.zeros_like(x)",
    "0 // x", "0 % x", "x ** -1", "torch.tensor(2) ** x", "x ** torch.tensor(-1)", "x // 0.0",
    "x % 0.0", "x.reciprocal()"]
REALS = "[0., 0.5, -0.5, 1., -1., 2.5, -2.5, 3.5, 7., -7., 1e30, inf, -inf, nan]"
REAL_OPS = ["x + 1", "x - 0.1", "x * 3", "x / 3", "x // 2", "x // -2", "x // 0", "x % 3", "x % -3",
    "x % 0", "torch.fmod(x, 3)", "torch.fmod(x, -3)", "torch.fmod(x, 0)", "torch.remainder(x, inf)",
    "torch.remainder(x, -inf)", "torch.fmod(x, inf)", "x // inf", "x // -inf",
    "torch.div(x, 2, rounding_mode='trunc')", "torch.div(x, -2, rounding_mode='floor')",
    "torch.div(x, 0, rounding_mode='trunc')", "x.round()", "x.floor()", "x.ceil()", "x.trunc()",
    "x.frac()", "x.sign()", "x.signbit()", "abs(x)", "-x", "x.neg()", "x.square()", "x[7:].rsqrt()",
    "x.reciprocal()", "x ** 2", "x ** 3", "x ** 0", "x ** -1", "x ** -2", "x ** 0.0", "2.0 / x",
    "x > 0", "x == x", "x != x", "x >= 0", "x.isnan()", "x.isinf()", "x.isfinite()", "x.isposinf()",
    "x.clamp(-1, 1)", "x.clamp(nan, 1)", "x.clamp(2, 1)", "x.clamp(min=0)", "x.relu()",
    "torch.maximum(x, torch.zeros_like(x))", "torch.minimum(x, torch.full_like(x, nan))",
    "torch.fmax(x, torch.full_like(x, nan))",
    "torch.fmin(x, torch.zeros_like(x))", "x.nan_to_num()", "x.nan_to_num(1, 2, 3)",
    "torch.copysign(x, torch.full_like(x, -0.0))", "x.heaviside(torch.tensor(5., dtype=x.dtype))",
    "x.max()", "x.min()", "x.argmax()", "x.argmin()", "x.sum()", "x[:12].sum()", "x.bool()",
    "x.logical_not()", "x.to(torch.int32)", "x.to(torch.uint8)", "x.to(torch.int64)", "x.sgn()",
    "torch.hypot(x[:9], x[:9])", "x.round(decimals=1)", "x.cumsum(0)", "x[:9].prod()",
    "x.hardshrink(1)", "torch.lerp(x, x + 1, 0.3)", "x.floor_divide(0.3)",
    "torch.xlogy(torch.zeros_like(x), x)", "x.nansum()", "torch.isclose(x, x)",
    "torch.isclose(x, x, equal_nan=True)", "x.all()", "x.any()", "x.count_nonzero()", "x.cummax(0)",
    "x.ldexp(torch.tensor(2))"]
NUMBERS16 = "[0.1, 0.2, 0.3, 1 / 3, 1.0009765625, 1.00048828125, 1.00390625, 1.001953125, 3.14159265, 2049., 2051., 65503.99, 65519.9, 257., 259., 6e-8, 2e-8, 1e-45, -0.1]"
OPS16 = ["x", "x + x", "x * x", "x / 3", "x - 0.1", "x + 1", "x * 0.1", "x.add(x, alpha=0.3)",
    "x.addcmul(x, x)", "x.lerp(x * 2, 0.3)", "x.sqrt()", "x.reciprocal()", "x.sum()", "x.mean()",
    "x.cumsum(0)", "x[:9].prod()", "x ** 2", "x.square()",
    "torch.full((4096,), 0.1, dtype=x.dtype).sum()", "x.to(torch.float32)", "x.to(torch.float64)",
    "x % 0.3", "x // 0.3", "x.dot(x)", "x.var()", "(x * 1000).to(torch.int64)",
    "x.softmax(0).argmax()", "x.clamp(0.3, 2)", "x > 0.1", "x == 0.1", "x.round(decimals=2)"]
Z = "torch.tensor([1+2j, -3+0.5j, 0j, -0.0+1j, 2-2j, 1e20+1e20j, complex(inf, 1), complex(nan, 0), complex(0, -inf)], dtype=torch.{})"
COMPLEX_OPS = ["z + 1", "z - 1j", "z * z", "z * 2", "z * 1j", "z / 2", "z / (1+1j)", "1 / z[:1]",
    "z.conj()", "z.conj() * z", "z.real", "z.imag", "-z[:2]", "z == z", "z != 0", "z.isnan()",
    "z.isfinite()", "z.isinf()", "z.isreal()", "z.bool()", "z.logical_not()", "z ** 0", "z ** 1",
    "z[:5] ** 2", "z[:5].square()", "z.sum()", "z[:5].prod()", "z[:5].cumsum(0)", "z[:5].mean()",
    "z.to(torch.float32)", "z.to(torch.int64)", "z.to(torch.complex128)", "z.nonzero()", "z.all()",
    "z.any()", "z > 0", "z.max()", "z % 2", "z // 2", "abs(z[4])", "z.sgn()[2:3]", "z.clamp(0, 1)",
    "z.floor()", "z.round()", "z.positive()", "z.addcmul(z, z)", "z[:5].dot(z[:5])",
    "torch.vdot(z[:5], z[:5])", "z.lerp(z, 0.5)", "z.masked_fill(z == 0, 9)",
    "z.to(torch.complex64).to(torch.complex128)", "torch.view_as_real(z)", "z.reciprocal()[:3]",
    "torch.isclose(z[:5], z[:5] + 1e-12)", "z[:5].flip(0)", "z.argmax()", "z < z", "z.sign()",
    "z & 1", "z.relu()", "z.trunc()", "torch.complex(z.real, z.imag)",
    "torch.polar(torch.ones(1), torch.zeros(1))", "z.angle()[2:3]", "z.count_nonzero()"]

SECTIONS = {
    "casts of floating-point numbers": ("contents", [f"torch.tensor({ODD}, dtype=torch.{a}).to(torch.{b})"
            for a, b in itertools.product(FLOATS, INTS + ["bool", "uint16", "uint64"])]),
    "bits of casts": ("bits", [f"torch.tensor({ODD}, dtype=torch.{a}).to(torch.{b})" for a,
            b in itertools.product(FLOATS, FLOATS + FLOAT8 + COMPLEX + ["complex32"])]
        + [f"torch.arange(256, dtype=torch.uint8).view(torch.{a}).to(torch.{b})" for a,
            b in itertools.product(FLOAT8, ["float32", "float16", "bfloat16"])]
        + [
            f"(torch.arange(2048, dtype=torch.int32) * 37 + 11).to(torch.float32).mul_({s}).to(torch.{b}).view(torch.uint8).long().sum().to(torch.int32)"
            for s in ("1e-3", "7.7", "1e-9", "1e30") for b in FLOATS[:2] + FLOAT8]
        + [
            f"torch.tensor({EDGES[a]}, dtype=torch.{a}).to(torch.{b})"
            for a in INTS for b in FLOATS + FLOAT8[:2] + ["complex64", "bool", "uint16", "uint32",
                "uint64"]]
        + [f"torch.tensor([True, False]).to(torch.{b})" for b in FLOATS + FLOAT8 + INTS + COMPLEX]),
    "complex to others": ("contents", [
            f"torch.tensor([1.5+2j, -3.7+0j, 1j, nan+0j], dtype=torch.{a}).to(torch.{b})"
            for a in COMPLEX for b in FLOATS + INTS + ["bool"]]),
    "integers": ("contents", [
            f"x = torch.tensor({EDGES[d]}, dtype=torch.{d}); {e}"
            for d in INTS for e in ARITHMETIC]),
    "integers and zero": ("contents", [
            f"x = torch.tensor([1, 2, 5, 7], dtype=torch.{d}); {e}" for d in INTS for e in ZERO] + [
            f"x = torch.tensor([-3, -1], dtype=torch.{d}); {e}" for d in INTS[1:] for e in ZERO]
        + ["torch.tensor(-2147483648, dtype=torch.int32).abs()",
            "torch.tensor(-128, dtype=torch.int8).neg()",
            "torch.tensor(200, dtype=torch.uint8) + torch.tensor(100, dtype=torch.uint8)",
            "torch.tensor(200, dtype=torch.uint8) + 100",
            "torch.tensor([200], dtype=torch.uint8) + 300",
            "torch.tensor([1], dtype=torch.int8) * 200",
            "torch.tensor([1], dtype=torch.uint8) - 2",
            "torch.tensor([0], dtype=torch.uint8) == -256",
            "torch.tensor([0], dtype=torch.uint8) > -1",
            "torch.tensor([1], dtype=torch.int8) == 257",
            "torch.tensor([1], dtype=torch.int32) + 2 ** 40", "torch.tensor([1]) + 2 ** 64",
            "torch.tensor([1]) * 2 ** 63", "torch.arange(5, dtype=torch.uint8).sum()",
            "torch.tensor([100, 100], dtype=torch.int8).sum(dtype=torch.int8)",
            "torch.tensor([True, True]).sum()",
            "torch.tensor([True, True]) + torch.tensor([True, False])",
            "torch.tensor([True, True]) * torch.tensor([True, False])",
            "torch.tensor([True]) / torch.tensor([True])",
            "torch.tensor([True]) // torch.tensor([True])",
            "torch.tensor([True]) % torch.tensor([True])", "torch.tensor([True]) ** 2",
            "torch.tensor([True]) ^ torch.tensor([True])", "torch.tensor([True]) << 1",
            "torch.tensor([True]).neg()", "torch.tensor([True]).abs()",
            "torch.tensor([True, False]).cumsum(0)", "torch.tensor([True, False]).prod()",
            "torch.tensor([True, False]).max()", "torch.tensor([True, False]).argmax()",
            "torch.tensor([True, False]).mean()"]),
    "floating-point numbers": ("bits", [
            f"x = torch.tensor({REALS}, dtype=torch.{d}); {e}" for d in FLOATS for e in REAL_OPS]),
    "rounding in 16 bits": ("bits", [
            f"x = torch.tensor({NUMBERS16}, dtype=torch.{d}); {e}" for d in ("float16",
                "bfloat16") for e in OPS16]),
    "complex numbers": ("bits", [f"z = {Z.format(d)}; {e}" for d in COMPLEX for e in COMPLEX_OPS]),
    "ranges": ("bits", [f"torch.arange({a})" for a in ("5", "1, 5", "0, 5, 2", "5, 0, -2",
                "0.0, 1.0, 0.3", "0, 1, 0.1", "0", "-3", "1, 1", "0, 3, dtype=torch.uint8",
                "0, 2, 0.5, dtype=torch.float16", "0, 5, dtype=torch.float64", "5, 0", "0, 5, 0",
                "0, inf", "0, nan", "1e5, 1e5 + 3", "True", "2 ** 60, 2 ** 60 + 2", "0.1, 2.1, 0.1",
                "-1, 1, 0.25, dtype=torch.bfloat16", "1j", "0, 10, 3, dtype=torch.int8",
                "1, 0.5, -0.1", "3, dtype=torch.bool", "3, dtype=torch.complex64")]
        + [f"torch.linspace({a})" for a in ("0, 1, 5", "0, 1, 1", "0, 1, 0", "1, 0, 4",
                "0, 10, 11, dtype=torch.int64", "0, 1, 3, dtype=torch.float16",
                "-1, 1, 7, dtype=torch.float64", "0, 1j, 3", "0, 1, -1",
                "0, 255, 4, dtype=torch.uint8", "0.1, 0.7, 6", "1e30, -1e30, 4", "0, 1")]
        + [f"torch.full({a})" for a in ("(2,), 3", "(2,), 3.5", "(2,), True", "(2,), 1j",
                "(2,), 3, dtype=torch.float16", "(2,), 300, dtype=torch.uint8",
                "(2,), -1, dtype=torch.uint8", "(2,), nan, dtype=torch.int32", "(), 2", "(0,), 1",
                "(2,), 1e10, dtype=torch.float16", "(-1,), 1", "3, 1", "(2,), torch.tensor(5)",
                "(2,), 1.9, dtype=torch.int64", "(2,), 2 ** 40, dtype=torch.int32",
                "(2,), 2 ** 70")]),
}

write("numbers", SECTIONS)
