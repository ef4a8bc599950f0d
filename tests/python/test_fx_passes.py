"""Passes over graphs: partitions, matches, constant folding, drawings, notes."""

import importlib
import operator
import unittest

from module_under_test import torch


def load(name):
    """A module of the package."""
    return importlib.import_module(f"{torch.__name__}.{name}")


fx = load("fx")
partitioner, operator_support = load("fx.passes.infra.partitioner"), load("fx.passes.operator_support")
tools, fuser = load("fx.passes.tools_common"), load("fx.passes.utils.fuser_utils")
matcher, common = load("fx.passes.utils.matcher_utils"), load("fx.passes.utils.common")
const_fold, manipulation = load("fx.experimental.const_fold"), load("fx.passes.graph_manipulation")
traceback = load("fx.traceback")


def program(x, y):
    a = x + y
    b = torch.relu(a)
    c = torch.mul(b, 2)
    d = torch.sub(c, y)
    e = torch.relu(d)
    return e + c


class Arithmetic(operator_support.OperatorSupport):
    def is_node_supported(self, submodules, node):
        return node.op == "call_function" and node.target in (torch.mul, torch.sub, operator.add)


class Partitions(unittest.TestCase):
    def test_proposed_and_fused(self):
        traced = fx.symbolic_trace(program)
        made = partitioner.CapabilityBasedPartitioner(traced, Arithmetic(), allows_single_node_partition=True)
        parts = made.propose_partitions()
        self.assertEqual(sorted(node.name for part in parts for node in part.nodes), ["add", "add_1", "mul", "sub"])
        fused = made.fuse_partitions(parts)
        x, y = torch.tensor([1.0, -3.0]), torch.tensor([0.5, 1.0])
        torch.testing.assert_close(fused(x, y), program(x, y))
        self.assertTrue(any(node.op == "call_module" for node in fused.graph.nodes))

    def test_cycles_are_refused(self):
        traced = fx.symbolic_trace(program)
        nodes = {node.name: node for node in traced.graph.nodes}
        self.assertFalse(fuser.validate_partition([nodes["add"], nodes["mul"]]))
        self.assertTrue(fuser.validate_partition([nodes["mul"], nodes["sub"]]))
        with self.assertRaisesRegex(AssertionError, "cycle"):
            fuser.fuse_as_graphmodule(traced, [nodes["add"], nodes["mul"]], "part")

    def test_support_by_name_and_dtype(self):
        traced = fx.symbolic_trace(program)
        relu = operator_support.create_op_support(lambda modules, node: node.target is torch.relu)
        named = operator_support.OpSupports.decline_if_node_in_names({"relu_1"})
        both = operator_support.chain(relu, named)
        either = operator_support.any_chain(relu, Arithmetic())
        taken = [node.name for node in traced.graph.nodes if both.is_node_supported({}, node)]
        self.assertEqual(taken, ["relu"])
        self.assertEqual(sum(either.is_node_supported({}, node) for node in traced.graph.nodes), 6)

    def test_sorting(self):
        traced = fx.symbolic_trace(program)
        nodes = {node.name: node for node in traced.graph.nodes}
        nodes["y"].append(nodes["add_1"])
        with self.assertRaises(RuntimeError):
            traced.graph.lint()
        tools.legalize_graph(traced).graph.lint()
        traced.recompile()
        torch.testing.assert_close(traced(torch.ones(2), torch.ones(2)), program(torch.ones(2), torch.ones(2)))


class Matches(unittest.TestCase):
    def test_pattern(self):
        def pattern(a):
            return torch.relu(torch.mul(a, 2))

        def other(x):
            return torch.relu(torch.mul(torch.relu(torch.mul(x, 2)), 3))

        graph = fx.symbolic_trace(pattern).graph
        found = matcher.SubgraphMatcher(graph).match(fx.symbolic_trace(other).graph)
        self.assertEqual([[node.name for node in one.returning_nodes] for one in found], [["relu"]])
        loose = matcher.SubgraphMatcher(graph, ignore_literals=True).match(fx.symbolic_trace(other).graph)
        self.assertEqual(len(loose), 2)

    def test_comparing_graphs(self):
        first, second = fx.symbolic_trace(program).graph, fx.symbolic_trace(program).graph
        self.assertTrue(common.compare_graphs(first, second))
        self.assertFalse(common.compare_graphs(first, fx.symbolic_trace(lambda x, y: x * y).graph))


class Folding(unittest.TestCase):
    class Constant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

        def forward(self, x):
            return x * (self.weight + self.weight) + 1

    def test_constant_part(self):
        module = self.Constant()
        folded = const_fold.split_const_subgraphs(module)
        names = [node.op for node in folded.graph.nodes]
        self.assertEqual(names.count("call_function"), 2)
        torch.testing.assert_close(folded(torch.ones(2)), module(torch.ones(2)))
        self.assertTrue(folded.has_folding_been_run)

    def test_nothing_to_fold(self):
        folded = const_fold.split_const_subgraphs(fx.symbolic_trace(program))
        torch.testing.assert_close(folded(torch.ones(2), torch.ones(2)), program(torch.ones(2), torch.ones(2)))


class Notes(unittest.TestCase):
    def test_sizes(self):
        traced = fx.symbolic_trace(program)
        manipulation.get_size_of_all_nodes(traced, (torch.ones(3), torch.ones(3)))
        sizes = {node.name: node.size_bytes.output_size for node in traced.graph.nodes if node.op != "output"}
        self.assertEqual(set(sizes.values()), {12})

    def test_values_without_data(self):
        traced = fx.symbolic_trace(program)
        load("fx.passes.fake_tensor_prop").FakeTensorProp(traced).propagate(torch.ones(3), torch.ones(3))
        for node in traced.graph.nodes:
            self.assertEqual(tuple(node.meta["val"].shape), (3,))

    def test_annotations(self):
        make_fx = load("fx.experimental.proxy_tensor").make_fx

        def annotated(x):
            with traceback.annotate({"part": 1}):
                x = x.sin()
            return x.cos()

        with traceback.preserve_node_meta():
            made = make_fx(annotated)(torch.ones(2))
        notes = {node.name: node.meta.get("custom") for node in made.graph.nodes}
        self.assertEqual(notes["sin"], {"part": 1})
        self.assertIsNone(notes["cos"] or None)

    def test_generated_code_can_be_changed(self):
        traced = fx.symbolic_trace(lambda x: x + 1)
        with traced.graph.on_generate_code(lambda _: lambda body: ["x = x * 2\n", *body]):
            traced.recompile()
            torch.testing.assert_close(traced(torch.ones(2)), torch.full((2,), 3.0))
        traced.recompile()
        torch.testing.assert_close(traced(torch.ones(2)), torch.full((2,), 2.0))

    def test_inputs_and_outputs_of_trees(self):
        traced = fx.symbolic_trace(lambda a, b: a["x"] + b, concrete_args={"a": {"x": fx.PH, "y": fx.PH}})
        args = ({"x": torch.ones(2), "y": torch.zeros(2)}, torch.ones(2))
        torch.testing.assert_close(traced(*args), torch.full((2,), 2.0))
        self.assertEqual(len(traced.graph.process_inputs(*args)), 3)


if __name__ == "__main__":
    unittest.main()
