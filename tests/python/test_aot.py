"""AOT capture: graphs of both passes are those of PyTorch; compiled functions do what functions do."""

import importlib
import json
import pathlib
import unittest

from make_fx_cases import compiled_programs
from module_under_test import torch

aot = importlib.import_module(f"{torch.__name__}._functorch.aot_autograd")
compilers = importlib.import_module(f"{torch.__name__}._functorch.compilers")
partitioners = importlib.import_module(f"{torch.__name__}._functorch.partitioners")
F = torch.nn.functional
GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "goldens" / "make_fx.json").read_text())["passes"]


def tensors(made):
    """The tensors of a result."""
    return [one for one in torch.utils._pytree.tree_leaves(made) if isinstance(one, torch.Tensor)]


def run(function, args):
    """Results, arguments after the call, and gradients."""
    made = tensors(function(*args))
    recorded = [one for one in made if one.requires_grad]
    if recorded:
        sum((one * one).sum() for one in recorded).backward()
    return [one.detach() for one in made], [one.detach() for one in args], [one.grad for one in args if one.is_leaf]


class Golden(unittest.TestCase):
    maxDiff = None

    def test_passes(self):
        for name, (function, args) in compiled_programs(torch).items():
            texts = {}

            def keep(key, texts=texts):
                def compiler(module, inputs):
                    texts[key] = module.code
                    return module

                return compiler

            with self.subTest(name):
                run(aot.aot_function(function, keep("forward"), keep("backward"), partitioners.default_partition), args)
                self.assertEqual(texts, GOLDEN[name])


