"""Traces of functions by their tensors: graphs are those that PyTorch records."""

import importlib
import json
import pathlib
import re
import unittest

from make_fx_cases import programs
from module_under_test import torch

proxy_tensor = importlib.import_module(f"{torch.__name__}.fx.experimental.proxy_tensor")
make_fx = proxy_tensor.make_fx
fx = importlib.import_module(f"{torch.__name__}.fx")
F = torch.nn.functional
GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "goldens" / "make_fx.json").read_text())["graphs"]


def flat(result):
    """The tensors of a result."""
    return [one for one in torch.utils._pytree.tree_leaves(result) if isinstance(one, torch.Tensor)]


class Golden(unittest.TestCase):
    maxDiff = None

    def test_code(self):
        for name, (function, args) in programs(torch).items():
            with self.subTest(name):
                self.assertEqual(make_fx(function)(*args).code, GOLDEN[name]["code"])

    def test_code_without_data(self):
        for name, (function, args) in programs(torch).items():
            with self.subTest(name):
                self.assertEqual(make_fx(function, tracing_mode="fake")(*args).code, GOLDEN[name]["fake"])

    def test_nodes(self):
        for name, (function, args) in programs(torch).items():
            with self.subTest(name):
                self.assertEqual(str(make_fx(function)(*args).graph), GOLDEN[name]["graph"])

    def test_readable_with_shapes(self):
        for name, (function, args) in programs(torch).items():
            if name == "attention":
                # The strides of the logarithms of sums are the kernel's matter.
                continue
            with self.subTest(name):
                made = make_fx(function)(*args)
                text = made.print_readable(print_output=False, include_stride=True, include_device=True)
                self.assertEqual(text, GOLDEN[name]["readable"])

    def test_graphs_compute_what_programs_compute(self):
        for name, (function, args) in programs(torch).items():
            if name in ("factories", "written_input", "in_place_chain", "write_to_view"):
                continue
            with self.subTest(name):
                made = make_fx(function)(*args)
                for got, wanted in zip(flat(made(*args)), flat(function(*args)), strict=True):
                    torch.testing.assert_close(got, wanted)


@unittest.skipIf(torch.__name__ == "torch", "the graphs of PyTorch are made by its compiler first")
class Branches(unittest.TestCase):
    """``cond`` is a node with the graphs of both functions, which may use values of the trace around."""

    def test_cond(self):
        def function(x, y):
            z = y * 2
            return torch.cond(x.sum() > 0, lambda x: x.sin() + z, lambda x: x.cos() - z, (x,)) + 1

        for mode in ("real", "fake", "symbolic"):
            with self.subTest(mode):
                graph = make_fx(function, tracing_mode=mode)(torch.ones(3), torch.ones(3))
                self.assertIn("torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0, (x_1, mul))", graph.code)
                for size in (3,) if mode != "symbolic" else (3, 5):
                    for x in (torch.ones(size), -torch.ones(size)):
                        y = torch.rand(size)
                        torch.testing.assert_close(graph(x, y), function(x, y))

    def test_results_have_one_form(self):
        def function(x):
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x[:1].cos(), (x,))

        with self.assertRaisesRegex(RuntimeError, "same metadata"):
            make_fx(function)(torch.ones(3))


