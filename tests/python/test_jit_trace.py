"""Traces: the operators of a call, repeated with other arguments, and written as archives."""

import copy
import io
import pickle
import unittest
import warnings

from module_under_test import torch

nn = torch.nn
F = torch.nn.functional
CORTEN = torch.__name__ == "corten"


def again(made):
    """What an archive of a module or function gives."""
    file = io.BytesIO()
    torch.jit.save(made, file)
    file.seek(0)
    return torch.jit.load(file)


@torch.jit.script
def repeated(x, times: int):
    for _ in range(x.size(0)):
        x = x + times
    return x


class Gate(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.linear = torch.jit.script(Gate()), nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        return self.gate(y) + y


class Loop(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, xs):
        h = torch.zeros(2, 4)
        for i in range(xs.size(0)):
            h = self.cell(xs[i] + h)
        return h


class Outer(nn.Module):
    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def forward(self, xs):
        return torch.relu(self.loop(xs))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU())
        self.last = nn.Linear(12, 4)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x):
        x = F.interpolate(self.first(x), scale_factor=0.5)
        n, c, h, w = x.shape
        x = x.reshape(n, c * h * w)
        return self.last(x[:, :12]) * self.scale


class Functions(unittest.TestCase):
    def check(self, function, example, other):
        """That a trace gives what the function gives, also from an archive."""
        made = torch.jit.trace(function, example)
        for given in (example, other):
            expected = function(*given)
            torch.testing.assert_close(made(*given), expected)
            torch.testing.assert_close(again(made)(*given), expected)
        return made

    def test_operators(self):
        def function(x, y):
            z = (x + 1) * y.exp() - 2 / (y + 5)
            z = torch.where(z > 0, z, -z)
            z = torch.cat([z, x], dim=1).softmax(-1)
            values, places = z.max(1)
            return z.transpose(0, 1), values, places.to(torch.float64), torch.stack([values, values])

        self.check(function, (torch.randn(2, 3), torch.randn(2, 3)), (torch.randn(5, 4), torch.randn(5, 4)))

    def test_sizes(self):
        def function(x):
            n, width = x.shape
            ones = torch.ones(n, 1) * x.size(-1)
            return x.view(n * 2, width // 2), torch.zeros(n, width + 1), x.expand(3, n, width), ones, x[: n - 1]

        made = self.check(function, (torch.randn(2, 4),), (torch.randn(3, 6),))
        self.assertIn("size", made.code)

    def test_indexing(self):
        def function(x, mask):
            x = x.clone()
            x[0] = 1
            x[:, 1] += 2
            x[mask] = 0
            return x[..., 0], x[:, None, ::2], x[1:, torch.tensor([0, 1])], x[mask.logical_not()]

        self.check(
            function, (torch.randn(3, 4), torch.eye(3, 4) > 0), (torch.randn(5, 6), torch.eye(5, 6) > 0)
        )

    def test_in_place(self):
        def function(x):
            y = x * 2
            y.add_(1).relu_()
            z = y.view(-1)
            z.mul_(3)
            return y

        self.check(function, (torch.randn(2, 3),), (torch.randn(4, 5),))

    def test_structures(self):
        def function(pair, listed):
            a, b = pair
            return (a + b, [listed[0] * 2, listed[1]])

        self.check(function, ((torch.ones(2), torch.ones(2)), [torch.ones(1), torch.zeros(1)]),
                   ((torch.ones(3), torch.ones(3)), [torch.ones(4), torch.zeros(5)]))

    def test_dictionaries(self):
        made = torch.jit.trace(lambda x: {"a": x + 1, "b": x * 2}, (torch.ones(2),), strict=False)
        found = again(made)(torch.zeros(1))
        self.assertEqual({key: value.tolist() for key, value in found.items()}, {"a": [1.0], "b": [0.0]})

    def test_constants(self):
        table = torch.tensor([1.0, 2.0])
        made = torch.jit.trace(lambda x: x * table, (torch.ones(2),))
        self.assertEqual(again(made)(torch.ones(2)).tolist(), [1.0, 2.0])

    def test_parameters_of_others_are_no_constants(self):
        weight = nn.Parameter(torch.ones(1))
        with self.assertRaisesRegex(RuntimeError, "Cannot insert a Tensor that requires grad as a constant"):
            torch.jit.trace(lambda x: x * weight, (torch.ones(1),))

    def test_python_stays(self):
        def function(x):
            return x * 2 if x.sum() > 0 else x * 3

        with self.assertWarns(torch.jit.TracerWarning):
            made = torch.jit.trace(function, (torch.ones(1),))
        self.assertEqual(made(-torch.ones(1)).item(), -2.0)

    @unittest.skipUnless(CORTEN, "PyTorch refuses graphs that differ")
    def test_results_that_differ_are_warned_of(self):
        calls = []

        def function(x):
            calls.append(1)
            return x + torch.full((1,), float(len(calls)))

        with self.assertWarns(torch.jit.TracerWarning):
            torch.jit.trace(function, (torch.ones(1),))

    def test_random_numbers(self):
        made = torch.jit.trace(lambda x: F.dropout(x, 0.5), (torch.ones(100),), check_trace=False)
        torch.manual_seed(3)
        expected = F.dropout(torch.ones(100), 0.5)
        torch.manual_seed(3)
        torch.testing.assert_close(made(torch.ones(100)), expected)

    def test_outputs(self):
        with self.assertRaisesRegex(RuntimeError, "Only [Tt]ensors"):
            torch.jit.trace(lambda x: 3, (torch.ones(1),))

    def test_names_of_arguments(self):
        made = torch.jit.trace(lambda a, b: a - b, example_kwarg_inputs={"a": torch.ones(1), "b": torch.ones(1)})
        self.assertEqual(made(b=torch.ones(1), a=torch.zeros(1)).item(), -1.0)

    def test_as_decorator(self):
        self.assertIsInstance(torch.jit.trace(lambda x: x, torch.ones(1)), torch.jit.ScriptFunction)


class Compiled(unittest.TestCase):
    """What was compiled still decides by its arguments inside of traces."""

    def test_modules(self):
        module = Gated()
        traced = torch.jit.trace(module, torch.rand(2, 4))
        for one in (torch.ones(2, 4), -torch.ones(2, 4), 5 * torch.ones(2, 4), -5 * torch.ones(2, 4)):
            y = module.linear(one)
            expected = (y if y.sum() > 0 else -y) + y
            torch.testing.assert_close(traced(one), expected)
            torch.testing.assert_close(again(traced)(one), expected)

    def test_traces_in_scripts_in_traces(self):
        cell = torch.jit.trace(Gated(), torch.rand(2, 4))
        loop = torch.jit.script(Loop(cell))
        outer = torch.jit.trace(Outer(loop), torch.rand(3, 2, 4))
        for length in (1, 3, 5):
            xs = torch.randn(length, 2, 4)
            h = torch.zeros(2, 4)
            for x in xs:
                h = cell(x + h)
            torch.testing.assert_close(outer(xs), h.relu())
            torch.testing.assert_close(again(outer)(xs), h.relu())

    def test_functions(self):
        traced = torch.jit.trace(lambda x: repeated(x, 3) * 2, torch.ones(2))
        self.assertEqual(traced(torch.ones(4)).tolist(), [26.0] * 4)
        self.assertEqual(again(traced)(torch.ones(5)).tolist(), [32.0] * 5)


class Modules(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.module = Network().eval()
        self.made = torch.jit.trace(self.module, torch.randn(2, 2, 4, 4))
        self.x = torch.randn(3, 2, 6, 6)

    def test_results(self):
        self.assertIsInstance(self.made, torch.jit.ScriptModule)
        torch.testing.assert_close(self.made(self.x), self.module(self.x))
        torch.testing.assert_close(again(self.made)(self.x), self.module(self.x))

    def test_parameters_are_those_of_the_module(self):
        self.assertEqual(list(self.made.state_dict()), list(self.module.state_dict()))
        self.made(self.x).sum().backward()
        self.assertIsNotNone(self.made.last.weight.grad)
        with torch.no_grad():
            self.made.last.weight.zero_()
        torch.testing.assert_close(again(self.made)(self.x), self.made(self.x))

    def test_state_and_dtype(self):
        other = torch.jit.trace(Network().eval(), torch.randn(2, 2, 4, 4))
        other.load_state_dict(self.module.state_dict())
        torch.testing.assert_close(other(self.x), self.module(self.x))
        loaded = again(self.made).double()
        torch.testing.assert_close(loaded(self.x.double()), copy.deepcopy(self.module).double()(self.x.double()))

    def test_copies(self):
        made = [copy.deepcopy(self.made)]
        if CORTEN:
            made.append(pickle.loads(pickle.dumps(self.made)))
        for one in made:
            torch.testing.assert_close(one(self.x), self.module(self.x))
            torch.testing.assert_close(again(one)(self.x), self.module(self.x))

    def test_modes(self):
        module = Network()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = torch.jit.trace(module, torch.randn(2, 2, 4, 4), check_trace=False)
        before = module.first[1].running_mean.clone()
        made.eval()
        made(self.x)
        self.assertFalse(torch.equal(before, made.state_dict()["first.1.running_mean"]))

    def test_methods(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)

            def forward(self, x):
                return self.layer(x)

            def other(self, x, y):
                return self.layer(x) - y

        module, x = Two(), torch.ones(1, 2)
        made = torch.jit.trace_module(module, {"forward": x, "other": (x, x)})
        loaded = again(made)
        torch.testing.assert_close(loaded.other(x, x), module.other(x, x))
        torch.testing.assert_close(loaded(x), module(x))

    def test_recurrent(self):
        class Layers(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
                self.gru = nn.GRU(8, 2)
                self.attention = nn.MultiheadAttention(2, 1)

            def forward(self, x):
                y, (h, c) = self.lstm(x)
                z, _ = self.gru(y)
                return h, c, self.attention(z, z, z)[0]

        module = Layers().eval()
        made = torch.jit.trace(module, torch.randn(2, 3, 3))
        x = torch.randn(4, 5, 3)
        for one in (made, again(made)):
            torch.testing.assert_close(one(x), module(x))
        self.assertTrue(not CORTEN or "torch.lstm(" in again(made).code)

    def test_is_tracing(self):
        seen = []
        torch.jit.trace(lambda x: (seen.append(torch.jit.is_tracing()), x + 1)[1], torch.ones(1), check_trace=False)
        self.assertEqual(seen, [True])
        self.assertFalse(torch.jit.is_tracing())


if __name__ == "__main__":
    unittest.main()
