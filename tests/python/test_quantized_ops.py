"""Quantised operators beside PyTorch's: integers are equal, scales and strides too."""

import copy
import io
import os
import pathlib
import pickle
import unittest

import numpy as np
import quantized_cases as cases

torch = __import__(os.environ.get("CORTEN_TEST_MODULE", "corten"))
GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens"


def tolerance(name, wanted):
    """How far results may be from PyTorch's: functions of floats may differ in their last bit."""
    if wanted.dtype == np.int32:
        return np.abs(wanted.astype(np.float64)) * 4e-7 + 1
    if wanted.dtype == np.float32 and not name.startswith("linear_dynamic"):
        return np.abs(wanted) * 1e-5 + 1e-6
    return 0


class Operators(unittest.TestCase):
    def compare(self, engine, chosen):
        goldens = np.load(GOLDENS / "quantized_ops.npz")
        maker, wrong = cases.Maker(torch), []
        before, torch.backends.quantized.engine = torch.backends.quantized.engine, engine
        try:
            for name, case in cases.all_cases().items():
                if not chosen(name) or f"{engine}/{name}" not in goldens:
                    continue
                wanted = goldens[f"{engine}/{name}"]
                meta = goldens.get(f"{engine}/{name}/meta")
                problem = self.problem(name, case, maker, wanted, meta)
                if problem:
                    wrong.append(f"{name}: {problem}")
        finally:
            torch.backends.quantized.engine = before
        self.assertFalse(wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong))

    def problem(self, name, case, maker, wanted, meta):
        try:
            found, described = cases.described(torch, case(maker))
        except Exception as error:  # Every failure belongs into the list.
            return f"{type(error).__name__}: {str(error)[:300]}"
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            return f"{found.dtype} {found.shape} instead of {wanted.dtype} {wanted.shape}"
        far = np.abs(found.astype(np.float64) - wanted.astype(np.float64)) > tolerance(name, wanted)
        if far.any():
            return f"{far.sum()} of {far.size} elements: {found[far][:4]} instead of {wanted[far][:4]}"
        if meta is not None:
            if not np.allclose(described[:2], meta[:2], rtol=1e-12):
                return f"scale and zero point {described[:2]} instead of {meta[:2]}"
            if described[2:] != list(meta[2:]):
                return f"strides {described[2:]} instead of {meta[2:]}"
        return None

    def test_elementwise(self):
        self.compare("x86", lambda name: name.startswith(tuple(cases.DTYPES)))

    def test_linear(self):
        self.compare("x86", lambda name: name.startswith("linear"))

    def test_convolution(self):
        self.compare("x86", lambda name: name.startswith("conv"))

    def test_convolution_of_the_other_engine(self):
        self.compare("fbgemm", lambda name: name.startswith("conv"))

    def test_onednn(self):
        self.compare("onednn", lambda name: True)

    def test_tables_and_recurrent(self):
        others = (*cases.DTYPES, "linear", "conv")
        self.compare("x86", lambda name: not name.startswith(others))


class Parameters(unittest.TestCase):
    def setUp(self):
        self.m = cases.Maker(torch)

    def test_linear(self):
        weight, bias = self.m.weight(1, 3, 4), self.m.real(2, 3)
        packed = self.m.q.linear_prepack(weight, bias)
        self.assertEqual(packed._method_names(), ["__getstate__", "__setstate__", "bias", "unpack"])
        self.assertEqual(str(packed), "ScriptObject <__torch__.torch.classes.quantized.LinearPackedParamsBase>")
        for each in (packed, copy.deepcopy(packed), pickle.loads(pickle.dumps(packed)), self.saved(packed)):
            unpacked, found = each.unpack()
            self.assertTrue(torch.equal(unpacked.int_repr(), weight.int_repr()))
            self.assertTrue(torch.equal(found, bias))
            self.assertTrue(torch.equal(each.bias(), bias))

    def saved(self, packed):
        file = io.BytesIO()
        torch.save(packed, file)
        file.seek(0)
        return torch.load(file, weights_only=False)

    def test_convolution(self):
        weight = self.m.weight(1, 6, 4, 3, 3)
        packed = self.m.q.conv_transpose2d_prepack(weight, None, [2, 1], [1, 0], [1, 0], [1, 1], 2)
        for each in (packed, self.saved(packed)):
            self.assertTrue(torch.equal(each.unpack()[0].int_repr(), weight.int_repr()))
            self.assertIsNone(each.unpack()[1])
            self.assertEqual(
                [each.stride(), each.padding(), each.output_padding(), each.dilation(), each.groups()],
                [[2, 1], [1, 0], [1, 0], [1, 1], 2],
            )
            self.assertTrue(each.transpose())
        self.assertEqual(self.m.q.conv_transpose2d_stride(packed), [2, 1])
        version, tensors, _ = packed.__getstate__()[0]
        self.assertEqual(version, "2")
        self.assertEqual(tensors[0].tolist(), [2, 2, 1, 1, 0, 1, 1, 1, 0, 2, 1])

    def test_signals(self):
        weight = self.m.weight(1, 6, 4, 3)
        packed = self.m.q.conv1d_prepack(weight, None, [1], [0], [1], 1)
        self.assertEqual(tuple(packed.unpack()[0].shape), (6, 4, 1, 3))
        self.assertTrue(torch.equal(self.m.q.conv1d_unpack(packed)[0].int_repr(), weight.int_repr()))

    def test_channels(self):
        weight = self.m.weight(1, 6, 4, channels=6)
        unpacked = self.m.q.linear_unpack(self.m.q.linear_prepack(weight, None))[0]
        self.assertEqual(unpacked.qscheme(), torch.per_channel_affine)
        self.assertTrue(torch.allclose(unpacked.dequantize(), weight.dequantize()))

    def test_overloads(self):
        self.assertEqual(sorted(torch.ops.quantized.conv2d.overloads()), ["default", "new"])
        self.assertIn("quantized::linear(", str(torch.ops.quantized.linear.default._schema))
        self.assertIn("quantized::add.Scalar(", str(torch.ops.quantized.add.Scalar._schema))


