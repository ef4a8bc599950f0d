"""Symbolic sizes: expressions, guards, sizes of results, and sizes that depend on data."""

import math
import unittest

from module_under_test import torch

symbolic_shapes = __import__(f"{torch.__name__}.fx.experimental.symbolic_shapes", fromlist=["_"])
fake_tensor = __import__(f"{torch.__name__}._subclasses.fake_tensor", fromlist=["_"])
ShapeEnv, FakeTensorMode = symbolic_shapes.ShapeEnv, fake_tensor.FakeTensorMode
F = torch.nn.functional


def sizes(tensor):
    """The sizes as text."""
    return tuple(map(str, tensor.shape))


class Symbolic(unittest.TestCase):
    """A mode with two matrices of 4 x 6 and 5 x 6."""

    def setUp(self):
        self.env = ShapeEnv()
        self.mode = self.enterContext(FakeTensorMode(shape_env=self.env))
        self.a = self.mode.from_tensor(self.real(4, 6))
        self.b = self.mode.from_tensor(self.real(5, 6))
        self.s, self.t = self.a.shape

    def real(self, *shape, dtype=None):
        with fake_tensor.unset_fake_temporarily():
            return torch.ones(*shape, dtype=dtype)

    def guards(self):
        return [str(guard.expr) for guard in self.env.guards]


