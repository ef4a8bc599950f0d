"""`cond`, `map`, `scan` and `while_loop` in graphs of `make_fx`: those of PyTorch, with the values of the program."""

import functools
import importlib
import json
import pathlib
import unittest

from module_under_test import torch
from traced_functions_cases import codes, functions, programs

make_fx = importlib.import_module(f"{torch.__name__}.fx.experimental.proxy_tensor").make_fx
GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "goldens" / "traced_functions.json").read_text())
cond, mapped, scan, while_loop = functions(torch)
X = torch.arange(6.0).reshape(3, 2)


class TracedFunctions(unittest.TestCase):
    maxDiff = None

    def same(self, function, *args, mode="real", others=()):
        """The graph, which gives what the function gives of its example and of other arguments."""
        made = make_fx(function, tracing_mode=mode)(*args)
        for given in (args, *others):
            wanted, got = (torch.utils._pytree.tree_leaves(one(*given)) for one in (function, made))
            for one, other in zip(wanted, got, strict=True):
                torch.testing.assert_close(other, one)
        return made

    def targets(self, made):
        return [str(node.target) for node in made.graph.nodes if node.op == "call_function"]

    def test_graphs_are_those_of_pytorch(self):
        for name, (function, args) in programs(torch).items():
            for mode in ("real", "fake"):
                with self.subTest(name, mode=mode):
                    self.assertEqual(codes(make_fx(function, tracing_mode=mode)(*args)), GOLDEN[name][mode])

    def test_both_branches_are_in_the_graph(self):
        function, args = programs(torch)["cond"]
        for mode in ("real", "fake", "symbolic"):
            self.same(function, *args, mode=mode, others=[(-X,), (X - 2.6,)])

    def test_gradients_of_both_branches(self):
        function, args = programs(torch)["gradient_of_cond"]
        self.same(function, *args, others=[((-X).requires_grad_(),)])

    def test_loops_run_as_often_as_their_conditions_say(self):
        function, args = programs(torch)["while_loop"]
        for mode in ("real", "fake", "symbolic"):
            self.same(function, *args, mode=mode, others=[(torch.tensor(3), X), (torch.tensor(-4), X)])

    def test_gradients_of_map(self):
        def function(x, y):
            return torch.autograd.grad(mapped(lambda a, b: a * b.sin(), x, y).sum(), (x, y))

        made = self.same(function, X.clone().requires_grad_(), torch.ones(2).requires_grad_())
        self.assertEqual(self.targets(made).count("map_impl"), 2)

    def test_values_around(self):
        def function(x):
            w = x * 2
            return cond(x.sum() > 0, lambda a: a.sin() + w, lambda a: a.cos() - w, (x,))

        self.same(function, X, others=[(-X,)])

        def gradient(x):
            w = x * 2
            made = cond(x.sum() > 0, lambda a: a.sin() * w, lambda a: a - w, (x.detach(),))
            rows = mapped(lambda a: a * w[0], x.detach())
            return torch.autograd.grad(made.sum() + rows.sum(), x)[0]

        made = self.same(gradient, X.clone().requires_grad_(), others=[((-X).requires_grad_(),)])
        self.assertEqual(self.targets(made).count("cond"), 2)

        def unrolled(x):
            w = x * 2
            carry, rows = scan(lambda c, a: (c + a * w[0], c * a), x[0].detach(), x.detach())
            return torch.autograd.grad(carry.sum() + rows.sum(), x)[0]

        self.same(unrolled, X.clone().requires_grad_())

    def test_operands_keep_their_nodes(self):
        def function(x):
            made = cond(x.sum() > 0, lambda a, b: (a, b * 2), lambda a, b: (b - 1, a), (x, x))
            return made, x + 1

        self.same(function, X, others=[(-X,)])

    def test_scans(self):
        prefixes = importlib.import_module(f"{torch.__name__}._higher_order_ops.associative_scan").associative_scan
        self.same(lambda x: prefixes(lambda a, b: a * b, x, 0), X + 1, others=[(X - 3,)])
        function, args = programs(torch)["scan"]
        for mode in ("real", "fake", "symbolic"):
            self.same(function, *args, mode=mode, others=[(X + 1,)])

    def test_nested(self):
        def function(x):
            return mapped(lambda a: cond(a.sum() > 2, lambda b: b * 2, lambda b: b - 1, (a,)), x)

        self.same(function, X, others=[(X - 2,)])

    def test_combinations_of_any_number(self):
        others = [(torch.arange(4.0),), (torch.arange(7.0),)]
        for options in ({}, {"r": 3}, {"with_replacement": True}):
            function = functools.partial(torch.combinations, **options)
            self.same(lambda x: function(x), torch.arange(5.0), mode="symbolic", others=others)

    def test_branches_that_differ_are_refused(self):
        with self.assertRaisesRegex(RuntimeError, "same metadata"):
            make_fx(lambda x: cond(x.sum() > 0, lambda a: a[0], lambda a: a, (x,)))(X)


if __name__ == "__main__":
    unittest.main()
