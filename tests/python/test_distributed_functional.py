"""Collectives that give new tensors, their gradients, and those of torch.distributed.nn."""

import unittest
import warnings

import corten as torch
import corten.distributed as dist
import corten.distributed._functional_collectives as funcol
import corten.distributed.nn.functional as nn_functional
from corten.distributed.device_mesh import init_device_mesh
from corten.fx.experimental.proxy_tensor import make_fx
from ranks_as_threads import ranks


def mine():
    return torch.arange(4.0) + dist.get_rank()


def differentiated(function):
    """What a function gives, and the gradient of its input, weighed by position and rank."""
    tensor = mine().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output = function(tensor)
    if isinstance(output, (tuple, list)):
        output = torch.cat([each.reshape(-1) for each in output])
    weights = torch.arange(1.0, output.numel() + 1).view(output.shape)
    ((output * weights).sum() * (dist.get_rank() + 1)).backward()
    return output.tolist(), tensor.grad.tolist()


class Values(unittest.TestCase):
    @ranks(2)
    def test_values(self):
        rank, tensor, group = dist.get_rank(), mine(), dist.group.WORLD
        total = funcol.all_reduce(tensor, "sum", group)
        self.assertIsInstance(total, funcol.AsyncCollectiveTensor)
        self.assertEqual((total + 1).tolist(), [2.0, 4.0, 6.0, 8.0])
        self.assertEqual(tensor.tolist(), mine().tolist())
        view = funcol.all_reduce(tensor, "max", group).view(2, 2)
        self.assertIsInstance(view, funcol.AsyncCollectiveTensor)
        self.assertEqual(view.tolist(), [[1.0, 2.0], [3.0, 4.0]])
        cases = (
            (funcol.all_gather_tensor(tensor, 0, group), [0.0, 1, 2, 3, 1, 2, 3, 4]),
            (funcol.all_gather_tensor(tensor.view(2, 2), 1, group), [[0.0, 1, 1, 2], [2, 3, 3, 4]]),
            (funcol.reduce_scatter_tensor(tensor, "sum", 0, group), [[1.0, 3], [5, 7]][rank]),
            (funcol.reduce_scatter_tensor(tensor.view(2, 2), "avg", 1, group), [[[0.5], [2.5]], [[1.5], [3.5]]][rank]),
            (funcol.all_to_all_single(tensor, None, None, group), [[0.0, 1, 1, 2], [2, 3, 3, 4]][rank]),
            (funcol.all_to_all_single(tensor, [[1, 1], [3, 3]][rank], [1, 3], group), [[0.0, 1], [1, 2, 3, 2, 3, 4]][rank]),
            (funcol.permute_tensor(tensor, [1, 0], group), (mine() + 1 - 2 * rank).tolist()),
            (funcol.broadcast(tensor, 1, group), [1.0, 2, 3, 4]),
            (funcol.all_reduce(tensor, dist.ReduceOp.PREMUL_SUM(3.0), group), [3.0, 9, 15, 21]),
        )
        for place, (found, expected) in enumerate(cases):
            self.assertEqual(found.tolist(), expected, place)

    @ranks(2)
    def test_several_at_once(self):
        tensor, group = mine(), dist.group.WORLD
        first, second = funcol.all_reduce_coalesced([tensor, tensor.view(2, 2)], "min", group)
        self.assertEqual((first.tolist(), second.tolist()), ([0.0, 1, 2, 3], [[0.0, 1], [2, 3]]))
        _, second = funcol.all_gather_into_tensor_coalesced([tensor, tensor + 1], group)
        self.assertEqual(second.tolist(), [1.0, 2, 3, 4, 2, 3, 4, 5])
        first, _ = funcol.reduce_scatter_tensor_coalesced([tensor, tensor], "sum", [0, 0], group)
        self.assertEqual(first.tolist(), [[1.0, 3], [5, 7]][dist.get_rank()])

    @ranks(2)
    def test_forms_of_groups(self):
        mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("x", "y"))
        for group in ((mesh, 1), mesh["y"], mesh.get_group("y"), mesh.get_group("y").group_name):
            self.assertEqual(funcol.all_reduce(mine(), "sum", group).tolist(), [1.0, 3, 5, 7])
        with self.assertRaisesRegex(AssertionError, "Only 1D mesh is supported"):
            funcol.all_reduce(mine(), "sum", mesh)
        with self.assertRaisesRegex(ValueError, "Unsupported group type"):
            funcol.all_reduce(mine(), "sum", 7)

    @ranks(2)
    def test_captured(self):
        group = dist.group.WORLD
        graph = make_fx(lambda tensor: funcol.all_reduce(tensor, "sum", group) + 1)(mine())
        self.assertEqual(graph(mine()).tolist(), [2.0, 4, 6, 8])
        called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        self.assertEqual(
            called, ["_c10d_functional.all_reduce.default", "_c10d_functional.wait_tensor.default", "aten.add.Tensor"]
        )


