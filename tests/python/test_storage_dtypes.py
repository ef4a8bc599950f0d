"""Dtypes that are stored, viewed and copied, and that no arithmetic takes."""

import os
import unittest
import warnings

torch = __import__(os.environ.get("CORTEN_TEST_MODULE", "corten"))
OURS = torch.__name__ != "torch"
QUANTISED = ("qint8", "quint8", "qint32", "quint4x2", "quint2x4")
BITS = {"bits1x8": "b1x8", "bits2x4": "b2x4", "bits4x2": "b4x2", "bits8": "b8x1", "bits16": "b16x1"}
NARROW = tuple(f"{sign}int{bits}" for sign in ("u", "") for bits in range(1, 8))
SIZES = {"qint32": 4, "bits16": 2}


class Dtypes(unittest.TestCase):
    def test_facts(self):
        for name in (*QUANTISED, *BITS, *NARROW, "float4_e2m1fn_x2"):
            dtype = getattr(torch, name)
            with self.subTest(name=name):
                self.assertEqual(repr(dtype), f"torch.{name}")
                self.assertEqual(dtype.itemsize, SIZES.get(name, 1))
                self.assertEqual(dtype.is_floating_point, name.startswith("float"))
                self.assertFalse(dtype.is_complex)
                shown = "f4e2m1fnx2" if name.startswith("float") else BITS.get(name, name)
                self.assertEqual(dtype.abbr, shown)
                self.assertIs(torch.promote_types(dtype, dtype), dtype)
        self.assertTrue(torch.int3.is_signed and torch.float4_e2m1fn_x2.is_signed)
        self.assertFalse(torch.uint3.is_signed)
        self.assertIs(torch.bit, torch.uint1)

    def test_signs_that_nobody_knows(self):
        with self.assertRaisesRegex(RuntimeError, "isSignedType not supported for quantized types"):
            torch.qint8.is_signed
        with self.assertRaisesRegex(RuntimeError, "Bits types are undefined"):
            torch.bits8.is_signed

    def test_promotion(self):
        with self.assertRaisesRegex(RuntimeError, "promoteTypes with quantized numbers is not handled yet.*QInt8 Float"):
            torch.promote_types(torch.qint8, torch.float32)
        with self.assertRaisesRegex(RuntimeError, "Promotion from Char and Bits8 is unsupported."):
            torch.promote_types(torch.int8, torch.bits8)
        with self.assertRaises(RuntimeError):
            torch.promote_types(torch.int4, torch.float32)
        self.assertTrue(torch.can_cast(torch.qint8, torch.float32) and torch.can_cast(torch.float32, torch.bits8))

    def test_limits(self):
        for name in (*BITS, *NARROW, "float4_e2m1fn_x2"):
            with self.subTest(name=name):
                with self.assertRaises(TypeError):
                    torch.iinfo(getattr(torch, name))
                with self.assertRaises((TypeError, NotImplementedError)):
                    torch.finfo(getattr(torch, name)).max
        found = {name: torch.iinfo(getattr(torch, name)) for name in QUANTISED}
        limits = [(-128, 127), (0, 255), (-(2**31), 2**31 - 1), (0, 255), (0, 255)]
        self.assertEqual([(found[name].min, found[name].max) for name in QUANTISED], limits)

    def test_bytes_are_kept(self):
        source = torch.arange(16, dtype=torch.uint8)
        for name in (*BITS, "float4_e2m1fn_x2", *(NARROW if OURS else ())):
            dtype = getattr(torch, name)
            with self.subTest(name=name):
                view = source.view(dtype)
                back = view.clone().view(torch.uint8)
                self.assertEqual(back.tolist(), source.tolist())
                parts = view.reshape(2, -1).t().contiguous().t().contiguous()
                self.assertEqual(parts.reshape(-1).view(torch.uint8).tolist(), source.tolist())
                joined = torch.cat([view, view[2:]]).view(torch.uint8).tolist()
                self.assertEqual(joined, source.tolist() + source.tolist()[2 * dtype.itemsize:])
                self.assertEqual(torch.stack([view, view]).shape, (2, len(view)))
                self.assertEqual(torch.zeros(3, dtype=dtype).view(torch.uint8).unique().tolist(), [0])
                self.assertEqual(torch.empty_like(view).dtype, dtype)
                self.assertEqual(view.type(), f"torch.{name[0].upper()}{name[1:]}Tensor".replace("Uint", "UInt"))

    def test_refusals(self):
        source = torch.arange(16, dtype=torch.uint8)
        for name in (*BITS, *NARROW, "float4_e2m1fn_x2"):
            dtype = getattr(torch, name)
            x = source.view(dtype)
            for label, program in {
                "to": lambda: torch.zeros(3).to(dtype), "from": lambda: x.to(torch.float32), "add": lambda: x + x,
                "fill": lambda: x.clone().fill_(1), "ones": lambda: torch.ones(2, dtype=dtype), "sum": lambda: x.sum(),
                "item": lambda: x[0].item(), "list": lambda: x.tolist(), "bool": lambda: x.bool(), "mul": lambda: x * 2,
                "copy": lambda: torch.zeros(len(x), dtype=torch.uint8).view(torch.bits8).copy_(torch.zeros(len(x))),
                "out": lambda: torch.add(torch.ones(len(x)), 1, out=x), "random": lambda: torch.rand(2, dtype=dtype), "product": lambda: torch.ones(2).prod(dtype=dtype),
                "range": lambda: torch.arange(3, dtype=dtype), "full": lambda: torch.full((2,), 1, dtype=dtype),
            }.items():
                with self.subTest(name=name, program=label), self.assertRaises(RuntimeError):
                    program()
            with self.subTest(name=name), self.assertRaisesRegex(TypeError, "Got unsupported ScalarType"):
                x.numpy()

    def test_quantised_dtypes_of_plain_memory(self):
        source = torch.arange(8, dtype=torch.uint8)
        for name in QUANTISED:
            dtype = getattr(torch, name)
            with self.subTest(name=name):
                view = source.view(dtype)
                self.assertEqual(view.view(torch.uint8).tolist(), source.tolist())
                self.assertRaises(RuntimeError, lambda: view + view)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    made = torch.empty(3, dtype=dtype)
                self.assertTrue(made.is_quantized)
                for refused in (lambda: made.qscheme(), lambda: repr(made), lambda: made == made, lambda: made + made):
                    self.assertRaises(RuntimeError, refused)
                self.assertRaises(RuntimeError, made.requires_grad_)


if __name__ == "__main__":
    unittest.main()