class Refusals(unittest.TestCase):
    def setUp(self):
        self.m = cases.Maker(torch)
        self.packed = self.m.q.linear_prepack(self.m.weight(1, 3, 4), None)

    def refused(self, words, f, *args, error=RuntimeError):
        with self.assertRaisesRegex(error, words):
            f(*args)

    def test_linear(self):
        q = self.m.q
        self.refused("not quantized|CPU", q.linear, torch.ones(2, 4), self.packed, 0.1, 0, error=NotImplementedError)
        self.refused("QUInt8|quint8", q.linear, self.m.quantised(1, 2, 4, dtype="qint8"), self.packed, 0.1, 0)
        self.refused("", q.linear, self.m.quantised(1, 2, 5), self.packed, 0.1, 0)
        self.refused("", q.linear_dynamic, torch.ones(2, 5), self.packed)
        self.refused("", q.linear_dynamic, torch.ones(2, 4, dtype=torch.float64), self.packed)
        self.refused("", q.linear_prepack, self.m.quantised(1, 3, 4), None)
        self.refused("2", q.linear_prepack, self.m.weight(1, 3, 4, 5), None)
        self.refused("bias", q.linear_prepack, self.m.weight(1, 3, 4), torch.ones(4))

    def test_sums(self):
        q, x = self.m.q, self.m.quantised(1, 2, 4)
        self.refused("same data type", q.add, x, self.m.quantised(1, 2, 4, dtype="qint8"), 0.1, 0)
        channels = torch.quantize_per_channel(
            torch.ones(2, 4), torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.int64), 0, torch.quint8)
        self.refused("Only per tensor", q.add, channels, x, 0.1, 0)
        self.refused("QInt8 or QUInt8", q.matmul, *[self.m.quantised(1, 4, 4, dtype="qint32")] * 2, 0.1, 0)

    def test_convolution(self):
        q = self.m.q
        packed = q.conv2d_prepack(self.m.weight(1, 6, 4, 3, 3), None, [1, 1], [0, 0], [1, 1], 1)
        self.refused("", q.conv2d, self.m.quantised(1, 1, 3, 5, 5), packed, 0.1, 0)
        self.refused("", q.conv2d, torch.ones(1, 4, 5, 5), packed, 0.1, 0, error=NotImplementedError)
        self.refused("", q.conv2d_prepack, self.m.weight(1, 6, 4, 3), None, [1, 1], [0, 0], [1, 1], 1)

    def test_empty(self):
        q = self.m.q
        self.assertEqual(tuple(q.linear(self.m.quantised(1, 0, 4), self.packed, 0.1, 0).shape), (0, 3))
        self.assertEqual(tuple(q.linear_dynamic(torch.ones(0, 4), self.packed).shape), (0, 3))
        packed = q.conv2d_prepack(self.m.weight(1, 6, 4, 3, 3), None, [1, 1], [0, 0], [1, 1], 1)
        self.assertEqual(tuple(q.conv2d(self.m.quantised(1, 0, 4, 5, 5), packed, 0.1, 0).shape), (0, 6, 3, 3))
        self.assertEqual(q.add(self.m.quantised(1, 0, 4), self.m.quantised(1, 0, 4), 0.1, 0).numel(), 0)

    def test_engine(self):
        def choose(name):
            torch.backends.quantized.engine = name

        self.assertEqual(torch.backends.quantized.engine, "x86")
        self.refused("", choose, "abacus")


if __name__ == "__main__":
    unittest.main()
