"""Composite operators that look at values failed under ``func.functionalize``, where tensors have no memory of their own;
and quantiles in graphs of ``make_fx``."""

import importlib
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from module_under_test import torch  # noqa: E402

functionalize = torch.func.functionalize
make_fx = importlib.import_module(f"{torch.__name__}.fx.experimental.proxy_tensor").make_fx


class ReadValues(unittest.TestCase):
    def test_functionalize(self):
        a = torch.tensor([[2.0, 1.0], [0.5, 3.0]])
        targets = torch.tensor([0, 1])
        for function in (
            torch.linalg.inv, torch.linalg.cholesky_ex, lambda x: torch.linalg.solve(x, x @ x),
            lambda x: torch.nn.functional.multi_margin_loss(x, targets), lambda x: torch.quantile(x, torch.tensor([0.5, 0.2])),
        ):
            wanted, got = function(a), functionalize(function)(a)
            torch.testing.assert_close(got, wanted)

    def test_errors_stay(self):
        with self.assertRaisesRegex(RuntimeError, "singular"):
            functionalize(torch.linalg.inv)(torch.zeros(2, 2))

    def test_quantiles_in_graphs(self):
        a, q = torch.rand(3, 4), torch.tensor([0.5, 0.2])
        graph = make_fx(torch.quantile)(a, q)
        torch.testing.assert_close(graph(a + 1, q), torch.quantile(a + 1, q))


if __name__ == "__main__":
    unittest.main()
