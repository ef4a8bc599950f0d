"""Modules: registration, state, hooks, conversion, what they print."""

import copy
import pickle
import unittest
import warnings
from collections import OrderedDict

from module_under_test import torch

nn = torch.nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 4)
        self.b = nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False))
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("hidden", torch.zeros(1), persistent=False)

    def forward(self, x):
        return self.b(self.a(x)) * self.scale


class Registration(unittest.TestCase):
    def test_names_and_order(self):
        net = Net()
        self.assertEqual(
            list(net.state_dict()), ["scale", "count", "a.weight", "a.bias", "b.1.weight"]
        )
        self.assertEqual(
            [name for name, _ in net.named_parameters()],
            ["scale", "a.weight", "a.bias", "b.1.weight"],
        )
        self.assertEqual([name for name, _ in net.named_modules()], ["", "a", "b", "b.0", "b.1"])

    def test_shared_parameters_appear_once(self):
        net = Net()
        net.twin = net.a
        self.assertEqual(len(list(net.parameters())), 4)
        self.assertEqual(len(list(net.named_parameters(remove_duplicate=False))), 6)

    def test_assignment_rules(self):
        net = Net()
        with self.assertRaises(TypeError):
            net.scale = torch.ones(2)
        with self.assertRaises(TypeError):
            net.a = 3
        net.a = None
        self.assertIsNone(net.a)
        net.count = torch.ones(())
        self.assertIn("count", net._buffers)
        del net.scale
        with self.assertRaises(AttributeError):
            net.scale

    def test_before_init(self):
        class Wrong(nn.Module):
            def __init__(self):
                self.a = nn.Parameter(torch.ones(1))

        with self.assertRaises(AttributeError):
            Wrong()

    def test_containers(self):
        seq = nn.Sequential(OrderedDict(one=nn.ReLU(), two=nn.Tanh()))
        self.assertIs(seq.one, seq[0])
        self.assertEqual(len(seq[:1]), 1)
        items = nn.ModuleList([nn.ReLU() for _ in range(3)])
        items.append(nn.Tanh())
        items.insert(0, nn.Tanh())
        del items[1]
        self.assertEqual([type(m).__name__ for m in items], ["Tanh", "ReLU", "ReLU", "Tanh"])
        self.assertEqual(list(items._modules), ["0", "1", "2", "3"])
        named = nn.ModuleDict({"x": nn.ReLU()})
        self.assertIn("x", named)
        params = nn.ParameterList([torch.ones(1), torch.ones(2)])
        self.assertIn("(1): Parameter containing: [torch.float32 of size 2]", repr(params))
        self.assertEqual(len(list(params.parameters())), 2)
        self.assertEqual(list(nn.ParameterDict({"p": torch.ones(1)}).state_dict()), ["p"])

    def test_buffers_and_parameters_by_class(self):
        net = nn.Module()
        net.b = nn.Buffer(torch.ones(2))
        self.assertIn("b", net.state_dict())
        self.assertIsInstance(nn.Parameter(torch.ones(1)), nn.Parameter)
        self.assertIsInstance(nn.Parameter(torch.ones(1)), torch.Tensor)
        self.assertNotIsInstance(torch.ones(1), nn.Parameter)