class Gradients(unittest.TestCase):
    @ranks(2)
    def test_gradients(self):
        rank, group = dist.get_rank(), dist.group.WORLD
        cases = (
            (lambda t: funcol.all_reduce(t, "sum", group), [3.0, 6, 9, 12]),
            (lambda t: funcol.all_reduce(t, "avg", group), [1.5, 3, 4.5, 6]),
            (lambda t: funcol.all_reduce(t, "max", group), [[0.0] * 4, [3.0, 6, 9, 12]][rank]),
            (lambda t: funcol.all_gather_tensor(t, 0, group), [[3.0, 6, 9, 12], [15.0, 18, 21, 24]][rank]),
            (lambda t: funcol.reduce_scatter_tensor(t, "sum", 0, group), [1.0, 2, 2, 4]),
            (lambda t: funcol.all_to_all_single_autograd(t, None, None, group), [[1.0, 2, 2, 4], [3.0, 4, 6, 8]][rank]),
            (lambda t: funcol.all_reduce(t, dist.ReduceOp.PREMUL_SUM(2.0), group), [6.0, 12, 18, 24]),
        )
        for place, (function, expected) in enumerate(cases):
            self.assertEqual(differentiated(function)[1], expected, place)

    @ranks(2)
    def test_no_gradient(self):
        with self.assertRaisesRegex(RuntimeError, "all_reduce backward only supports"):
            differentiated(lambda t: funcol.all_reduce(t, "product", dist.group.WORLD))

    @ranks(2)
    def test_of_modules(self):
        rank = dist.get_rank()
        cases = (
            (nn_functional.all_reduce, [1.0, 3, 5, 7], [3.0, 6, 9, 12]),
            (nn_functional.all_gather, [0.0, 1, 2, 3, 1, 2, 3, 4], [[3.0, 6, 9, 12], [15.0, 18, 21, 24]][rank]),
            (lambda t: nn_functional.broadcast(t, 1), [1.0, 2, 3, 4], [[0.0] * 4, [3.0, 6, 9, 12]][rank]),
            (
                lambda t: nn_functional.reduce_scatter(torch.zeros(2), list(t.chunk(2))),
                [[1.0, 3], [5.0, 7]][rank], [1.0, 2, 2, 4],
            ),
            (
                lambda t: nn_functional.all_to_all([torch.zeros(2), torch.zeros(2)], list(t.chunk(2))),
                [[0.0, 1, 1, 2], [2.0, 3, 3, 4]][rank], [[1.0, 2, 2, 4], [3.0, 4, 6, 8]][rank],
            ),
            (
                lambda t: nn_functional.all_to_all_single(torch.zeros(4), t),
                [[0.0, 1, 1, 2], [2.0, 3, 3, 4]][rank], [[1.0, 2, 2, 4], [3.0, 4, 6, 8]][rank],
            ),
        )
        for place, (function, value, gradient) in enumerate(cases):
            self.assertEqual(differentiated(function), (value, gradient), place)


if __name__ == "__main__":
    unittest.main()