class Compiled(unittest.TestCase):
    def check(self, partition, **options):
        for name, (function, args) in compiled_programs(torch).items():
            copies = [one.detach().clone().requires_grad_(one.requires_grad) for one in args]
            compiled = aot.aot_function(function, compilers.nop, partition_fn=partition, **options)
            with self.subTest(name):
                for got, wanted in zip(run(compiled, args), run(function, copies), strict=True):
                    for one, other in zip(got, wanted, strict=True):
                        self.assertEqual(one is None, other is None)
                        if one is not None:
                            torch.testing.assert_close(one, other)

    def test_default_partition(self):
        self.check(partitioners.default_partition)

    def test_min_cut(self):
        self.check(partitioners.min_cut_rematerialization_partition)

    def test_decompositions(self):
        decomp = importlib.import_module(f"{torch.__name__}._decomp")
        self.check(partitioners.default_partition, decompositions=decomp.core_aten_decompositions())

    def test_min_cut_saves_less(self):
        counts = []

        def count(module, inputs):
            counts.append(sum(one.numel() for one in inputs))
            return module

        def chain(x):
            return x.sin().cos().exp().tanh().sin()

        for partition in (partitioners.default_partition, partitioners.min_cut_rematerialization_partition):
            x = torch.ones(4, requires_grad=True)
            aot.aot_function(chain, compilers.nop, count, partition)(x).sum().backward()
        self.assertGreater(counts[0], counts[1])

    def test_equal_arguments(self):
        x = torch.ones(2, requires_grad=True)
        aot.aot_function(lambda a, b: a * b, compilers.nop)(x, x).sum().backward()
        torch.testing.assert_close(x.grad, torch.full((2,), 2.0))

    def test_views_of_inputs_are_views(self):
        x = torch.ones(2, 2)
        view, whole, other = aot.aot_function(lambda x: (x.view(-1), x, x * 2), compilers.nop)(x)
        self.assertIs(whole, x)
        self.assertEqual(view.data_ptr(), x.data_ptr())
        self.assertNotEqual(other.data_ptr(), x.data_ptr())

    def test_new_shapes_are_new_graphs(self):
        made = []

        def compiler(module, inputs):
            made.append([tuple(one.shape) for one in inputs])
            return module

        compiled = aot.aot_function(lambda x: x.sum(0), compiler)
        for size in ((2, 3), (4, 3), (2, 3)):
            torch.testing.assert_close(compiled(torch.ones(size)), torch.ones(size).sum(0))
        self.assertEqual(made[0], [(2, 3)])

    def test_random_numbers_keep_their_order(self):
        def program(x):
            return x + torch.rand(3), F.dropout(x, 0.5)

        compiled = aot.aot_function(program, compilers.nop)
        torch.manual_seed(1)
        wanted = program(torch.ones(3))
        torch.manual_seed(1)
        for got, other in zip(compiled(torch.ones(3)), wanted):
            torch.testing.assert_close(got, other)

    def test_modules(self):
        layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
        x = torch.ones(2, 3)
        layer(x).sum().backward()
        wanted = [one.grad.clone() for one in layer.parameters()]
        layer.zero_grad()
        compiled = aot.aot_module(layer, compilers.nop)
        torch.testing.assert_close(compiled(x), layer(x))
        compiled(x).sum().backward()
        for parameter, grad in zip(layer.parameters(), wanted):
            torch.testing.assert_close(parameter.grad, grad)

    def test_simplified_takes_modules_of_tuples(self):
        class Pair(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(3, 2)

            def forward(self, x):
                return self.layer(x), x + 1

        pair = Pair()
        compiled = aot.aot_module_simplified(pair, (torch.ones(2, 3),), compilers.nop)
        for got, wanted in zip(compiled(torch.ones(2, 3)), pair(torch.ones(2, 3))):
            torch.testing.assert_close(got, wanted)
        with self.assertRaisesRegex(RuntimeError, "Graph output must be a"):
            aot.aot_module_simplified(torch.nn.Linear(3, 2), (torch.ones(2, 3),), compilers.nop)

    def test_memory_efficient_fusion(self):
        x = torch.ones(3, requires_grad=True)
        compilers.memory_efficient_fusion(lambda x: F.silu(x).sum())(x).backward()
        y = torch.ones(3, requires_grad=True)
        F.silu(y).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


class Export(unittest.TestCase):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x):
            self.count.add_(1)
            return (self.layer(x) + self.count).sum(), x * 2

    def test_forward(self):
        module = self.Counting()
        graph, signature = aot.aot_export_module(module, (torch.ones(2, 3),), trace_joint=False)
        self.assertEqual(signature.parameters, ["layer.weight", "layer.bias"])
        self.assertEqual(signature.buffers, ["count"])
        self.assertEqual(signature.inputs_to_buffers, {"arg2_1": "count"})
        self.assertEqual(signature.buffers_to_mutate, {"add": "count"})
        self.assertEqual(signature.user_inputs, ["arg3_1"])
        torch.testing.assert_close(module.count, torch.zeros(2))
        args = [*module.parameters(), *module.buffers(), torch.ones(2, 3)]
        added, loss, other = graph(*args)
        torch.testing.assert_close(added, torch.ones(2))
        torch.testing.assert_close(loss, module(torch.ones(2, 3))[0])
        torch.testing.assert_close(other, torch.full((2, 3), 2.0))

    def test_joint(self):
        module = self.Counting()
        graph, signature = aot.aot_export_module(module, (torch.ones(2, 3),), trace_joint=True, output_loss_index=0)
        names = signature.backward_signature.gradients_to_parameters
        self.assertEqual(set(names.values()), {"layer.weight", "layer.bias"})
        outputs = graph(*module.parameters(), *module.buffers(), torch.ones(2, 3))
        module(torch.ones(2, 3))[0].backward()
        torch.testing.assert_close(outputs[-2], module.layer.weight.grad)
        torch.testing.assert_close(outputs[-1], module.layer.bias.grad)

    def test_joint_of_a_function(self):
        x, w = torch.ones(2, requires_grad=True), torch.full((2,), 3.0)
        graph = aot.aot_export_joint_simple(lambda x, w: [x * w], [x, w], trace_joint=True)
        (made,), (grad, nothing) = graph([x, w], [torch.ones(2)])
        torch.testing.assert_close(made, x * w)
        torch.testing.assert_close(grad, w)
        self.assertIsNone(nothing)


if __name__ == "__main__":
    unittest.main()
