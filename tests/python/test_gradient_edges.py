"""Backward passes that begin or end at edges of the graph."""

import unittest

from module_under_test import torch

get_gradient_edge = torch.autograd.graph.get_gradient_edge
GradientEdge = torch.autograd.graph.GradientEdge


class Edges(unittest.TestCase):
    def test_inputs(self):
        x = torch.rand(2, requires_grad=True)
        for value in (x, x.clone(), torch.var_mean(x.clone())[1]):
            out = value * 3
            expected = torch.autograd.grad(out.sum(), value, retain_graph=True)
            found = torch.autograd.grad(out.sum(), get_gradient_edge(value))
            self.assertTrue(torch.equal(expected[0], found[0]))

    def test_edge_before_a_change_in_place(self):
        x = torch.rand(2, requires_grad=True).clone()
        edge = get_gradient_edge(x)
        x *= 2
        before, after = torch.autograd.grad(x.sum(), (edge, x))
        self.assertEqual((before.tolist(), after.tolist()), ([2.0, 2.0], [1.0, 1.0]))

    def test_roots(self):
        x = torch.rand(3, requires_grad=True)
        y = x * 2
        edge = get_gradient_edge(y)
        del y
        torch.autograd.backward(edge, torch.ones(3))
        self.assertEqual(x.grad.tolist(), [2.0, 2.0, 2.0])
        found, = torch.autograd.grad([get_gradient_edge((x * 5).sum())], [x], [torch.ones(())])
        self.assertEqual(found.tolist(), [5.0, 5.0, 5.0])

    def test_leaves_as_inputs_of_backward(self):
        x, y = torch.rand(2, requires_grad=True), torch.rand(2, requires_grad=True)
        torch.autograd.backward((x * y).sum(), inputs=(get_gradient_edge(x),))
        self.assertTrue(torch.equal(x.grad, y.detach()))
        self.assertIsNone(y.grad)

    def test_zeros_need_a_tensor(self):
        x, y = torch.rand(2, requires_grad=True).clone(), torch.rand(2, requires_grad=True)
        edge, other = get_gradient_edge(x), get_gradient_edge(y)
        found = torch.autograd.grad(x.clone().sum(), (edge, y), materialize_grads=True)
        self.assertEqual([one.tolist() for one in found], [[1.0, 1.0], [0.0, 0.0]])
        with self.assertRaisesRegex(
            RuntimeError, "materialize_grads cannot be used when the given input is a GradientEdge"
        ):
            torch.autograd.grad(x.clone().sum(), (x, other), materialize_grads=True)

    def test_shapes_of_gradients_are_checked(self):
        x = torch.rand(3, requires_grad=True)
        edge = get_gradient_edge(x * 2)
        with self.assertRaises(RuntimeError):
            torch.autograd.backward(edge, torch.ones(4))

    def test_batches_must_fit(self):
        x = torch.rand(2, 2, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, "If `is_grads_batched=True`, we interpret the first"):
            torch.autograd.grad([x.clone()], [x], [torch.ones(2, 3)], is_grads_batched=True)


if __name__ == "__main__":
    unittest.main()