class Traces(unittest.TestCase):
    def test_values_of_tensors_are_refused(self):
        with self.assertRaisesRegex(RuntimeError, "trying to get value out of a tracing tensor"):
            make_fx(lambda x: x * x.sum().item())(torch.ones(2))

    def test_parameters_and_tensors_from_elsewhere_are_attributes(self):
        layer, other = torch.nn.Linear(2, 2), torch.ones(2)
        made = make_fx(lambda x: layer(x) + other)(torch.ones(1, 2))
        self.assertEqual([name for name, _ in made.named_parameters()], ["_param_constant0", "_param_constant1"])
        self.assertEqual([name for name, _ in made.named_buffers()], ["_tensor_constant0"])
        torch.testing.assert_close(made(torch.ones(1, 2)), layer(torch.ones(1, 2)) + other)

    def test_table(self):
        def by_hand(x):
            return x * torch.sigmoid(x)

        aten = torch.ops.aten
        made = make_fx(lambda x: F.silu(x), decomposition_table={aten.silu.default: by_hand})(torch.ones(2))
        names = [node.name for node in made.graph.nodes if node.op == "call_function"]
        self.assertEqual(names, ["sigmoid", "mul"])

    def test_detach_stays_with_a_table(self):
        made = make_fx(lambda x: x.detach() + 1, decomposition_table={})(torch.ones(2))
        self.assertIn("aten.detach.default", made.code)

    def test_before_dispatch(self):
        layer = torch.nn.Linear(3, 3)

        def program(x):
            return F.layer_norm(layer(x).relu() * 2 + 1, [3]).softmax(0).to(torch.float64)

        for mode in ("real", "fake"):
            made = make_fx(program, pre_dispatch=True, tracing_mode=mode, _allow_non_fake_inputs=True)(torch.ones(3, 3))
            names = [str(node.target) for node in made.graph.nodes if node.op == "call_function"]
            self.assertEqual(names, [
                "aten.linear.default", "aten.relu.default", "aten.mul.Tensor", "aten.add.Tensor",
                "aten.layer_norm.default", "aten.softmax.int", "aten.to.dtype",
            ])
            torch.testing.assert_close(made(torch.ones(3, 3)), program(torch.ones(3, 3)))

    def test_symbolic_sizes(self):
        made = make_fx(lambda x: x.new_empty(x.shape[0] + 1).sum() * x.shape[1], tracing_mode="symbolic")(torch.ones(3, 4))
        targets = [str(node.target) for node in made.graph.nodes if node.op == "call_function"]
        self.assertEqual(targets.count("aten.sym_size.int"), 2)
        self.assertTrue(any("add" in target for target in targets))
        self.assertEqual(made(torch.ones(5, 2)).shape, ())

    def test_notes_of_nodes(self):
        made = make_fx(lambda x: x.sin().split(1))(torch.ones(2, 3))
        nodes = {node.name: node for node in made.graph.nodes}
        self.assertEqual(tuple(nodes["sin"].meta["val"].shape), (2, 3))
        self.assertEqual(nodes["sin"].meta["tensor_meta"].stride, (3, 1))
        self.assertEqual([tuple(one.shape) for one in nodes["split"].meta["val"]], [(1, 3), (1, 3)])
        self.assertNotIn("tensor_meta", nodes["split"].meta)

    def test_mode_in_force(self):
        seen = []

        def program(x):
            seen.append(proxy_tensor.get_proxy_mode())
            with proxy_tensor.disable_proxy_modes_tracing():
                seen.append(proxy_tensor.get_proxy_mode())
                torch.ones(3)
            return x + 1

        made = make_fx(program)(torch.ones(2))
        self.assertIsNotNone(seen[0])
        self.assertIsNone(seen[1])
        self.assertNotIn("ones", made.code)
        self.assertIsNone(proxy_tensor.get_proxy_mode())

    def test_isolated_graph(self):
        inner = []

        def program(x):
            inner.append(proxy_tensor.get_isolated_graphmodule(lambda a: a.cos(), (x,), {}))
            return x.sin()

        made = make_fx(program)(torch.ones(2))
        self.assertNotIn("cos", made.code)
        self.assertIn("aten.cos.default", inner[0].code)

    def test_graphs_of_graphs(self):
        first = make_fx(lambda x: F.gelu(x).sum())(torch.ones(2))
        self.assertEqual(make_fx(first)(torch.ones(2)).code.replace("arg0_1", "x_1"), first.code)
        new = fx.Graph()
        proxy_tensor.DecompositionInterpreter(first, new).run(torch.ones(2))
        made = fx.GraphModule(torch.nn.Module(), new)
        torch.testing.assert_close(made(torch.ones(3)), first(torch.ones(3)))

    def test_inputs_of_modules(self):
        layer = torch.nn.Linear(3, 3)
        made = make_fx(layer)(torch.ones(1, 3))
        self.assertTrue(re.search(r"def forward\(self, \w+_1\):", made.code))
        torch.testing.assert_close(made(torch.ones(1, 3)), layer(torch.ones(1, 3)))


if __name__ == "__main__":
    unittest.main()
