"""``compile``: results, effects, errors and names are those of the function itself."""

import copy
import io
import os
import pickle
import threading
import unittest

import numpy
from module_under_test import torch

nn, functional = torch.nn, torch.nn.functional


def values(*shape):
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape)


class Doubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x, scale=2):
        self.calls += 1
        return self.inner(x) * scale


class Forms(unittest.TestCase):
    def test_functions(self):
        @torch.compile
        def decorated(x, *, k=1):
            """What it does."""
            return x * 2 + k

        @torch.compile(mode="reduce-overhead")
        def with_options(x):
            return x.exp().sum()

        x = values(2, 3)
        for _ in range(3):
            self.assertTrue(torch.equal(decorated(x, k=3), x * 2 + 3))
            self.assertTrue(torch.equal(with_options(x), x.exp().sum()))
        self.assertEqual((decorated.__name__, decorated.__doc__), ("decorated", "What it does."))
        self.assertTrue(torch.equal(torch.compile(lambda x: x + 1)(x), x + 1))
        self.assertTrue(torch.equal(torch.compile(decorated)(x), x * 2 + 1))

    def test_methods(self):
        class Holder:
            def __init__(self):
                self.offset = 5

            @torch.compile
            def add(self, x):
                return x + self.offset

        self.assertTrue(torch.equal(Holder().add(values(2)), values(2) + 5))

    def test_modules(self):
        module = Doubling()
        compiled, x = torch.compile(module), values(2, 3)
        expected = module.inner(x) * 2
        self.assertTrue(torch.equal(compiled(x), expected))
        self.assertTrue(torch.equal(compiled(x, scale=3), module.inner(x) * 3))
        self.assertEqual((module.calls, compiled.calls), (2, 2))
        self.assertIs(compiled._orig_mod, module)
        self.assertEqual(list(compiled.state_dict()), ["_orig_mod.inner.weight", "_orig_mod.inner.bias"])
        self.assertEqual(type(compiled).__name__, "OptimizedModule")
        compiled.load_state_dict(compiled.state_dict())
        self.assertFalse(compiled.eval().training)
        self.assertFalse(module.training)
        for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
            self.assertTrue(torch.equal(other(x), expected))
            self.assertIsNot(other._orig_mod, module)

    def test_modules_in_place(self):
        module, x = Doubling(), values(2, 3)
        expected, names = module(x), list(module.state_dict())
        module.compile()
        self.assertTrue(torch.equal(module(x), expected))
        self.assertEqual(list(module.state_dict()), names)
        other = copy.deepcopy(module)
        with torch.no_grad():
            module.inner.weight.zero_()
        self.assertTrue(torch.equal(other(x), expected))

    def test_hooks_run(self):
        module, seen = Doubling(), []
        module.register_forward_hook(lambda *parts: seen.append(tuple(parts[2].shape)))
        torch.compile(module)(values(2, 3))
        self.assertEqual(seen, [(2, 3)])

    def test_arguments_that_contradict(self):
        with self.assertRaises(RuntimeError):
            torch.compile(lambda x: x, mode="fast")
        with self.assertRaises(RuntimeError):
            torch.compile(lambda x: x, mode="default", options={})
        with self.assertRaises(AssertionError):
            torch.compile(5)
        with self.assertRaises(torch._dynamo.exc.InvalidBackend):
            torch.compile(lambda x: x, backend="no such backend")

    def test_backends_that_run_as_is(self):
        for backend in ("eager", "aot_eager"):
            self.assertTrue(torch.equal(torch.compile(torch.sin, backend=backend)(values(3)), values(3).sin()))