class State(unittest.TestCase):
    def test_round_trip(self):
        a, b = Net(), Net()
        self.assertEqual(str(b.load_state_dict(a.state_dict())), "<All keys matched successfully>")
        for x, y in zip(a.parameters(), b.parameters()):
            self.assertTrue(torch.equal(x, y))

    def test_state_shares_memory(self):
        net = Net()
        net.state_dict()["scale"].fill_(7)
        self.assertEqual(net.scale.tolist(), [7, 7])

    def test_mismatches(self):
        net = Net()
        state = net.state_dict()
        del state["scale"]
        state["more"] = torch.ones(1)
        with self.assertRaisesRegex(RuntimeError, 'Missing key.*"scale"'):
            net.load_state_dict(state)
        result = net.load_state_dict(state, strict=False)
        self.assertEqual((result.missing_keys, result.unexpected_keys), (["scale"], ["more"]))
        state = net.state_dict()
        state["scale"] = torch.ones(3)
        with self.assertRaisesRegex(RuntimeError, "size mismatch for scale"):
            net.load_state_dict(state)

    def test_assign(self):
        net = Net()
        state = {key: value.clone() for key, value in net.state_dict().items()}
        net.load_state_dict(state, assign=True)
        self.assertEqual(net.a.weight.data_ptr(), state["a.weight"].data_ptr())
        self.assertIsInstance(net.a.weight, nn.Parameter)

    def test_deepcopy_and_pickle(self):
        net = Net()
        for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            self.assertIsNot(twin.scale, net.scale)
            self.assertTrue(torch.equal(twin.a.weight, net.a.weight))
            self.assertTrue(twin.a.weight.requires_grad)


class Hooks(unittest.TestCase):
    def test_forward(self):
        net, seen = Net(), []
        first = net.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
        net.register_forward_hook(lambda m, args, out: seen.append(args[0].sum().item()))
        net.register_forward_hook(lambda m, args, out: out + 1)
        net.register_forward_pre_hook(lambda m, args: seen.append("first"), prepend=True)
        self.assertTrue(torch.equal(net(torch.ones(1, 3)), net(torch.zeros(1, 3))))
        first.remove()
        net(torch.ones(1, 3))
        self.assertEqual(seen, ["first", 0.0, "first", 0.0, "first", 3.0])

    def test_keyword_arguments(self):
        class Plus(nn.Module):
            def forward(self, x, y=0):
                return x + y

        plus = Plus()
        plus.register_forward_pre_hook(lambda m, a, k: (a, {"y": 5}), with_kwargs=True)
        self.assertEqual(plus(1, y=2), 6)

    def test_full_backward(self):
        net, seen = nn.Linear(3, 2), []
        net.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].shape, go[0].shape)))
        net.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
        x = torch.ones(4, 3, requires_grad=True)
        net(x).sum().backward()
        self.assertEqual([tuple(map(tuple, s)) for s in seen], [((4, 3), (4, 2))])
        self.assertTrue(torch.allclose(x.grad, 2 * net.weight.sum(0).expand(4, 3)))

    def test_always_called(self):
        class Bad(nn.Module):
            def forward(self):
                raise ValueError

        seen, bad = [], Bad()
        bad.register_forward_hook(lambda m, a, o: seen.append(o), always_call=True)
        with self.assertRaises(ValueError):
            bad()
        self.assertEqual(seen, [None])


class Modes(unittest.TestCase):
    def test_train_and_eval(self):
        net = Net()
        self.assertFalse(net.eval().b[0].training)
        self.assertTrue(net.train().b[0].training)

    def test_conversion_keeps_objects(self):
        net = Net()
        before = net.a.weight
        self.assertIs(net.double(), net)
        self.assertIs(net.a.weight, before)
        self.assertEqual(net.a.weight.dtype, torch.float64)
        self.assertEqual(net.to(torch.float32).count.dtype, torch.float32)

    def test_zero_grad(self):
        net = Net()
        net(torch.ones(1, 3)).sum().backward()
        net.zero_grad(set_to_none=False)
        self.assertEqual(net.scale.grad.tolist(), [0, 0])
        net.zero_grad()
        self.assertIsNone(net.scale.grad)

    def test_apply_children_first(self):
        seen = []
        Net().apply(lambda m: seen.append(type(m).__name__))
        self.assertEqual(seen, ["Linear", "ReLU", "Linear", "Sequential", "Net"])


