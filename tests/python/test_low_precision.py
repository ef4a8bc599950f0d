"""Products in low precision, fake quantisation and quantisation with numbers as arguments, beside PyTorch's."""

import pathlib
import sys
import unittest
import warnings

import numpy as np

from low_precision_cases import results
from module_under_test import torch

if torch.__name__ == "torch":
    import torch.ao.quantization.fx._decomposed  # noqa: F401 - defines operators

GOLDENS = pathlib.Path(__file__).parent.parent / "goldens"
INT32 = torch.int32


def array(tensor):
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def tolerance(name):
    """How far a result may be from PyTorch's, in parts of the greatest one."""
    if "bfloat16" in name and not name.startswith(("quantised", "token")):
        return 2e-2 if name.startswith(("int4", "int8")) else 1e-2
    if "float8" in name and name.endswith("None"):
        return 0.13
    if name.startswith("scaled result"):
        return 0.13
    if "float16" in name:
        return 2e-3
    return 2e-6


class Results(unittest.TestCase):
    def test_results(self):
        expected = np.load(GOLDENS / "low_precision.npz")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = results(torch)
        self.assertEqual(set(found), set(expected.files))
        wrong = []
        for name, one in found.items():
            one, other = array(one), expected[name]
            if one.shape != other.shape or one.dtype != other.dtype:
                wrong.append((name, one.shape, other.shape, one.dtype, other.dtype))
            elif other.dtype.kind in "iub":
                if (one != other).any():
                    wrong.append((name, int((one != other).sum()), other.size))
            elif other.size:
                finite = np.isfinite(other)
                same = np.array_equal(finite, np.isfinite(one))
                one, other = (np.where(finite, array, 0) for array in (one, other))
                error = np.abs(one - other).max() / (np.abs(other).max() or 1)
                if not same or error > tolerance(name):
                    wrong.append((name, error))
        self.assertEqual(wrong, [])