class Effects(unittest.TestCase):
    """What a function does besides returning is done, in order."""

    def check(self, function, *inputs):
        for _ in range(3):
            mine, others = copy.deepcopy(inputs), copy.deepcopy(inputs)
            expected = function(*mine)
            found = torch.compile(function)(*others)
            for a, b in zip((expected, *mine), (found, *others)):
                self.assertTrue(torch.equal(a, b), (a, b))
                self.assertEqual((a.stride(), a._version), (b.stride(), b._version))

    def test_inputs_written(self):
        def writes(x, y):
            before = x + y
            x.mul_(2)
            y[0] = x[1]
            return before + x

        self.check(writes, values(3), values(3))

    def test_views_of_results(self):
        def views(x):
            y = x * 2
            top = y[0]
            top.add_(1)
            y.t()[0].zero_()
            return y + top

        self.check(views, values(3, 3))

    def test_overlaps(self):
        def overlaps(x):
            y = x.clone()
            y[1:] += y[:-1].clone()
            y[1:].copy_(y[:-1].clone())
            try:
                y[1:].add_(y[:-1])
            except RuntimeError as error:
                return y * len(str(error))
            return y

        self.check(overlaps, values(5))

    def test_control_flow(self):
        def branches(x):
            total = x.sum()
            while total < 100:
                total = total * 2 + 1
            return total

        self.check(branches, values(3))

    def test_out(self):
        def given(x):
            out = torch.empty(3)
            torch.add(x, 1, out=out)
            small = torch.empty(0)
            torch.mul(out, out, out=small)
            return small

        self.check(given, values(3))

    def test_random_numbers(self):
        def draws(x):
            a = torch.rand(3)
            b = functional.dropout(x, 0.5)
            return a + b + torch.randn(3)

        torch.manual_seed(3)
        expected = [draws(values(3)) for _ in range(3)]
        torch.manual_seed(3)
        compiled = torch.compile(draws)
        for one in expected:
            self.assertTrue(torch.equal(compiled(values(3)), one))

    def test_metadata_in_place(self):
        def changes(x):
            y = x * 2
            z = y + 1
            y.t_()
            y.unsqueeze_(0)
            y.set_(torch.ones(2))
            z.resize_(1)
            return z + y

        self.check(changes, values(2, 3))

    def test_statistics(self):
        eager = nn.BatchNorm1d(3)
        module = copy.deepcopy(eager)
        compiled, x = torch.compile(module), torch.randn(5, 3)
        for _ in range(3):
            self.assertTrue(torch.equal(compiled(x), eager(x)))
        self.assertTrue(torch.equal(module.running_mean, eager.running_mean))
        self.assertTrue(torch.equal(compiled.eval()(x), eager.eval()(x)))

    def test_statistics_are_no_breaks(self):
        for options in ({}, {"track_running_stats": False}, {"affine": False}):
            eager = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, **options), nn.ReLU())
            model = copy.deepcopy(eager)
            compiled = torch.compile(model, fullgraph=True)
            for seed in range(3):
                torch.manual_seed(seed)
                x = torch.randn(2, 3, 8, 8)
                for module in (eager, compiled):
                    module(x).square().sum().backward()
            for one, other in zip(eager.state_dict().values(), model.state_dict().values()):
                self.assertTrue(torch.equal(one, other))
            for one, other in zip(eager.parameters(), model.parameters()):
                self.assertTrue(torch.equal(one.grad, other.grad))
            found = torch._dynamo.explain(model)(x)
            self.assertEqual(found.graph_break_count, 0)

    def test_data_seen_from_outside(self):
        array = numpy.zeros(3, dtype=numpy.float32)
        shared = torch.from_numpy(array)

        def outside(x):
            y = shared + 1
            z = x + 1
            x.numpy()[0] = 7
            array[:] = 5
            return y, z, shared * 1, x * 1

        for _ in range(3):
            array[:] = 0
            found = torch.compile(outside)(torch.zeros(3))
            self.assertEqual([one.tolist() for one in found],
                             [[1, 1, 1], [1, 1, 1], [5, 5, 5], [7, 0, 0]])

    def test_data_pointers_and_files(self):
        @torch.compile
        def looks(x):
            y = x + 1
            self.assertNotEqual(y.data_ptr(), 0)
            self.assertNotEqual((x + 2).untyped_storage().data_ptr(), 0)
            stream = io.BytesIO()
            torch.save(x * 2, stream)
            stream.seek(0)
            self.assertTrue(torch.equal(torch.load(stream), values(3) * 2))
            self.assertEqual(repr(x * 3), repr(values(3) * 3))
            self.assertEqual(bytes((x * 4).numpy()), bytes((values(3) * 4).numpy()))
            clone = copy.deepcopy(x * 5)
            return clone, torch.utils.dlpack.from_dlpack(x * 6)

        for _ in range(2):
            found = looks(values(3))
        self.assertTrue(torch.equal(found[0], values(3) * 5))
        self.assertTrue(torch.equal(found[1], values(3) * 6))


