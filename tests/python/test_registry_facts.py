"""What the registry says of operators beside their schemas: formulas, kernels, sets that they belong to."""

import unittest

import corten
from corten import _C, ops


class Facts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.entries = {entry["name"]: entry for entry in ops.all()}

    def test_formulas_of_gradients(self):
        self.assertEqual(set(self.entries["aten::mul.Tensor"]["formulas"]), {"self", "other"})
        self.assertIn("grad", self.entries["aten::exp"]["formulas"]["self"])
        for entry in self.entries.values():
            if entry["formulas"]:
                self.assertEqual(entry["gradient"], "formula", entry["name"])
        given = [entry for entry in self.entries.values() if entry["formulas"]]
        self.assertGreater(len(given), 300)

    def test_kernels_and_costs(self):
        self.assertIn("CPU", self.entries["aten::mm"]["kernels"])
        self.assertEqual(self.entries["aten::mm"]["cost"], "product")
        self.assertEqual(self.entries["aten::add.Tensor"]["cost"], "stream")
        self.assertEqual(self.entries["aten::mm"]["autocast"], "lower")
        self.assertIsNone(self.entries["aten::neg"]["autocast"])
        self.assertIn("MkldnnCPU", self.entries["aten::transpose.int"]["kernels"])

    def test_sets_of_operators(self):
        for tag, some in {"factory": {"zeros", "arange"}, "keeps_zero": {"sin", "nan_to_num"},
                          "keeps_zero_compressed": {"sin", "relu"}, "parts_method": {"clone", "split"},
                          "lazy": {"clone", "set_"}, "impure": {"dropout", "rand"}}.items():
            self.assertLessEqual(some, set(_C._ops_tagged(tag)), tag)
        for name in _C._ops_tagged("factory"):
            schemas = [entry["schema"] for entry in self.entries.values() if f"::{name}(" in entry["schema"]
                       or f"::{name}." in entry["schema"]]
            self.assertTrue(any("Device? device" in schema for schema in schemas), name)

    def test_numbers_stand_for_tensors(self):
        for name in ("add", "mul", "true_divide", "floor_divide"):
            self.assertEqual(getattr(corten, name)(2.0, corten.tensor([4.0])).shape, (1,), name)
        with self.assertRaisesRegex(TypeError, "must be Tensor"):
            corten.maximum(2.0, corten.tensor([4.0]))

    def test_deprecated_orders_warn(self):
        x, y = corten.ones(2), corten.ones(2)
        with self.assertWarnsRegex(UserWarning, "This overload of add is deprecated"):
            self.assertEqual(corten.add(x, 3, y).tolist(), [4.0, 4.0])
        with self.assertWarnsRegex(UserWarning, "This overload of addcmul_ is deprecated"):
            x.addcmul_(2, y, y)
        self.assertEqual(x.tolist(), [3.0, 3.0])


if __name__ == "__main__":
    unittest.main()