class Expressions(Symbolic):
    """Arithmetic of integers that are not known."""

    def test_texts(self):
        s, t = self.s, self.t
        for expr, text in (
            (s * 2, "2*s26"), (1 + s, "s26 + 1"), (s - 1, "s26 - 1"), (1 - s, "1 - s26"), (s // 2, "(s26//2)"),
            ((s + 1) // 2, "((s26 + 1)//2)"), (s % 2, "Mod(s26, 2)"), (-s, "-s26"), (s * t + s + 3, "s26*s49 + s26 + 3"),
            (s ** 2, "s26**2"), (s / 2, "IntTrueDiv(s26, 2)"), (s > 3, "s26 > 3"), (s == 4, "Eq(s26, 4)"),
            (s != 4, "Ne(s26, 4)"), (torch.sym_max(s, 3), "Max(3, s26)"), (torch.sym_min(s, t), "Min(s26, s49)"),
            (torch.sym_not(s > 3), "s26 <= 3"), (torch.sym_float(s), "ToFloat(s26)"),
            (torch.sym_int(s / 2), "TruncToInt(IntTrueDiv(s26, 2))"), (torch.sym_sum([s, t, 3]), "s26 + s49 + 3"),
            (torch.sym_ite(s > 3, s, t), "Piecewise((s26, s26 > 3), (s49, True))"),
            (torch.sym_sqrt(s), "OpaqueUnaryFn_sqrt(ToFloat(s26))"), ((s * t) // t, "s26"), ((2 * s) // 2, "s26"),
            ((s * 4 + 2) // 2, "2*s26 + 1"), ((s // 2) // 2, "(s26//4)"), ((s * 4) % 4, "0"),
            (((s + 1) // 2) * 2 + 1, "2*(((s26 + 1)//2)) + 1"), (s * 0.5, "0.5*ToFloat(s26)"), (s + 0.5, "ToFloat(s26) + 0.5"),
            (math.ceil(s / 2), "CeilToInt(IntTrueDiv(s26, 2))"), (abs(s), "s26"), (abs(s - 7), "Abs(s26 - 7)"),
            (s << 1, "2*s26"), (s >> 1, "(s26//2)"), (s & 1, "BitwiseFn_bitwise_and(s26, 1)"),
        ):
            with self.subTest(text):
                self.assertEqual(str(expr), text)
        self.assertEqual(self.guards(), [])

    def test_kinds(self):
        self.assertIsInstance(self.s, torch.SymInt)
        self.assertNotIsInstance(self.s, int)
        self.assertIsInstance(self.s / 2, torch.SymFloat)
        self.assertIsInstance(self.s > 2, torch.SymBool)
        self.assertEqual(self.s.node.hint, 4)
        with self.assertRaises(TypeError):
            hash(self.s)

    def test_questions_become_guards(self):
        self.assertTrue(self.s > 3)
        self.assertFalse(self.s == 7)
        self.assertTrue(self.s >= 2)
        self.assertEqual(self.guards(), ["s26 > 3", "Ne(s26, 7)"])
        self.assertTrue(symbolic_shapes.statically_known_true(self.s > 3))
        self.assertFalse(symbolic_shapes.statically_known_true(self.s > 9))
        self.assertEqual(list(range(self.s)), [0, 1, 2, 3])
        self.assertEqual(str(self.a.shape[0]), "4")

    def test_zero_and_one_are_numbers_and_equal_sizes_are_one_symbol(self):
        self.assertEqual(sizes(self.mode.from_tensor(self.real(1, 0, 6))), ("1", "0", "s49"))
        self.assertEqual(str(self.b.shape[1]), "s49")
        self.assertEqual(str(self.a.stride()), "(s49, 1)")


class Results(Symbolic):
    """Sizes of results of operators."""

    def test_sizes(self):
        a, b, s, t = self.a, self.b, self.s, self.t
        for call, expected in (
            (lambda: a + 1, ("s26", "s49")), (lambda: a * s, ("s26", "s49")), (lambda: a + a.sum(0), ("s26", "s49")),
            (lambda: a.unsqueeze(1) + b, ("s26", "s93", "s49")), (lambda: a.view(-1), ("s26*s49",)),
            (lambda: a.view(t, s), ("s49", "s26")), (lambda: a.t(), ("s49", "s26")), (lambda: a.flatten(), ("s26*s49",)),
            (lambda: a @ b.t(), ("s26", "s93")), (lambda: torch.cat([a, b]), ("s26 + s93", "s49")),
            (lambda: torch.cat([a, a]), ("2*s26", "s49")), (lambda: torch.stack([a, a]), ("2", "s26", "s49")),
            (lambda: a[1:], ("s26 - 1", "s49")), (lambda: a[:s - 1], ("s26 - 1", "s49")), (lambda: a[s - 1], ("s49",)),
            (lambda: a.repeat(2, 3), ("2*s26", "3*s49")), (lambda: F.pad(a, (1, 2)), ("s26", "s49 + 3")),
            (lambda: a.sum(0, keepdim=True), ("1", "s49")), (lambda: a.var(1), ("s26",)), (lambda: a.softmax(1), ("s26", "s49")),
            (lambda: torch.zeros(s, t * 2), ("s26", "2*s49")), (lambda: torch.arange(s), ("s26",)),
            (lambda: a.new_empty(s * 2), ("2*s26",)), (lambda: a[:, None].expand(s, 3, t), ("s26", "3", "s49")),
            (lambda: F.linear(a, torch.empty(7, t)), ("s26", "7")), (lambda: a.permute(1, 0).contiguous(), ("s49", "s26")),
            (lambda: torch.einsum("ij,kj->ik", a, b), ("s26", "s93")), (lambda: a.narrow(0, 1, s - 1), ("s26 - 1", "s49")),
            (lambda: F.embedding(torch.zeros(s, dtype=torch.long), torch.empty(10, 4)), ("s26", "4")),
            (lambda: F.layer_norm(a, (t,)), ("s26", "s49")), (lambda: a.topk(2)[0], ("s26", "2")),
            (lambda: torch.where(a > 0, a, 0), ("s26", "s49")), (lambda: a.cumsum(0), ("s26", "s49")),
        ):
            with self.subTest(str(expected)):
                self.assertEqual(sizes(call()), expected)
        self.assertEqual(str(a.t().contiguous().stride()), "(s26, 1)")
        self.assertEqual(str(a.numel()), "s26*s49")

    def test_windows(self):
        x = self.mode.from_tensor(self.real(2, 3, 16, 18))
        height, width = x.shape[2:]
        y = F.conv2d(x, torch.empty(8, 3, 3, 3), stride=2, padding=1)
        for size, name in ((y.shape[2], height), (y.shape[3], width)):
            self.assertEqual(str(size), str((name - 1) // 2 + 1))
        self.assertEqual(str(F.max_pool2d(x, 2).shape[2]), str(height // 2))

    def test_equal_sizes_are_required(self):
        c = self.mode.from_tensor(self.real(7, 8))
        d = self.mode.from_tensor(self.real(7), symbolic_context=symbolic_shapes.StatelessSymbolicContext(
            dynamic_sizes=[symbolic_shapes.DimDynamic.DYNAMIC]))
        self.assertNotEqual(str(c.shape[0]), str(d.shape[0]))
        made = c.sum(1) + d
        self.assertEqual(made.dim(), 1)
        self.assertEqual(len(self.guards()), 1)
        self.assertIn("Eq(", self.guards()[0])
        with self.assertRaises(RuntimeError):
            self.a.sum(1) + c.sum(1)

    def test_gradients(self):
        w = torch.nn.Parameter(torch.randn(6, 3))
        (self.a @ w).relu().sum().backward()
        self.assertEqual(sizes(w.grad), ("s49", "3") if str(w.shape[0]) == "s49" else ("6", "3"))

    def test_the_rest_of_a_view_is_divided(self):
        x = self.mode.from_tensor(self.real(12, 10))
        n = x.shape[0]
        y = x.view(-1, 5)
        self.assertEqual(y.shape[1], 5)
        self.assertEqual(int(y.shape[0]), 24)
        self.assertIsNotNone(n)


class Data(Symbolic):
    """Sizes and values that depend on data."""

    def test_sizes(self):
        x = self.mode.from_tensor(self.real(7))
        self.assertEqual(sizes(x.nonzero()), ("u0", "1"))
        self.assertEqual(x[x > 0].dim(), 1)
        self.assertEqual(str(torch.unique(x).shape[0])[0], "u")
        self.assertEqual(sizes(x.nonzero()), ("u0", "1"))

    def test_values(self):
        x = self.mode.from_tensor(self.real(7, dtype=torch.int64))
        u = x[0].item()
        self.assertIsInstance(u, torch.SymInt)
        self.assertIsInstance(x.to(torch.float32).sum().item(), torch.SymFloat)
        with self.assertRaises(symbolic_shapes.GuardOnDataDependentSymNode):
            bool(u > 3)
        self.assertFalse(symbolic_shapes.guard_or_false(u == 9))
        torch._check(u > 3)
        self.assertTrue(u > 3)
        self.assertFalse(u == 2)
        self.assertEqual(sizes(torch.zeros(u)), (str(u),))
        self.assertEqual(sizes(torch.ones(u) + torch.ones(1)), (str(u),))
        self.assertEqual(sizes(torch.arange(u).view(-1)), (str(u),))

    def test_lengths_are_told_equal(self):
        x = self.mode.from_tensor(self.real(7, dtype=torch.int64))
        u = x[0].item()
        torch._check_is_size(u)
        made = torch.ones(u) + torch.ones(7)
        self.assertEqual(sizes(made), ("7",))


class Programs(unittest.TestCase):
    """Graphs that were traced at some sizes run at others."""

    def check(self, function, example, *others):
        proxy_tensor = __import__(f"{torch.__name__}.fx.experimental.proxy_tensor", fromlist=["_"])
        graph = proxy_tensor.make_fx(function, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*example)
        for other in others:
            expected = function(*other)
            torch.testing.assert_close(graph(*other), expected)
        return [str(guard.expr) for guard in graph.shape_env.guards]

    def test_transformers(self):
        encoder = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0).eval()
        self.check(encoder, (torch.randn(2, 6, 16),), (torch.randn(3, 9, 16),), (torch.randn(5, 2, 16),))

    def test_images(self):
        nn = torch.nn
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3, stride=2),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 5),
        ).eval()
        guards = self.check(net, (torch.randn(2, 3, 16, 20),), (torch.randn(3, 3, 33, 31),), (torch.randn(4, 3, 18, 16),))
        self.assertFalse([guard for guard in guards if guard.endswith((", 16)", ", 20)", ", 2)"))])
        self.check(lambda x: F.interpolate(x, scale_factor=2.0), (torch.randn(2, 3, 5, 7),), (torch.randn(3, 2, 3, 8),))

    def test_views_writes_and_gradients(self):
        def flattened(x, y):
            return torch.cat([x, y]).reshape(-1, 2).relu()

        self.check(flattened, (torch.randn(3, 4), torch.randn(5, 4)), (torch.randn(2, 6), torch.randn(1, 6)))
        self.check(lambda x: torch.cat([x, x + 1]).t().reshape(-1, 2), (torch.randn(3, 5),), (torch.randn(5, 9),))
        self.check(lambda x: x.t().reshape(-1, 3).relu(), (torch.randn(4, 6),), (torch.randn(6, 5),))
        self.check(lambda x: x.flatten(1) * x.shape[0], (torch.randn(3, 4, 5),), (torch.randn(2, 6, 3),))
        self.check(lambda x: x[:, : x.shape[1] // 2] * 2, (torch.randn(4, 7),), (torch.randn(3, 9),))
        self.check(lambda x: F.pad(x, (0, 10 - x.shape[1])), (torch.randn(4, 7),), (torch.randn(3, 5),))
        self.check(lambda x: torch.zeros(x.shape[0] * 2) + x.shape[1], (torch.randn(3, 4),), (torch.randn(2, 6),))

        def written(x):
            y = x.clone()
            y.t_()
            y.mul_(2)
            return y

        self.check(written, (torch.randn(4, 7),), (torch.randn(6, 3),))

        def gradient(x):
            x = x.detach().requires_grad_(True)
            return torch.autograd.grad(x.expand(5, x.shape[0], x.shape[1]).sin().sum(), x)[0]

        self.check(gradient, (torch.randn(3, 4),), (torch.randn(2, 6),))

    def test_guards_are_conditions_on_inputs(self):
        env = ShapeEnv()
        mode = FakeTensorMode(shape_env=env)
        x, y = mode.from_tensor(torch.ones(4, 6)), mode.from_tensor(torch.ones(4, 3))
        with mode:
            self.assertTrue(x.shape[1] > y.shape[1])
        for sizes_, expected in (
            (((4, 6), (4, 3)), True), (((5, 9), (5, 8)), True), (((5, 9), (4, 8)), False), (((5, 4), (5, 8)), False),
            (((1, 9), (1, 8)), False),
        ):
            found = env.evaluate_guards_for_args([x, y], [torch.ones(size) for size in sizes_])
            self.assertEqual(found, expected, sizes_)


class Marks(unittest.TestCase):
    """Which sizes of a tensor are symbols."""

    def stand_in(self, real, **options):
        self.env = ShapeEnv(**options)
        return FakeTensorMode(shape_env=self.env).from_tensor(real)

    def test_marks(self):
        dynamo = __import__(f"{torch.__name__}._dynamo", fromlist=["_"])
        context = symbolic_shapes.StatelessSymbolicContext(
            dynamic_sizes=[symbolic_shapes.DimDynamic.DYNAMIC, symbolic_shapes.DimDynamic.STATIC])
        env = ShapeEnv()
        fake = FakeTensorMode(shape_env=env).from_tensor(torch.ones(4, 6), symbolic_context=context)
        self.assertIsInstance(fake.shape[0], torch.SymInt)
        self.assertEqual(fake.shape[1], 6)
        x = torch.ones(4, 6)
        dynamo.mark_dynamic(x, 0)
        self.assertEqual(x._dynamo_dynamic_indices, {0})
        dynamo.mark_static(x, 1)
        self.assertIn(1, x._dynamo_static_indices)


if __name__ == "__main__":
    unittest.main()