class Printing(unittest.TestCase):
    def test_tree(self):
        self.assertEqual(
            repr(Net()),
            "Net(\n  (a): Linear(in_features=3, out_features=4, bias=True)\n  (b): Sequential(\n"
            "    (0): ReLU()\n    (1): Linear(in_features=4, out_features=2, bias=False)\n  )\n)",
        )

    def test_runs_in_lists(self):
        self.assertEqual(
            repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])),
            "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)",
        )

    def test_settings(self):
        for module, text in (
            (nn.Conv2d(1, 2, 3, padding=1, bias=False),
             "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)"),
            (nn.Dropout(0.2), "Dropout(p=0.2, inplace=False)"),
            (nn.Embedding(4, 2, padding_idx=0), "Embedding(4, 2, padding_idx=0)"),
            (nn.MaxPool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"),
        ):
            self.assertEqual(repr(module), text)


class Initialisation(unittest.TestCase):
    def test_truncated_normal(self):
        """PyTorch's draws for one seed, and where the next one begins."""
        cases = (
            ((0.0, 0.02), [0.03082, -0.00587, -0.04358, 0.01137], 0.45563),
            ((1.0, 0.5, 0.0, 3.0), [1.7705, 0.85329, 1.20167, 1.28422], 0.69767),
            ((0.0, 1.0, 1.2, 3.0), [2.02013, 1.63858, 1.35926, 1.2571], 0.27825),
        )
        for arguments, values, following in cases:
            torch.manual_seed(0)
            x = nn.init.trunc_normal_(torch.empty(4), *arguments)
            self.assertEqual([round(value, 5) for value in x.tolist()], values)
            self.assertEqual(round(torch.rand(1).item(), 5), following)
        self.assertEqual(nn.init.trunc_normal_(torch.empty(2, device="meta")).device.type, "meta")

    def test_linear_of_seed_0(self):
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        self.assertEqual(net.weight[0].tolist(), [-0.004322517663240433, 0.3097158372402191, -0.4751853346824646])
        self.assertEqual(net.bias.tolist(), [-0.011439144611358643, 0.45777493715286255])

    def test_embedding_of_seed_0(self):
        torch.manual_seed(0)
        self.assertEqual(nn.Embedding(1, 2).weight.tolist(), [[1.5409960746765137, -0.293428897857666]])

    def test_gains(self):
        self.assertEqual(nn.init.calculate_gain("tanh"), 5 / 3)
        self.assertAlmostEqual(nn.init.calculate_gain("leaky_relu", 1.0), 1.0)
        with self.assertRaises(ValueError):
            nn.init.calculate_gain("nothing")

    def test_dirac(self):
        weight = nn.init.dirac_(torch.empty(2, 2, 3))
        x = torch.arange(8.0).view(1, 2, 4)
        self.assertTrue(torch.equal(nn.functional.conv1d(x, weight, padding=1), x))


class Utilities(unittest.TestCase):
    def test_clip_grad_norm(self):
        p = nn.Parameter(torch.zeros(2))
        p.grad = torch.tensor([3.0, 4.0])
        self.assertAlmostEqual(nn.utils.clip_grad_norm_([p], 1.0).item(), 5.0, places=5)
        self.assertAlmostEqual(p.grad.norm().item(), 1.0, places=5)

    def test_vector(self):
        net = nn.Linear(2, 1)
        flat = nn.utils.parameters_to_vector(net.parameters())
        nn.utils.vector_to_parameters(torch.arange(3.0), net.parameters())
        self.assertEqual((flat.shape[0], net.bias.tolist()), (3, [2.0]))

    def test_parametrization(self):
        net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
        self.assertEqual(
            sorted(net.state_dict()),
            ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"],
        )
        self.assertEqual(net.weight.shape, (2, 3))
        nn.utils.parametrize.remove_parametrizations(net, "weight")
        self.assertEqual(sorted(net.state_dict()), ["bias", "weight"])

    def test_functional_call(self):
        from importlib import import_module

        stateless = import_module(nn.__name__ + ".utils.stateless")
        net = nn.Linear(2, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
            result = stateless.functional_call(net, given, (torch.ones(1, 2),))
        self.assertEqual(result.tolist(), [[2.0]])


class ManyChannels(unittest.TestCase):
    """Convolutions of batches with many channels, which may be computed in fewer multiplications."""

    def results(self, dtype, shape, padding, last, pixel=None):
        samples, channels, features, height, width = shape
        torch.manual_seed(0)
        x = torch.randn(samples, channels, height, width, dtype=torch.float64)
        w = torch.randn(features, channels, 3, 3, dtype=torch.float64) / 30
        b = torch.randn(features, dtype=torch.float64)
        if pixel is not None:
            x[1, 2, 3, 4] = pixel
        x, w, b = (t.to(dtype) for t in (x, w, b))
        if last:
            x = x.to(memory_format=torch.channels_last)
        x.requires_grad_()
        y = nn.functional.conv2d(x, w, b, 1, padding)
        self.assertTrue(y.is_contiguous(memory_format=torch.channels_last) or not last)
        grad = torch.randn(y.shape, dtype=torch.float64).to(dtype)
        return y.detach().double(), torch.autograd.grad(y, x, grad)[0].double()

    def test_they_are_right(self):
        for shape in ((8, 128, 144, 7, 9), (9, 128, 128, 4, 5)):
            for padding in (0, 1, (2, 1)):
                for last in (False, True):
                    found = self.results(torch.float32, shape, padding, last)
                    expected = self.results(torch.float64, shape, padding, last)
                    for x, y in zip(found, expected):
                        self.assertTrue(torch.allclose(x, y, rtol=1e-5, atol=1e-5), (shape, padding))

    def test_large_pixels_and_infinities_stay_where_they_are(self):
        shape = (8, 128, 128, 7, 9)
        plain = self.results(torch.float32, shape, 1, False)[0]
        near = torch.zeros(7, 9, dtype=torch.bool)
        near[2:5, 3:6] = True
        for pixel in (float("inf"), float("nan"), 1e9):
            found = self.results(torch.float32, shape, 1, False, pixel)[0]
            self.assertFalse((found[1, :, near].abs() < 1e3).all())
            self.assertTrue(torch.allclose(found[1, :, ~near], plain[1, :, ~near], atol=1e-5))


class Recurrence(unittest.TestCase):
    def test_packed_equals_padded(self):
        torch.manual_seed(0)
        for kind in (nn.RNN, nn.GRU, nn.LSTM):
            net = kind(2, 3, num_layers=2, bidirectional=True)
            x = torch.randn(4, 2, 2)
            packed = nn.utils.rnn.pack_padded_sequence(x, [4, 2])
            out, _ = nn.utils.rnn.pad_packed_sequence(net(packed)[0])
            alone = net(x[:2, 1:])[0]
            self.assertTrue(torch.allclose(out[:2, 1:], alone, atol=1e-6), kind)

    def test_sequences_equal_steps(self):
        torch.manual_seed(0)
        for kind, cell in ((nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell)):
            # Rows of 128 and 512 units lie at multiples of 4096 bytes.
            for hidden, batch, bias in ((3, 2, True), (20, 50, True), (70, 1, True), (17, 3, False),
                                        (128, 50, True), (512, 2, True)):
                net = kind(2, hidden, bias=bias, bidirectional=True).double()
                cells = [cell(2, hidden, bias=bias).double() for _ in range(2)]
                for one, suffix in zip(cells, ("_l0", "_l0_reverse")):
                    for name, weight in one.named_parameters():
                        weight.data.copy_(getattr(net, name + suffix))
                x = torch.randn(4, batch, 2, dtype=torch.float64, requires_grad=True)
                states = [torch.randn(2, batch, hidden, dtype=torch.float64, requires_grad=True)
                          for _ in range(2 if kind is nn.LSTM else 1)]
                out, last = net(x, tuple(states) if kind is nn.LSTM else states[0])
                last = last[-1] if kind is nn.LSTM else last
                expected, last_expected = self.steps(cells, x, states)
                self.assertTrue(torch.allclose(out, expected))
                self.assertTrue(torch.allclose(last, last_expected))
                weights = [weight for one in cells for weight in one.parameters()]
                grads = [
                    torch.autograd.grad((y * y).sum() + end.sin().sum(), [x, *states, *given])
                    for y, end, given in ((out, last, net.parameters()),
                                          (expected, last_expected, weights))
                ]
                for found, right in zip(*grads):
                    self.assertTrue(torch.allclose(found, right), (kind, hidden, batch))

    def steps(self, cells, x, states):
        """What cells compute forwards and backwards: the outputs, and the last of their states."""
        outputs, last = [], []
        for direction, cell in enumerate(cells):
            now, rows = tuple(state[direction] for state in states), []
            for part in (x.flip(0) if direction else x):
                now = cell(part, now if len(now) > 1 else now[0])
                now = now if isinstance(now, tuple) else (now,)
                rows.append(now[0])
            rows = torch.stack(rows)
            outputs.append(rows.flip(0) if direction else rows)
            last.append(now[-1])
        return torch.cat(outputs, -1), torch.stack(last)

    def test_empty_sequences_and_batches(self):
        for kind in (nn.RNN, nn.GRU, nn.LSTM):
            net = kind(3, 4)
            x = torch.ones(2, 0, 3, requires_grad=True)
            out = net(x)[0]
            self.assertEqual(out.shape, (2, 0, 4))
            out.sum().backward()
            self.assertTrue(all((p.grad == 0).all() for p in net.parameters()))
            with self.assertRaisesRegex(RuntimeError, "sequence length to be larger than 0"):
                net(torch.ones(0, 2, 3))

    def test_sequences_have_second_derivatives(self):
        torch.manual_seed(0)
        for kind in (nn.LSTM, nn.GRU):
            net = kind(2, 3, bidirectional=True).double()
            x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
            self.assertTrue(torch.autograd.gradcheck(lambda x: net(x)[0], (x,)))
            self.assertTrue(torch.autograd.gradgradcheck(lambda x: net(x)[0], (x,)))


class Compiled(unittest.TestCase):
    def setUp(self):
        self.inside = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.compiled = torch.compile(self.inside, backend="eager")

    def test_names(self):
        names = ["_orig_mod.0.weight", "_orig_mod.0.bias"]
        self.assertEqual(list(self.compiled.state_dict()), names)
        self.assertEqual([name for name, _ in self.compiled.named_parameters()], names)
        self.assertIs(self.compiled._orig_mod, self.inside)
        self.compiled.load_state_dict(self.compiled.state_dict())
        with self.assertRaises(RuntimeError):
            self.compiled.load_state_dict(self.inside.state_dict())
        self.assertEqual(type(copy.deepcopy(self.compiled)).__name__, "OptimizedModule")

    def test_attributes(self):
        """They are those of the module inside."""
        self.compiled.extra = 5
        self.assertEqual((self.inside.extra, len(self.compiled)), (5, 2))
        self.compiled.eval()
        self.assertFalse(self.inside[1].training or self.compiled.training)
        self.assertEqual(self.compiled(torch.ones(1, 2)).shape, (1, 3))
        self.assertIs(self.compiled.double(), self.compiled)
        self.assertEqual(self.inside[0].weight.dtype, torch.float64)
        with self.assertRaises(AttributeError):
            self.compiled.missing

    def test_options(self):
        self.assertIsNone(self.inside.compile(backend="eager"))
        self.assertEqual(list(self.inside.state_dict()), ["0.weight", "0.bias"])
        with self.assertRaisesRegex(RuntimeError, "Unrecognized mode=quickest"):
            torch.compile(self.inside, mode="quickest")
        with self.assertRaises(AssertionError):
            torch.compile(3)
        torch._dynamo.reset()
        torch._dynamo.config.suppress_errors = True


if __name__ == "__main__":
    unittest.main()
