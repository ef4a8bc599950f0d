"""Modules that were scripted or traced, and graphs of the operators that they call."""

import copy
import importlib
import io
import pickle
import unittest

from module_under_test import torch

jit = importlib.import_module(torch.__name__ + ".jit")
nn = torch.nn
CORTEN = torch.__name__ == "corten"


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x) if self.training else self.inner(x) + 1


class Scripted(unittest.TestCase):
    def test_classes(self):
        module = network()
        x = torch.randn(2, 1, 6, 6)
        module.eval()
        for made in (jit.script(module), jit.trace(module, x)):
            self.assertIsInstance(made, jit.ScriptModule)
            self.assertIsInstance(made, nn.Module)
            self.assertIsNot(made, module)
            self.assertIsInstance(made[0] if CORTEN else getattr(made, "0"), nn.Module)
            self.assertEqual(made.original_name, "Sequential")
            torch.testing.assert_close(made(x), module(x))
            self.assertEqual(list(made.state_dict()), list(module.state_dict()))
        self.assertNotIsInstance(module, jit.ScriptModule)
        self.assertTrue(issubclass(jit.RecursiveScriptModule, jit.ScriptModule))

    def test_parameters_are_shared_and_modes_are_not(self):
        module = Counting()
        made = jit.script(module)
        made.eval()
        self.assertTrue(module.training and module.inner.training)
        self.assertFalse(made.inner.training)
        x = torch.ones(1, 2)
        torch.testing.assert_close(made(x), module(x) + 1)
        with torch.no_grad():
            module.inner.weight.fill_(2.0)
        torch.testing.assert_close(made(x), module(x) + 1)
        made(x).sum().backward()
        self.assertIsNotNone(module.inner.weight.grad)

    def test_again_and_copies(self):
        made = jit.script(Counting())
        self.assertIs(jit.script(made), made) if CORTEN else None
        copies = [copy.deepcopy(made)]
        if CORTEN:
            copies.append(pickle.loads(pickle.dumps(made)))
        for one in copies:
            self.assertIsInstance(one, jit.ScriptModule)
            torch.testing.assert_close(one(torch.ones(1, 2)), made(torch.ones(1, 2)))

    def test_functions(self):
        def double(x):
            return x * 2

        self.assertNotIsInstance(double, jit.ScriptFunction)
        for made in (jit.script(double), jit.trace(double, torch.ones(1))):
            self.assertIsInstance(made, jit.ScriptFunction)
            self.assertEqual(made(torch.ones(1)).item(), 2.0)

    def test_state_is_loaded(self):
        module, other = jit.script(Counting()), Counting()
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file))
        torch.testing.assert_close(other.inner.weight, module.inner.weight)


class Graphs(unittest.TestCase):
    def test_operators(self):
        module, x = network().eval(), torch.randn(2, 1, 6, 6)
        graph, result = jit._get_trace_graph(module, (x,))
        torch.testing.assert_close(result, module(x))
        nodes = {node.kind(): node for node in graph.nodes() if node.kind().startswith("aten::")}
        self.assertEqual(
            set(nodes), {"aten::_convolution", "aten::batch_norm", "aten::relu", "aten::flatten", "aten::linear"}
        )
        inputs = list(nodes["aten::_convolution"].inputs())
        self.assertEqual([one.type().sizes() for one in inputs[:3]], [[2, 1, 6, 6], [2, 1, 3, 3], [2]])
        self.assertEqual(inputs[6].toIValue(), False)
        self.assertEqual(list(nodes["aten::linear"].outputs())[0].type().sizes(), [2, 3])
        first = next(nodes["aten::linear"].inputs())
        self.assertEqual(first.node().kind(), "aten::flatten")
        self.assertFalse(jit.is_tracing())

    @unittest.skipUnless(CORTEN, "PyTorch keeps scopes elsewhere")
    def test_scopes(self):
        module = Counting()

        def enter(*_):
            self.assertTrue(jit.is_tracing())
            torch._C._get_tracing_state().push_scope("inner")

        def leave(*_):
            torch._C._get_tracing_state().pop_scope()

        module.inner.register_forward_pre_hook(enter)
        module.inner.register_forward_hook(leave)
        graph, _ = jit._get_trace_graph(module.eval(), torch.ones(1, 2))
        scopes = {node.kind(): node.scopeName() for node in graph.nodes()}
        self.assertEqual((scopes["aten::linear"], scopes["aten::add"]), ("inner", ""))

    def test_lists(self):
        graph, _ = jit._get_trace_graph(lambda a, b: torch.cat([a, b]), (torch.ones(1), torch.ones(2)))
        node = next(node for node in graph.nodes() if node.kind() == "aten::cat")
        made = next(node.inputs()).node()
        self.assertEqual(made.kind(), "prim::ListConstruct")
        self.assertEqual([one.type().sizes() for one in made.inputs()], [[1], [2]])


if __name__ == "__main__":
    unittest.main()
