"""Graphs of whole calls for backends of programs."""

import copy
import importlib
import unittest

from module_under_test import torch

capture = importlib.import_module(f"{torch.__name__}.compiler._capture")
registry = importlib.import_module(f"{torch.__name__}._dynamo.backends.registry")
common = importlib.import_module(f"{torch.__name__}._dynamo.backends.common")
nn = torch.nn


class Recorded:
    """A backend that keeps the graphs."""

    def __init__(self):
        self.graphs = []

    def __call__(self, module, inputs):
        self.graphs.append((module, inputs))
        return module.forward


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


class Backends(unittest.TestCase):
    def test_modules_train(self):
        x = torch.randn(5, 3)
        for name in ("eager", "aot_eager", "aot_eager_decomp_partition"):
            with self.subTest(name):
                own, other = model(), model()
                compiled = capture.compile_with_backend(own, registry.lookup_backend(name))
                for _ in range(2):
                    made, wanted = compiled(x), other(x)
                    torch.testing.assert_close(made, wanted)
                    made.sum().backward()
                    wanted.sum().backward()
                for one, two in zip((*own.parameters(), *own.buffers()), (*other.parameters(), *other.buffers())):
                    torch.testing.assert_close(one, two)
                    if one.grad is not None:
                        torch.testing.assert_close(one.grad, two.grad, atol=1e-5, rtol=1e-4)

    def test_graphs_are_made_once_for_inputs_of_a_kind(self):
        backend, own = Recorded(), model().eval()
        compiled = capture.compile_with_backend(own, backend)
        for rows in (2, 2, 4, 2):
            torch.testing.assert_close(compiled(torch.ones(rows, 3)), own(torch.ones(rows, 3)))
        self.assertEqual(len(backend.graphs), 2)
        own.train()
        compiled(torch.ones(2, 3))
        self.assertEqual(len(backend.graphs), 3)
        module, inputs = backend.graphs[0]
        self.assertEqual([tuple(one.shape) for one in inputs], [(2, 3)])
        self.assertTrue(hasattr(module, "graph"))

    def test_trees_and_numbers(self):
        backend = Recorded()

        def program(d, scale=1):
            return {"sum": d["x"] + d["y"], "scaled": [d["x"] * scale, scale]}

        compiled = capture.compile_with_backend(program, backend)
        d = {"x": torch.ones(2), "y": torch.zeros(2)}
        for scale in (1, 2, 2):
            made = compiled(d, scale=scale)
            torch.testing.assert_close(made["scaled"][0], torch.full((2,), float(scale)))
            self.assertEqual(made["scaled"][1], scale)
        self.assertEqual(len(backend.graphs), 2)

    def test_programs_that_are_no_graphs_run_as_they_are(self):
        backend = Recorded()

        def program(x):
            return x * 2 if x.sum() > 0 else x

        compiled = capture.compile_with_backend(program, backend)
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
        torch.testing.assert_close(compiled(-torch.ones(2)), -torch.ones(2))
        self.assertEqual(backend.graphs, [])
        with self.assertRaises(capture.CaptureError):
            capture.compile_with_backend(program, backend, fullgraph=True)(torch.ones(2))

    def test_grad_mode_is_kept(self):
        backend = Recorded()

        def program(x):
            with torch.no_grad():
                scale = x.sum()
            return x * scale

        x = torch.ones(2, requires_grad=True)
        capture.compile_with_backend(program, backend)(x).sum().backward()
        torch.testing.assert_close(x.grad, torch.full((2,), 2.0))

    def test_both_passes_for_compilers(self):
        seen = []

        def compiler(module, inputs):
            seen.append(module)
            return module

        backend = common.aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
        own = copy.deepcopy(model()).eval()
        capture.compile_with_backend(own, backend)(torch.ones(2, 3)).sum().backward()
        self.assertEqual(len(seen), 2)

    def test_registry(self):
        def mine(module, inputs):
            return module.forward

        registry.register_backend(mine, name="a_backend_of_a_test")
        self.assertIs(registry.lookup_backend("a_backend_of_a_test"), mine)
        self.assertIn("a_backend_of_a_test", registry.list_backends())
        self.assertIs(registry.lookup_backend(mine), mine)
        with self.assertRaisesRegex(RuntimeError, "Invalid backend"):
            registry.lookup_backend("none of these")


if __name__ == "__main__":
    unittest.main()
