"""Hooks of graphs and tools around them: callbacks of backward passes, patterns of dimensions, what compilers are
told, casts of one's own operators, optimizers with other parameters."""

import copy
import importlib
import itertools
import unittest
import warnings

from module_under_test import torch


def module(name):
    return importlib.import_module(f"{torch.__name__}.{name}")


compiler, func, graph = module("compiler"), module("func"), module("autograd.graph")
library, checkpoint, profiler = module("library"), module("utils.checkpoint"), module("profiler")
_numbers = itertools.count()


class Graphs(unittest.TestCase):
    def test_callbacks(self):
        for queue in (graph.queue_callback, torch.autograd.Variable._execution_engine.queue_callback):
            log = []
            x = torch.ones(2, requires_grad=True)
            y = x * 2

            def hook(grad):
                queue(lambda: log.append(x.grad.tolist()))
                log.append("hook")

            y.register_hook(hook)
            y.sum().backward()
            self.assertEqual(log, ["hook", [2, 2]])
        with self.assertRaisesRegex(RuntimeError, "only be installed during backward pass"):
            graph.queue_callback(lambda: None)

    def test_settings(self):
        x = torch.ones(2, 3).t().requires_grad_()
        with torch.autograd.enforce_grad_layout_policy(False):
            (x * 2).sum().backward()
        self.assertEqual(x.grad.tolist(), [[2, 2]] * 3)
        for function in (graph.set_override_stale_capture_stream,
                         graph.set_warn_on_accumulate_grad_stream_mismatch):
            self.assertIsNone(function(False))
        with self.assertRaises(RuntimeError):
            graph.set_override_stale_capture_stream(1)
        with self.assertRaisesRegex(ValueError, r"must be in \[0, 1\], got 2"):
            graph.region_activation_memory_budget(2)
        with self.assertRaisesRegex(RuntimeError, "no effect in eager mode"):
            with graph.region_activation_memory_budget(0.5):
                pass

    def test_groups_of_backward_passes(self):
        calls = []

        def part(x):
            calls.append(1)
            return x.sin(), x.cos()

        x = torch.ones(3, requires_grad=True)

        def both():
            first, second = checkpoint.checkpoint(part, x, use_reentrant=False, early_stop=False)
            return first.sum(), second.sum()

        first, second = both()
        with checkpoint.GraphExecGroup():
            first.backward(retain_graph=True)
            second.backward(retain_graph=True)
        self.assertEqual(len(calls), 2)
        self.assertTrue(torch.allclose(x.grad, torch.ones(3).cos() - torch.ones(3).sin()))
        first, second = both()
        first.backward(retain_graph=True)
        second.backward()
        self.assertEqual(len(calls), 5)


