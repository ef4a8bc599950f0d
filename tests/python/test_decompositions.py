"""Operators by simpler ones: graphs are those of PyTorch, values those of the operators."""

import importlib
import json
import pathlib
import unittest

from make_fx_cases import CALLS, call, operands
from module_under_test import torch

decomp = importlib.import_module(f"{torch.__name__}._decomp")
make_fx = importlib.import_module(f"{torch.__name__}.fx.experimental.proxy_tensor").make_fx
GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "goldens" / "make_fx.json").read_text())["decompositions"]


def leaves(result):
    """The tensors of a result."""
    return [one for one in torch.utils._pytree.tree_leaves(result) if isinstance(one, torch.Tensor)]


class Decompositions(unittest.TestCase):
    maxDiff = None

    def test_graphs(self):
        table, values = decomp.core_aten_decompositions(), operands(torch)
        for text in CALLS:
            with self.subTest(text):
                function, args = call(torch, text, values)
                self.assertEqual(make_fx(function, decomposition_table=table)(*args).code, GOLDEN[text])

    def test_values(self):
        table, values = decomp.core_aten_decompositions(), operands(torch)
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            own = {key: one.to(dtype) if one.is_floating_point() else one for key, one in values.items()}
            for text in CALLS:
                if "torch.float32" in text:
                    continue
                with self.subTest(text, dtype=dtype):
                    function, args = call(torch, text, own)
                    made = make_fx(function, decomposition_table=table)(*args)
                    for got, wanted in zip(leaves(made(*args)), leaves(function(*args)), strict=True):
                        self.assertEqual(got.dtype, wanted.dtype)
                        rough = {"rtol": 0.05, "atol": 0.01} if dtype == torch.bfloat16 else {}
                        torch.testing.assert_close(got, wanted, equal_nan=True, **rough)

    def test_only_core_operators_are_left(self):
        table, values = decomp.core_aten_decompositions(), operands(torch)
        for text in CALLS:
            function, args = call(torch, text, values)
            for node in make_fx(function, decomposition_table=table)(*args).graph.nodes:
                if node.op == "call_function" and hasattr(node.target, "tags"):
                    with self.subTest(text, node=str(node.target)):
                        self.assertNotIn(node.target, table)

    def test_tables(self):
        aten = torch.ops.aten
        found = decomp.get_decompositions([aten.silu.default, aten.mse_loss.default])
        self.assertEqual(set(found), {aten.silu.default, aten.mse_loss.default})
        table = dict(decomp.core_aten_decompositions())
        decomp.remove_decompositions(table, [aten.silu])
        self.assertNotIn(aten.silu.default, table)

        registry = {}

        @decomp.register_decomposition(aten.sin, registry)
        def sine(x):
            return x

        self.assertIs(registry[aten.sin.default], sine)
        with self.assertRaisesRegex(RuntimeError, "duplicate registrations"):
            decomp.register_decomposition(aten.sin.default, registry)(sine)

    def test_core_operators(self):
        aten = torch.ops.aten
        self.assertIn(torch.Tag.core, aten.add.Tensor.tags)
        self.assertNotIn(torch.Tag.core, aten.silu.default.tags)
        self.assertIn(torch.Tag.nondeterministic_seeded, aten.rand.default.tags)
        self.assertIn(torch.Tag.data_dependent_output, aten._local_scalar_dense.default.tags)


if __name__ == "__main__":
    unittest.main()
