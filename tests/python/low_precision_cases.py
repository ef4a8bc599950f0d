"""Calls of products in low precision, fake quantisation and quantisation with numbers as arguments.

``results(torch)`` gives the results by name; those of PyTorch are in tests/goldens/low_precision.npz.
"""

import numpy as np

FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


class Maker:
    """Tensors from a fixed sequence of numbers."""

    def __init__(self, torch):
        self.torch, self.numbers = torch, np.random.RandomState(5)

    def normal(self, *shape, dtype="float32"):
        made = self.numbers.standard_normal(shape).astype(np.float32)
        return self.torch.tensor(made).to(getattr(self.torch, dtype))

    def uniform(self, *shape, dtype="float32"):
        made = self.numbers.uniform(0.1, 1, shape).astype(np.float32)
        return self.torch.tensor(made).to(getattr(self.torch, dtype))

    def integers(self, low, high, *shape, dtype="int32"):
        made = self.numbers.randint(low, high, shape)
        return self.torch.tensor(made).to(getattr(self.torch, dtype))


def weight_products(torch, make):
    for dtype in ("float32", "bfloat16", "float16"):
        for rows in (1, 3, 9):
            # PyTorch crashes where sizes in 16 bits are no multiples of its vectors.
            for n, k in ((64, 64), (7, 37), (130, 256)) if dtype == "float32" else ((64, 64), (128, 256)):
                x, w = make.normal(rows, k, dtype=dtype), make.integers(-128, 128, n, k, dtype="int8")
                yield f"int8 {dtype} {rows}x{k}x{n}", torch._weight_int8pack_mm(x, w, make.uniform(n, dtype=dtype))
    for n, k, group in ((64, 64, 32), (80, 128, 64), (112, 256, 128), (16, 96, 64), (192, 256, 256), (96, 160, 128)):
        w = make.integers(0, 16, n, k)
        packed = torch._convert_weight_to_int4pack_for_cpu(w, 2)
        yield f"packed {n}x{k}", packed
        for dtype in ("float32", "bfloat16", "float16"):
            numbers = make.uniform(-(-k // group), n, 2, dtype=dtype)
            for rows in (1, 2, 5):
                x = make.normal(rows, k, dtype=dtype)
                if k % group == 0:
                    yield f"int4 {dtype} {rows}x{k}x{n} by {group}", torch._weight_int4pack_mm_for_cpu(
                        x, packed, group, numbers)
    for group, dtype in ((32, "float32"), (64, "float32"), (64, "bfloat16")):
        w, bias = make.integers(0, 256, 24, 32, dtype="uint8"), make.normal(24)
        scales = make.uniform(24, 64 // group)
        for one in (None, bias):
            packed = torch._dyn_quant_pack_4bit_weight(w, scales, one, group, 64, 24)
            yield f"dynamic packed {group} {dtype} {one is None}", packed
            x = make.normal(5, 64, dtype=dtype)
            yield f"dynamic {group} {dtype} {one is None}", torch._dyn_quant_matmul_4bit(x, packed, group, 64, 24)


def scaled_products(torch, make):
    scales = make.uniform(1), make.uniform(1)[0]
    rows, columns = make.uniform(5, 1), make.uniform(1, 33)
    for one in FLOAT8:
        for other in FLOAT8[:2]:
            a = make.normal(5, 48).to(getattr(torch, one))
            b = make.normal(33, 48).to(getattr(torch, other)).t()
            for out in ("float32", "bfloat16", "float16", None):
                dtype = getattr(torch, out) if out else None
                name = f"{one} {other} {out}"
                yield f"scaled {name}", torch._scaled_mm(a, b, *scales, out_dtype=dtype).float()
                yield f"rows {name}", torch._scaled_mm(a, b, rows, columns, out_dtype=dtype).float()
            bias = make.normal(33, dtype="bfloat16")
            yield f"bias {one} {other}", torch._scaled_mm(a, b, *scales, bias=bias, out_dtype=torch.bfloat16)
            yield f"v2 {one} {other}", torch._scaled_mm_v2(
                a, b, [rows], [1], [0], [columns], [1], [0], bias, torch.float32)
    factor = torch.tensor(2.0)
    a, b = make.normal(5, 48).to(torch.float8_e4m3fn), make.normal(33, 48).to(torch.float8_e4m3fn).t()
    yield "scaled result", torch._scaled_mm(a, b, *scales, scale_result=factor).float()
    yield "scaled result by name", torch._scaled_mm(
        a, b, *scales, scale_result=factor, out_dtype=torch.float8_e4m3fn).float()
    yield "unscaled result", torch._scaled_mm(a, b, *scales, scale_result=factor, out_dtype=torch.float32)


def parameters(torch, make):
    x = make.normal(40)
    for name, one in (("all", x), ("positive", x.abs()), ("negative", -x.abs()), ("zero", x * 0),
                      ("small", x * 1e-4), ("tiny", x * 1e-7), ("large", x * 1e6), ("double", x.double()), ("int", (x * 10).int())):
        for reduced in (False, True):
            yield f"per tensor {name} {reduced}", torch.tensor(
                torch._choose_qparams_per_tensor(one, reduced), dtype=torch.float64)
    for bits in (2, 4, 8):
        for ratio in (0.0, 0.16, 0.5):
            for numel in (40, 11):
                yield f"optimised {bits} {ratio} {numel}", torch.cat(
                    torch.choose_qparams_optimized(x, numel, 50, ratio, bits))
    yield "saturated", torch._saturate_weight_to_fp16(torch.tensor([[1e6, -1e6, 1e-8, 3.00001]]))


def fake_quantisation(torch, make):
    aten = torch.ops.aten
    x = make.normal(6, 5) * 2
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        one = x.to(getattr(torch, dtype))
        for scale, zero, least, greatest in ((0.1, 0, 0, 255), (0.07, 10, -128, 127), (0.5, 3, 0, 15)):
            name = f"{dtype} {scale}"
            found = aten.fake_quantize_per_tensor_affine_cachemask(one, scale, zero, least, greatest)
            yield f"fake {name}", found[0]
            yield f"fake mask {name}", found[1]
            found = torch._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
                one, torch.tensor(scale), torch.tensor(zero), torch.tensor([1]), least, greatest)
            yield f"fake tensors {name}", found[0]
        for axis, size in ((0, 6), (1, 5)):
            scales = make.uniform(size)
            for zeros in (make.integers(0, 9, size), make.uniform(size) * 5):
                found = aten.fake_quantize_per_channel_affine_cachemask(one, scales, zeros, axis, -20, 20)
                name = f"{dtype} {axis} {zeros.dtype.is_floating_point}"
                yield f"fake channels {name}", found[0]
                yield f"fake channels mask {name}", found[1]
    yield "fake channels strided", aten.fake_quantize_per_channel_affine_cachemask(
        x.t(), make.uniform(6), make.integers(0, 9, 6), 1, -20, 20)[0]


def learned_quantisation(torch, make):
    x, weights = make.normal(6, 5) * 3, make.normal(6, 5)
    for factor in (1.0, 0.3):
        for zero in (3.0, 3.4, 300.0):
            inputs = [one.clone().requires_grad_() for one in (x, torch.tensor([0.1]), torch.tensor([zero]))]
            made = torch._fake_quantize_learnable_per_tensor_affine(*inputs, 0, 31, factor)
            yield f"learned {factor} {zero}", made.detach()
            for number, grad in enumerate(torch.autograd.grad((made * weights).sum(), inputs)):
                yield f"learned grad {number} {factor} {zero}", grad
        for axis, size in ((0, 6), (1, 5)):
            inputs = [one.clone().requires_grad_() for one in (x, make.uniform(size), make.uniform(size) * 5)]
            made = torch._fake_quantize_learnable_per_channel_affine(*inputs, axis, -4, 7, factor)
            yield f"learned channels {factor} {axis}", made.detach()
            for number, grad in enumerate(torch.autograd.grad((made * weights).sum(), inputs)):
                yield f"learned channels grad {number} {factor} {axis}", grad


def observed_quantisation(torch, make):
    for per_row in (False, True):
        for symmetric in (False, True):
            for on, quantised in ((1, 1), (1, 0), (0, 1)):
                size = 4 if per_row else 1
                low, high = torch.full((size,), float("inf")), torch.full((size,), -float("inf"))
                scale, zero = torch.ones(size), torch.zeros(size, dtype=torch.int32)
                for step in range(3):
                    x = (make.normal(4, 6) * (step + 1) + step).requires_grad_()
                    made = torch.fused_moving_avg_obs_fake_quant(
                        x, torch.tensor([on]), torch.tensor([quantised]), low, high, scale, zero, 0.01, -128, 127,
                        0, per_row, symmetric)
                    name = f"{per_row} {symmetric} {on} {quantised} {step}"
                    yield f"observed {name}", made.detach()
                    yield f"observed grad {name}", torch.autograd.grad(made.sum(), x)[0]
                    for kind, one in (("low", low), ("high", high), ("scale", scale), ("zero", zero)):
                        yield f"observed {kind} {name}", one.clone()


def decomposed(torch, make):
    ops = torch.ops.quantized_decomposed
    x = make.normal(6, 8) * 3
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "float8_e4m3fn", "float8_e5m2"):
        one = getattr(torch, dtype)
        least = -100 if dtype not in ("uint8", "uint16") else 0
        q = ops.quantize_per_tensor(x, 0.07, 5, least, 100, one)
        yield f"quantised {dtype}", q.float()
        yield f"quantised tensor {dtype}", ops.quantize_per_tensor.tensor(
            x.bfloat16(), torch.tensor(0.07), torch.tensor(5), least, 100, one).float()
        yield f"dequantised {dtype}", ops.dequantize_per_tensor(q, 0.07, 5, least, 100, one)
        yield f"dequantised half {dtype}", ops.dequantize_per_tensor.tensor2(
            q, torch.tensor(0.07), torch.tensor(5), torch.tensor(least), torch.tensor(100), one, out_dtype=torch.float16)
        if dtype in ("int8", "uint8", "int16"):
            for axis, size in ((0, 6), (1, 8)):
                scales, zeros = make.uniform(size, dtype="float64"), make.integers(0, 5, size, dtype="int64")
                q = ops.quantize_per_channel(x, scales, zeros, axis, least, 100, one)
                yield f"channels {dtype} {axis}", q
                yield f"channels back {dtype} {axis}", ops.dequantize_per_channel(
                    q, scales, zeros, axis, least, 100, one)
                yield f"channels back without {dtype} {axis}", ops.dequantize_per_channel(
                    q, scales, None, axis, least, 100, one, out_dtype=torch.float16)
        for choice in (ops.choose_qparams.tensor, ops.choose_qparams_symmetric.tensor):
            for kind, some in (("all", x), ("positive", x.abs()), ("half", x.half())):
                if not dtype.startswith("float"):
                    for number, found in enumerate(choice(some, least, 100, 1e-5, one)):
                        yield f"{choice.__name__} {dtype} {kind} {number}", found
    for kind in ("float32", "float16", "bfloat16"):
        some = x.to(getattr(torch, kind))
        for number, found in enumerate(ops.choose_qparams_per_token(some, torch.int8)):
            yield f"token {kind} {number}", found
        scales, zeros = ops.choose_qparams_per_token_asymmetric(some, torch.int8)
        yield f"token scales {kind}", scales
        yield f"token zeros {kind}", zeros
        q = ops.quantize_per_token(some, scales, zeros, -128, 127, torch.int8)
        yield f"token quantised {kind}", q
        yield f"token back {kind}", ops.dequantize_per_token(q, scales, zeros, -128, 127, torch.int8, torch.float32)
    scales, zeros = make.uniform(6, 2), make.integers(-3, 3, 6, 2)
    q = ops.quantize_per_channel_group(x, scales, zeros, -8, 7, torch.int8, 4)
    yield "group", q
    yield "group back", ops.dequantize_per_channel_group(q, scales, zeros, -8, 7, torch.int8, 4, torch.float32)
    yield "group back without", ops.dequantize_per_channel_group(q, scales, None, -8, 7, torch.int8, 4, torch.float16)
    some = x.clone().requires_grad_()
    made = ops.fake_quant_per_channel(some, make.uniform(8), make.integers(0, 4, 8, dtype="int64"), 1, -3, 4)
    yield "fake of channels", made.detach()
    yield "fake of channels grad", torch.autograd.grad((made * x).sum(), some)[0]
    yield "converted", ops.convert_element_type.no_fuse(x, torch.int8)


def grouped(torch, make):
    a, b = make.normal(12, 16), make.normal(3, 16, 8)
    ends = torch.tensor([2, 2, 9], dtype=torch.int32)
    yield "grouped rows", torch._grouped_mm(a, b, ends)[:9]
    yield "grouped stacks", torch._grouped_mm(a.reshape(3, 4, 16), b)
    yield "grouped inner", torch._grouped_mm(a.t().contiguous().t()[:, :12], make.normal(12, 8), torch.tensor([4, 4, 12], dtype=torch.int32))


def results(torch):
    make = Maker(torch)
    found = {}
    for family in (weight_products, scaled_products, parameters, fake_quantisation, learned_quantisation,
                   observed_quantisation, decomposed, grouped):
        found.update(family(torch, make))
    return found