class Dimensions(unittest.TestCase):
    x = torch.arange(24.0).reshape(2, 3, 4)

    def check(self, pattern, expected, x=None, **lengths):
        found = func.rearrange(self.x if x is None else x, pattern, **lengths)
        self.assertEqual((found.shape, found.tolist()), (expected.shape, expected.tolist()))

    def test_patterns(self):
        x = self.x
        self.check("a b c -> c a b", x.permute(2, 0, 1))
        self.check("a b c -> a (b c)", x.flatten(1))
        self.check("a b (c d) -> (d a) () c b", x.reshape(2, 3, 2, 2).permute(3, 0, 2, 1).reshape(4, 1, 2, 3), c=2)
        self.check("... c -> c ...", x.permute(2, 0, 1))
        self.check("a ... -> a (...)", x.flatten(1))
        self.check("... -> (...)", x.flatten())
        self.check(" a  b c->a c 1 b", x.transpose(1, 2)[:, :, None])
        self.check("a b c ... -> c ... a b", x.permute(2, 0, 1))
        self.check("l a b -> a l b", torch.stack([x[0], x[1]], 1), [x[0], x[1]])
        grad = func.grad(lambda t: func.rearrange(t, "a b c -> c (a b)")[0].sum())(x)
        self.assertEqual(grad.sum().item(), 6)

    def test_refused_patterns(self):
        for pattern, lengths, message in (
            ("a b c -> a b", {}, "only on one side of rearrange expression"),
            ("a b -> b a", {}, "Number of dimensions in pattern .2. must be equal"),
            ("a b c", {}, "must contain a single '->' separator"),
            ("a a c -> a c", {}, "duplicate dimension 'a'"),
            ("a b c -> a (...) c", {}, "Ellipsis found in right side, but not left"),
            ("a b c -> a b c", {"z": 2}, "not found in rearrange expression: {'z'}"),
            ("(a b -> a b", {}, "Imbalanced parentheses"), ("a _b c -> _b a c", {}, "Invalid axis"),
            ("a b 4 -> a b 4", {}, "unnamed axes of size 1"),
            ("a ((b c)) d -> a b c d", {}, "brackets inside brackets not allowed"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                func.rearrange(self.x, pattern, **lengths)
        for pattern, lengths in (("a (b d) c -> a b d c", {}), ("a (b d) c -> a b d c", {"d": 2})):
            with self.assertRaises(Exception):
                func.rearrange(self.x, pattern, **lengths)

    def test_functionalize(self):
        x = self.x.clone()
        function = func.functionalize(lambda t: t.view(-1).mul_(2).sum())
        self.assertEqual((function(x).item(), x[0, 0, 1].item()), (552, 2))
        with self.assertRaises(RuntimeError):
            func.functionalize(function, remove="nothing")


class Compilation(unittest.TestCase):
    def test_functions_stay_what_they_are(self):
        for wrap in (compiler.nested_compile_region, compiler.nested_compile_region(),
                     compiler.nonstrict_trace, compiler.set_stance("default")):
            self.assertEqual(wrap(lambda x: x + 1)(torch.ones(1)).item(), 2)
        with compiler.set_stance("force_eager"):
            pass
        with self.assertRaises(RuntimeError):
            compiler.set_stance("force_eager", force_backend="eager")
        with self.assertRaises(AssertionError):
            compiler.nonstrict_trace(5)

    def test_settings(self):
        self.assertIn("inductor", compiler.list_backends())
        self.assertIn("eager", compiler.list_backends(None))
        self.assertEqual(compiler.get_default_backend(), "inductor")
        compiler.set_default_backend("eager")
        self.assertEqual(compiler.get_default_backend(), "eager")
        compiler.set_default_backend(None)
        self.assertEqual(compiler.get_default_backend(), "inductor")
        with self.assertRaises(TypeError):
            compiler.set_default_backend(5)
        self.assertEqual([compiler.set_enable_guard_collectives(on) for on in (True, False)],
                         [False, True])
        self.assertIsNone(compiler.save_cache_artifacts())
        self.assertFalse(compiler.config.force_disable_caches)
        self.assertEqual(compiler.skip_all_guards_unsafe([1, 2]), [False, False])

    def test_arrays(self):
        numpy = importlib.import_module("numpy")

        @compiler.wrap_numpy
        def function(a, b):
            return numpy.add(a, b), {"twice": 2 * a}, 3

        x = torch.arange(3.0)
        total, rest, number = function(x, x)
        self.assertEqual((total.tolist(), rest["twice"].tolist(), number), ([0, 2, 4], [0, 2, 4], 3))
        self.assertEqual(function(x, 1)[0].tolist(), [1, 2, 3])
        with self.assertRaises(RuntimeError):
            function(x.requires_grad_(), x)

    def test_replacements(self):
        def original(a, b=1):
            return a

        @compiler.substitute_in_graph(original)
        def replacement(a, b=1):
            return a + b

        self.assertEqual(replacement(2), 2)  # for tracers only
        with self.assertRaisesRegex(TypeError, "Signature mismatch"):
            compiler.substitute_in_graph(original)(lambda c: c)


class Operators(unittest.TestCase):
    def test_casts(self):
        def make():
            @library.custom_op(f"hooks_and_tools{next(_numbers)}::sine", mutates_args=())
            def sine(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
                return x.sin() + n.to(x.dtype)

            return sine

        x, n = torch.ones(3), torch.arange(3)
        by_method, by_function = make(), make()
        by_method.register_autocast("cpu", torch.bfloat16)
        library.register_autocast(by_function, "cpu", torch.bfloat16)
        for operator in (by_method, by_function):
            self.assertEqual(operator(x, n).dtype, torch.float32)
            with torch.autocast("cpu", dtype=torch.float16):
                self.assertEqual(operator(x, n).dtype, torch.bfloat16)
                self.assertEqual(operator(x.double(), n).dtype, torch.float64)
            self.assertEqual(operator(x, n).dtype, torch.float32)
        with self.assertRaises(TypeError):
            library.register_autocast(by_method, 5, torch.bfloat16)

    def test_modes(self):
        TorchDispatchMode = module("utils._python_dispatch").TorchDispatchMode

        class Log(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        @library.custom_op(f"hooks_and_tools{next(_numbers)}::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def rule(mode, func, types, args, kwargs):
            self.assertIsInstance(mode, Log)
            return func(*args, **(kwargs or {})) + 1

        x = torch.ones(2)
        with Log():
            self.assertEqual(twice(x).tolist(), [2, 2])
        twice.register_torch_dispatch(Log, rule)
        with Log():
            self.assertEqual((twice(x).tolist(), (x * 2).tolist()), ([3, 3], [2, 2]))
        self.assertEqual(twice(x).tolist(), [2, 2])

        class Another(Log):
            pass

        library.register_torch_dispatch(twice, Another)(rule)
        with Another():
            self.assertEqual(twice(x).tolist(), [3, 3])

    def test_small_names(self):
        self.assertEqual((torch.Tag.pointwise.name, int(torch.Tag.core)), ("pointwise", 0))
        self.assertEqual(repr(torch.Tag.pointwise), "<Tag.pointwise: 16>")
        self.assertEqual(int(profiler.DeviceType.MTIA), 19)
        self.assertIsInstance(profiler.kineto_available(), bool)
        self.assertEqual(torch.dequantize(torch.ones(2).double()).dtype, torch.float32)
        torch.sym_constrain_range(3, min=2, max=4)
        for function in (torch.sym_constrain_range, torch.sym_constrain_range_for_size):
            with self.assertRaisesRegex(RuntimeError, r"Invalid value range for 5 between \[3, 4\]"):
                function(5, min=3, max=4)


class Exchange(unittest.TestCase):
    def test_read_only(self):
        numpy = importlib.import_module("numpy")
        wrapper = module("utils.dlpack").ReadOnlyTensorWrapper
        x = torch.arange(3.0)
        one = wrapper(x)
        self.assertIsInstance(one, torch.Tensor)
        array = numpy.from_dlpack(one)
        self.assertEqual((array.flags.writeable, array.tolist()), (False, [0, 1, 2]))
        self.assertTrue(numpy.from_dlpack(x).flags.writeable)
        x[0] = 5
        self.assertEqual((array[0], numpy.from_dlpack(wrapper(one))[0]), (5, 5))
        for function in (lambda: one + 1, lambda: one.add_(1), lambda: repr(one),
                         lambda: one.numpy(), lambda: one.view(3, 1), lambda: one.data_ptr()):
            with self.assertRaisesRegex(RuntimeError, "only supports DLPack export"):
                function()
        with self.assertRaises(BufferError):
            numpy.from_dlpack(wrapper(torch.ones(2, requires_grad=True)))


class Optimizers(unittest.TestCase):
    def test_other_parameters(self):
        swap = torch.optim.swap_in_optimizer_params_and_state
        p = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
        other = torch.full((2,), 5.0)
        other.grad = torch.ones(2)
        with self.assertRaisesRegex(RuntimeError, "requires initialized optimizer state"):
            with swap(optimizer, {"p": other}, optimizer.state_dict()):
                pass
        p.grad = torch.ones(2)
        optimizer.step()
        state = copy.deepcopy(optimizer.state_dict())
        state["param_groups"][0]["lr"] = 1.0
        with swap(optimizer, {"p": other}, state):
            self.assertIs(optimizer.param_groups[0]["params"][0], other)
            self.assertEqual(optimizer.param_groups[0]["lr"], 1)
            optimizer.step()
            optimizer.param_groups[0]["lr"] = 7
        self.assertTrue(torch.allclose(other, torch.full((2,), 3.1)))
        self.assertTrue(torch.allclose(state["state"][0]["momentum_buffer"], torch.full((2,), 1.9)))
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.1)
        self.assertIs(optimizer.param_groups[0]["params"][0], p)
        self.assertEqual(optimizer.state[p]["momentum_buffer"].tolist(), [1, 1])
        optimizer.step()
        self.assertTrue(torch.allclose(p.detach(), torch.full((2,), 0.71)))
        for parameters, given, message in (
            ({}, state, "to match optimizer.param_groups ordering"),
            ({"p": other}, {**state, "param_groups": []}, "a different number of parameter groups"),
            ({"p": other}, {**state, "state": {0: 1}}, "entries to be dictionaries"),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                with swap(optimizer, parameters, given):
                    pass


warnings.simplefilter("ignore")

if __name__ == "__main__":
    unittest.main()