class Refusals(unittest.TestCase):
    def check(self, error, message, function, *arguments, **options):
        with self.assertRaisesRegex(error, message):
            function(*arguments, **options)

    def test_products_of_weights(self):
        x, w, s = torch.ones(3, 64), torch.ones(64, 64, dtype=torch.int8), torch.ones(64)
        check, int8 = self.check, torch._weight_int8pack_mm
        check(RuntimeError, "expect A to be either 32-bit or 16-bit float", int8, x.double(), w, s.double())
        check(RuntimeError, "expect B to be int8", int8, x, w.float(), s)
        check(RuntimeError, "expect B to be contiguous", int8, x, w.t(), s)
        check(RuntimeError, r"expect B.size\(1\) == 32", int8, x[:, :32], w, s)
        check(RuntimeError, "expect scales to be 1d tensor with size 64", int8, x, w, s[:32])
        check(RuntimeError, "expected scalar type Float but found BFloat16", int8, x, w, s.bfloat16())
        check(RuntimeError, "contiguous on the last dimension", int8, x.t().contiguous().t(), w, s)
        check(IndexError, "Dimension out of range", int8, x[0], w, s)
        self.assertEqual(int8(x[:0], w, s).shape, (0, 64))
        convert, four = torch._convert_weight_to_int4pack_for_cpu, torch._weight_int4pack_mm_for_cpu
        w = torch.ones(64, 64, dtype=INT32)
        check(RuntimeError, "expect N to be dividable by 16", convert, w[:15], 2)
        check(RuntimeError, "expect K to be dividable by 2", convert, w[:, :31], 2)
        check(RuntimeError, "expect weight to be kInt", convert, w.long(), 2)
        packed, numbers = convert(w, 2), torch.ones(2, 64, 2)
        check(RuntimeError, "expect qGroupSize to be 32, 64, 128 or 256, got 16", four, x, packed, 16, numbers)
        check(RuntimeError, "expect A to be contiguous", four, x[:, :32], packed, 32, numbers)
        check(RuntimeError, "expect B to be uint8", four, x, w, 32, numbers)
        check(RuntimeError, r"3d tensor with sizes \[:, 64, 2\]", four, x, packed, 32, numbers[:, :, 0])
        check(RuntimeError, "expected scalar type Float but found BFloat16", four, x, packed, 32, numbers.bfloat16())
        for function, arguments in (
            (torch._weight_int4pack_mm, (x, packed, 32, numbers)), (torch._convert_weight_to_int4pack, (w, 2)),
            (torch._weight_int4pack_mm_with_scales_and_zeros, (x, packed, 32, numbers, numbers)),
            (torch._mixed_dtypes_linear, (x, x, x)),
        ):
            check(NotImplementedError, "Could not run 'aten::" + function.__name__, function, *arguments)

    def test_products_with_scales(self):
        a = torch.ones(4, 16).to(torch.float8_e4m3fn)
        b, one = torch.ones(32, 16).to(torch.float8_e4m3fn).t(), torch.tensor(0.5)
        rows, columns, mm, v2 = torch.ones(4, 1), torch.ones(1, 32), torch._scaled_mm, torch._scaled_mm_v2
        check = self.check
        for arguments in (
            (a.float(), b, one, one), (a, b, rows, one), (a, b, rows[:, 0], columns[0]), (a, b, rows[:2], columns),
            (a, b, one.double(), one), (a, b, rows.t(), columns.t()),
        ):
            check(ValueError, "Invalid scaling configuration", mm, *arguments)
        check(RuntimeError, "mat1 must be a matrix", mm, a[0], b, one, one)
        check(RuntimeError, r"shapes cannot be multiplied \(4x16 and 8x32\)", mm, a, b[:8], one, one)
        check(RuntimeError, "Bias must be size 32 but got 31", mm, a, b, one, one, bias=torch.ones(31))
        check(ValueError, "out_dtype must match output matrix type", mm, a, b, one, one, out_dtype=torch.bfloat16,
              out=torch.empty(0))
        out = torch.empty(0)
        self.assertIs(mm(a, b, one, one, out=out, out_dtype=torch.float32), out)
        self.assertEqual(out.tolist(), [[4.0] * 32] * 4)
        check(ValueError, "CPU does not support swizzle", v2, a, b, [one], [0], [1], [one], [0], [0], None, None)
        check(ValueError, "unsupported recipe", v2, a, b, [rows], [1], [0], [one], [0], [0], None, None)
        check(ValueError, r"only supports contraction_dim=\(1, 0\)", v2, a, b, [one], [0], [], [one], [0], [], None,
              None, [0])
        check(ValueError, "scale_a must have 4 Float elements, got 2", v2, a, b, [rows[:2]], [1], [0], [columns], [1],
              [0], None, None)

    def test_decomposed(self):
        ops, x = torch.ops.quantized_decomposed, torch.ones(3, 4)
        check, int8 = self.check, torch.int8
        check(AssertionError, "input to have dtype torch.float32, but got dtype: torch.float64",
              ops.quantize_per_tensor, x.double(), 0.1, 0, -128, 127, int8)
        check(AssertionError, "quant_max_upper_bound: 127 quant_max: 128", ops.quantize_per_tensor, x, 0.1, 0, -128,
              128, int8)
        check(ValueError, "Unsupported dtype: torch.float32", ops.quantize_per_tensor, x, 0.1, 0, 0, 1, torch.float32)
        check(AssertionError, "to have dtype: torch.uint8, but got torch.int8", ops.dequantize_per_tensor, x.to(int8),
              0.1, 0, 0, 255, torch.uint8)
        check(AssertionError, "must include 0", ops.choose_qparams.tensor, x, 1, 127, 1e-5, int8)
        check(AssertionError, "Expecting axis to be < 2", ops.quantize_per_channel, x, torch.ones(3), torch.ones(3), 2,
              -128, 127, int8)
        check(AssertionError, "num_tokens: 3", ops.quantize_per_token, x, torch.ones(2), torch.zeros(2), -128, 127, int8)
        group = ops.quantize_per_channel_group
        for size, message in ((1, "must be > 1"), (3, "must be divisible by group_size")):
            check(AssertionError, message, group, x, torch.ones(3, 2), torch.zeros(3, 2), -8, 7, int8, size)
        check(AssertionError, "must not contain NaNs", group, x * float("nan"), torch.ones(3, 2), torch.zeros(3, 2), -8,
              7, int8, 2)

    def test_fake_quantisation(self):
        aten, x = torch.ops.aten, torch.arange(8.0)
        masked = aten.fake_quantize_per_tensor_affine_cachemask_backward
        self.check(RuntimeError, "`mask` is size 2 and `dY` is size 8", masked, x, x[:2] > 0)
        self.check(RuntimeError, "ScalarType::Bool", masked, x, x)
        scale, zero = torch.tensor([0.1], requires_grad=True), torch.tensor([0.0])
        with self.assertRaisesRegex(RuntimeError, "is not differentiable with respect to argument 'scale'"):
            torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255)
        learned = torch._fake_quantize_learnable_per_tensor_affine
        self.check(RuntimeError, "`quant_min` should be less than", learned, x, scale, zero, 5, 1)
        with self.assertRaisesRegex(RuntimeError, "the quantization range should include 0"):
            learned(x, scale, zero, 1, 255).sum().backward()
        kept = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            x, torch.tensor(0.1), torch.tensor(0), torch.tensor([0]), 0, 255)
        self.assertEqual(kept[0].tolist(), x.tolist())
        self.assertTrue(kept[1].all())
        self.check(RuntimeError, "only supported on axis == 0", torch.fused_moving_avg_obs_fake_quant, x.view(2, 4),
                   torch.tensor([1]), torch.tensor([1]), torch.tensor([]), torch.tensor([]), torch.ones(4),
                   torch.zeros(4, dtype=INT32), 0.01, 0, 255, 1, True)


class Shapes(unittest.TestCase):
    def test_meta(self):
        def meta(*shape, dtype=torch.float32):
            return torch.empty(*shape, dtype=dtype, device="meta")

        x = meta(3, 64)
        self.assertEqual(torch._weight_int8pack_mm(x, meta(5, 64, dtype=torch.int8), meta(5)).shape, (3, 5))
        if torch.__name__ != "torch":
            self.assertEqual(torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255).shape, (3, 64))
        a, b = (meta(*shape, dtype=torch.float8_e4m3fn) for shape in ((4, 16), (16, 32)))
        made = torch._scaled_mm(a, b, meta(()), meta(()), out_dtype=torch.bfloat16)
        self.assertEqual((made.shape, made.dtype), ((4, 32), torch.bfloat16))


if __name__ == "__main__":
    sys.exit(unittest.main())