class Gradients(unittest.TestCase):
    def check(self, function, *inputs):
        for _ in range(3):
            results = []
            for call in (function, torch.compile(function)):
                leaves = [x.clone().requires_grad_() for x in inputs]
                y = call(*leaves)
                y.sum().backward()
                y2 = call(*leaves)
                y2.mean().backward()
                results.append([y, y2, *(leaf.grad for leaf in leaves)])
            for a, b in zip(*results):
                self.assertTrue(torch.equal(a, b))

    def test_networks(self):
        self.check(lambda x, w: functional.layer_norm(functional.gelu(x @ w), (3,)), values(2, 3), values(3, 3))
        self.check(lambda x: (x.softmax(-1) * x).log1p(), values(2, 3))

    def test_steps_of_training(self):
        parts = []
        for compile_it in (False, True):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

            def step(x, y):
                optimizer.zero_grad()
                loss = functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                return loss

            call = torch.compile(step) if compile_it else step
            x, y = torch.randn(6, 4), torch.randn(6, 1)
            losses = [call(x, y).item() for _ in range(5)]
            parts.append((losses, [p.detach() for p in model.parameters()]))
        self.assertEqual(parts[0][0], parts[1][0])
        for a, b in zip(parts[0][1], parts[1][1]):
            self.assertTrue(torch.equal(a, b))

    def test_hooks_and_functions(self):
        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x ** 3

            @staticmethod
            def backward(ctx, grad):
                x, = ctx.saved_tensors
                return grad * 3 * x ** 2

        seen = []

        def cubes(x):
            y = Cube.apply(x * 1)
            y.register_hook(lambda grad: seen.append(grad.tolist()))
            return y

        self.check(cubes, values(2))
        self.assertEqual(len(seen), 12)

    def test_versions_are_checked(self):
        @torch.compile
        def breaks(x):
            y = x.exp()
            z = y * 2
            y.add_(1)
            return z.sum() + y.sum()

        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                breaks(values(2).requires_grad_()).backward()

    def test_transforms(self):
        def inside(x):
            return torch.func.vmap(torch.func.grad(lambda v: (v ** 3).sum()))(x)

        for _ in range(2):
            self.assertTrue(torch.equal(torch.compile(inside)(values(2, 3)), inside(values(2, 3))))


