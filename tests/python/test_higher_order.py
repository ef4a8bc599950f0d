"""Operators that take functions: their results and gradients, and what they are in exported programs."""

import unittest
import warnings

from module_under_test import torch

from importlib import import_module

NAME = torch.__name__
while_loop = import_module(f"{NAME}._higher_order_ops.while_loop").while_loop
hop_map = import_module(f"{NAME}._higher_order_ops.map").map
scan = import_module(f"{NAME}._higher_order_ops.scan").scan
associative_scan = import_module(f"{NAME}._higher_order_ops.associative_scan").associative_scan
out_dtype = import_module(f"{NAME}._higher_order_ops.out_dtype").out_dtype
export = import_module(f"{NAME}.export").export


class Called(torch.nn.Module):
    """A function as a module with a parameter."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.w = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, *args):
        return self.function(self, *args)


def x():
    return torch.arange(6.0).reshape(2, 3)


def calls(graph):
    return [str(node.target) for node in graph.nodes if node.op == "call_function" and "getitem" not in str(node.target)]


class Eager(unittest.TestCase):
    def test_cond_runs_one_function(self):
        for pred, factor in ((True, 2), (torch.tensor(False), 3), (torch.tensor([True]), 2)):
            found = torch.cond(pred, lambda x: x * 2, lambda x: x * 3, (x(),))
            self.assertTrue(torch.equal(found, x() * factor))

    def test_cond_is_differentiable(self):
        value = x().requires_grad_()
        torch.cond(torch.tensor(True), lambda x: x * x, lambda x: x * 2, (value,)).sum().backward()
        self.assertTrue(torch.equal(value.grad, 2 * x()))

    def test_cond_takes_and_gives_trees(self):
        found = torch.cond(torch.tensor(True), lambda a, b: {"s": a + b["k"]}, lambda a, b: {"s": a}, (x(), {"k": x()}))
        self.assertTrue(torch.equal(found["s"], 2 * x()))

    def test_cond_refuses_what_is_no_condition(self):
        with self.assertRaisesRegex(RuntimeError, "Expected pred to be bool or single-element tensor"):
            torch.cond(torch.tensor([True, False]), lambda x: x, lambda x: x + 1, (x(),))
        with self.assertRaises(TypeError):
            torch.cond(True, 1, lambda x: x, (x(),))

    def test_while_loop(self):
        count, value = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + 1), (torch.tensor(0), x()))
        self.assertEqual(count.item(), 3)
        self.assertTrue(torch.equal(value, x() + 3))
        with self.assertRaisesRegex(RuntimeError, "Expect cond_fn and body_fn to be callable"):
            while_loop(1, lambda i: (i,), (torch.tensor(0),))
        with self.assertRaises(RuntimeError):
            while_loop(lambda i, x: i < 3, lambda i, x: (i + 1,), (torch.tensor(0), x()))

    def test_map_stacks_the_results_of_slices(self):
        found = hop_map(lambda row, y: row * y, x(), torch.tensor([1.0, 2.0, 3.0]))
        self.assertTrue(torch.equal(found, x() * torch.tensor([1.0, 2.0, 3.0])))
        value = x().requires_grad_()
        hop_map(lambda row: row * row, value).sum().backward()
        self.assertTrue(torch.equal(value.grad, 2 * x()))
        with self.assertRaisesRegex(RuntimeError, "Mapped xs can only consist of tensors"):
            hop_map(lambda row: row, 3)

    def test_scan_carries_a_value(self):
        carry, ys = scan(lambda c, x: (c + x, c * x), x()[0], x(), dim=0)
        self.assertEqual(carry.tolist(), [3, 6, 9])
        self.assertEqual(ys.tolist(), [[0, 1, 4], [0, 8, 20]])
        carry, ys = scan(lambda c, x: (c + x, c * x), x()[0], x(), dim=0, reverse=True)
        self.assertEqual(ys.tolist(), [[0, 5, 14], [0, 4, 10]])
        value = x().requires_grad_()
        scan(lambda c, x: (c + x, c * x), value[0] * 1, value, dim=0)[1].sum().backward()
        self.assertEqual(value.grad.tolist(), [[6, 10, 14], [0, 2, 4]])

    def test_associative_scan(self):
        found = associative_scan(lambda a, b: a + b, x(), 1, combine_mode="generic")
        self.assertTrue(torch.equal(found, x().cumsum(1)))
        found = associative_scan(lambda a, b: a * b, x() + 1, 0, reverse=True, combine_mode="generic")
        self.assertEqual(found.tolist(), [[4, 10, 18], [4, 5, 6]])
        with self.assertRaisesRegex(ValueError, "Combine_mode must either"):
            associative_scan(lambda a, b: a + b, x(), 0, combine_mode="q")

    def test_names(self):
        op = torch.ops.higher_order.cond
        self.assertEqual((str(op), op.__name__, op.name()), ("cond", "cond", "cond"))


class Exported(unittest.TestCase):
    def program(self, function, *args):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = export(Called(function), args)
        wanted = Called(function)(*args)
        found = program.module()(*args)
        for one, other in zip(_leaves(wanted), _leaves(found)):
            self.assertTrue(torch.allclose(one, other))
        return program

    def test_cond_has_both_graphs(self):
        program = self.program(
            lambda s, x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + s.w, (x,)), x()
        )
        self.assertEqual(calls(program.graph), ["aten.sum.default", "aten.gt.Scalar", "cond"])
        module = program.graph_module
        self.assertEqual(calls(module.true_graph_0.graph), ["aten.sin.default"])
        self.assertEqual(calls(module.false_graph_0.graph), ["aten.cos.default", "aten.add.Tensor"])
        for name in ("true_graph_0", "false_graph_0"):
            inputs = [node.name for node in getattr(module, name).graph.nodes if node.op == "placeholder"]
            self.assertEqual(inputs, ["args_0", "p_w"])
        negative = -x() - 1
        self.assertTrue(torch.allclose(program.module()(negative), negative.cos() + torch.tensor([1.0, 2.0, 3.0])))

    def test_cond_in_cond(self):
        program = self.program(
            lambda s, p, x: torch.cond(
                p, lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - s.w, (x,)), lambda x: x * s.w, (x,),
            ), torch.tensor(True), x(),
        )
        inner = program.graph_module.true_graph_0
        self.assertEqual(calls(inner.graph), ["aten.sum.default", "aten.gt.Scalar", "cond"])
        self.assertEqual(calls(inner.true_graph_0.graph), ["aten.add.Tensor"])

    def test_cond_of_a_constant_is_one_branch(self):
        program = self.program(lambda s, x: torch.cond(True, lambda x: x + 1, lambda x: x + 2, (x,)), x())
        self.assertEqual(calls(program.graph), ["aten.add.Tensor"])

    def test_cond_refuses_inputs_that_are_written_to_or_returned(self):
        for function, text in ((lambda x: x.add_(1), "input mutation"), (lambda x: x, "aliasing")):
            with self.subTest(text), self.assertRaisesRegex(RuntimeError, text):
                self.program(lambda s, p, x, f=function: torch.cond(p, f, lambda x: x + 1, (x,)), torch.tensor(True), x())

    def test_while_loop(self):
        program = self.program(
            lambda s, x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + s.w), (torch.tensor(0), x)), x()
        )
        self.assertEqual(calls(program.graph)[-1], "while_loop")
        self.assertEqual(calls(program.graph_module.while_loop_cond_graph_0.graph), ["aten.lt.Scalar"])
        self.assertEqual(calls(program.graph_module.while_loop_body_graph_0.graph), ["aten.add.Tensor"] * 2)

    def test_map_and_scan(self):
        program = self.program(lambda s, x: hop_map(lambda row: row * s.w, x), x())
        self.assertEqual(calls(program.graph), ["map_impl"])
        program = self.program(lambda s, x: scan(lambda c, x: (c + x, c * s.w), x[0], x, dim=0), x())
        self.assertEqual(calls(program.graph), ["aten.select.int", "scan"])
        self.assertEqual(calls(program.graph_module.scan_combine_graph_0.graph), ["aten.add.Tensor", "aten.mul.Tensor"])

    def test_out_dtype(self):
        program = self.program(
            lambda s, x: out_dtype(torch.ops.aten.mm.default, torch.int32, x.to(torch.int8), x.to(torch.int8).t()), x()
        )
        self.assertEqual(calls(program.graph)[-1], "out_dtype")

    def test_decompositions_reach_the_branches(self):
        program = self.program(
            lambda s, p, x: torch.cond(p, lambda x: x.t().t(), lambda x: x * 2, (x,)) if False else
            torch.cond(p, lambda x: torch.nn.functional.silu(x), lambda x: x * 2, (x,)), torch.tensor(True), x(),
        )
        lowered = program.run_decompositions()
        self.assertIn("aten.sigmoid.default", calls(lowered.graph_module.true_graph_0.graph))
        self.assertTrue(torch.allclose(lowered.module()(torch.tensor(True), x()), torch.nn.functional.silu(x())))


def _leaves(tree):
    return [one for one in import_module(f"{NAME}.utils._pytree").tree_leaves(tree) if isinstance(one, torch.Tensor)]


if __name__ == "__main__":
    unittest.main()