class Modes(unittest.TestCase):
    def test_threads(self):
        """A thread that looks at what another one records gets the values, and writes wait for reads."""
        results, errors = {}, []
        compiled = torch.compile(lambda x: (x * 2).exp().sum(-1))

        def work(number):
            try:
                for _ in range(20):
                    found = compiled(values(8, 8) * 0.01 * number)
                    self.assertTrue(torch.equal(found, (values(8, 8) * 0.01 * number * 2).exp().sum(-1)))
                results[number] = True
            except Exception as error:  # reported by the main thread
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual((errors, len(results)), ([], 4))

    def test_results_seen_by_another_thread(self):
        seen = []

        @torch.compile
        def hands_over(x):
            y = x * 2 + 1
            thread = threading.Thread(target=lambda: seen.append(y.tolist()))
            thread.start()
            thread.join()
            writer = threading.Thread(target=lambda: x.zero_())
            z = x + 1
            writer.start()
            writer.join()
            return z

        for _ in range(3):
            self.assertEqual(hands_over(values(2)).tolist(), [2, 3])
        self.assertEqual(seen, [[3, 5]] * 3)

    def test_nested(self):
        inner = torch.compile(lambda x: x + 1)
        self.assertEqual(torch.compile(lambda x: inner(x * 2) * 3)(values(2)).tolist(), [9, 15])

    def test_inference_and_autocast(self):
        module, x = nn.Linear(4, 4), torch.randn(2, 4)
        compiled = torch.compile(module)
        for _ in range(2):
            with torch.inference_mode():
                self.assertTrue(compiled(x).is_inference())
            with torch.no_grad():
                self.assertFalse(compiled(x).requires_grad)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found, expected = compiled(x), module(x)
            self.assertEqual(found.dtype, torch.bfloat16)
            self.assertTrue(torch.equal(found, expected))

    def test_exceptions(self):
        kept = {}

        @torch.compile
        def raises(x):
            kept["y"] = x * 2
            x.add_(1)
            raise KeyError("of the program")

        for _ in range(2):
            x = values(2)
            with self.assertRaises(KeyError):
                raises(x)
            self.assertEqual((kept["y"].tolist(), x.tolist()), ([2, 4], [2, 3]))

    def test_errors_of_arguments(self):
        @torch.compile
        def mistaken(x):
            try:
                return x @ torch.ones(7, 2)
            except RuntimeError as error:
                return str(error)

        eager = mistaken._torchdynamo_orig_callable
        for _ in range(2):
            self.assertEqual(mistaken(values(2, 3)), eager(values(2, 3)))

    def test_errors_of_values(self):
        @torch.compile
        def beyond(x, at):
            return torch.index_select(x * 2, 0, at)

        beyond(values(3), torch.tensor([1]))
        for _ in range(2):
            with self.assertRaises(IndexError):
                beyond(values(3), torch.tensor([5])).sum()

    def test_is_compiling(self):
        seen = []

        @torch.compiler.disable
        def outside(x):
            seen.append(torch.compiler.is_compiling())
            return x + 1

        @torch.compile
        def inside(x):
            seen.append(torch.compiler.is_compiling())
            return outside(x * 2) * 2

        self.assertEqual(inside(values(2)).tolist(), [6, 10])
        self.assertEqual(seen, [True, False])
        self.assertFalse(torch.compiler.is_compiling())

    def test_many_sizes(self):
        def function(x):
            return (x * 2 + 1).tanh()

        marked = torch.ones(5)
        torch._dynamo.mark_dynamic(marked, 0)
        for options in ({}, {"dynamic": True}, {"dynamic": False}):
            compiled = torch.compile(function, **options)
            self.assertTrue(torch.equal(compiled(marked), function(marked)))
            for size in (*range(1, 40), *range(1, 40)):
                x = values(size)
                self.assertTrue(torch.equal(compiled(x), function(x)))

    def test_is_compiling_at_any_call(self):
        seen, apart = [], []

        @torch.compiler.disable
        def outside():
            apart.append(torch.compiler.is_compiling())

        @torch.compile
        def inside(x):
            seen.append(torch.compiler.is_compiling())
            outside()
            return x + 1

        x = values(3)
        for _ in range(80):
            inside(x)
        self.assertEqual((set(seen), set(apart)), ({True}, {False}))
        self.assertFalse(torch.compiler.is_compiling())

    def test_fullgraph(self):
        @torch.compile(fullgraph=True)
        def branches(x):
            return x + 1 if (x * 2).sum() > 0 else x

        torch._dynamo.reset()
        torch.compile(branches._torchdynamo_orig_callable)(values(2))
        with self.assertRaises(torch._dynamo.exc.Unsupported):
            branches(values(2))
        one_graph = torch.compile(lambda x: functional.dropout(x.exp(), 0.5).sum(), fullgraph=True)
        one_graph(values(2))

    def test_stances(self):
        seen = []

        @torch.compile
        def asks(x):
            seen.append(torch.compiler.is_compiling())
            return x

        with torch.compiler.set_stance("force_eager"):
            asks(values(1))
        asks(values(1))
        self.assertEqual(seen, [False, True])

    def test_explanations(self):
        def function(x):
            y = x * 2 + 1
            torch._dynamo.graph_break()
            return y.exp() if y.sum() > 0 else y

        found = torch._dynamo.explain(function)(values(3))
        self.assertGreaterEqual(found.graph_count, 2)
        self.assertGreaterEqual(found.graph_break_count, 1)
        self.assertIn("Graph Count", str(found))
        self.assertGreaterEqual(found.op_count, 3)

    def test_projections_of_batches_are_no_breaks(self):
        # Their results are views that do not count as views.
        linear = nn.Linear(4, 4)
        weight = torch.randn(4, 4)
        for function in (
            lambda x: linear(linear(x).relu()).relu(), lambda x: torch.matmul(torch.matmul(x, weight).exp(), weight),
            lambda x: x.transpose(0, 1).reshape(-1).exp(), lambda x: torch.einsum("ijk,kl->ijl", x.exp(), weight).exp(),
        ):
            found = torch._dynamo.explain(function)(torch.randn(2, 3, 4))
            self.assertEqual((found.graph_count, found.graph_break_count), (1, 0))

    @unittest.skipUnless(torch.__name__ == "corten", "names lines that PyTorch does not know")
    def test_lines(self):
        found = torch.compiler.explain(lambda x: x * 2 + 1)(values(3))
        self.assertIn(os.path.basename(__file__), found.ops_per_graph[0][0])

    def test_names(self):
        torch.compiler.reset()
        torch.compiler.cudagraph_mark_step_begin()
        torch._dynamo.mark_dynamic(values(3), 0)
        self.assertIs(torch.compiler.allow_in_graph(torch.sin), torch.sin)
        self.assertIn("inductor", torch.compiler.list_backends())
        torch._dynamo.utils.counters.clear()


if __name__ == "__main__":
    unittest.main()
