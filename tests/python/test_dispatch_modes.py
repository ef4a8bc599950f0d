"""Dispatch modes, and checkpoints that keep the results of chosen operators."""

import functools
import importlib
import unittest

from module_under_test import torch

TorchDispatchMode = importlib.import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode
checkpointing = importlib.import_module(f"{torch.__name__}.utils.checkpoint")
aten = torch.ops.aten


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))

    def names(self):
        return [str(func) for func in self.calls if func is not aten.detach.default]


class Modes(unittest.TestCase):
    def test_what_is_seen(self):
        x, w, b = torch.ones(3, 4, requires_grad=True), torch.ones(5, 4), torch.ones(5)
        with Log() as log:
            y = torch.nn.functional.linear(x, w, b).relu() + 1
            y = (y * 2).sum()
            x.view(-1)[0].exp()
        self.assertEqual(log.names(), [
            "aten.t.default", "aten.addmm.default", "aten.relu.default", "aten.add.Tensor",
            "aten.mul.Tensor", "aten.sum.default", "aten.view.default", "aten.select.int",
            "aten.exp.default",
        ])
        with Log() as log:
            y.backward()
        self.assertIn("aten.mm.default", log.names())
        self.assertEqual(x.grad.tolist(), [[10] * 4] * 3)
        self.assertEqual(repr(aten.add.Tensor), "<OpOverload(op='aten.add', overload='Tensor')>")
        self.assertIs(aten.add.Tensor.overloadpacket, aten.add)

    def test_results_may_differ(self):
        class Zeros(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                return torch.zeros_like(out) if func is aten.exp.default else out

        x = torch.ones(2, requires_grad=True)
        with Zeros():
            y = x.exp()
        self.assertEqual((y.tolist(), y.requires_grad), ([0, 0], True))
        self.assertNotEqual(x.exp().tolist(), [0, 0])

    def test_nesting_and_errors(self):
        with Log() as outer, Log() as inner:
            torch.ones(2).neg()
        self.assertEqual(inner.names(), outer.names())

        class Failing(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                raise KeyError("no")

        with self.assertRaises(KeyError), Failing():
            torch.ones(2)
        self.assertEqual(torch.ones(2).sum().item(), 2)

    def test_in_place_and_several_results(self):
        with Log() as log:
            x = torch.zeros(2, 3)
            same = x.add_(1)
            values, places = x.max(1)
            parts = x.split(1)
        self.assertIs(same, x)
        self.assertEqual((values.tolist(), len(parts), x.sum().item()), ([1, 1], 2, 6))
        for name in ("aten.add_.Tensor", "aten.max.dim", "aten.split.Tensor"):
            self.assertIn(name, log.names())


class Selective(unittest.TestCase):
    def run_with(self, policy, function=None, **options):
        """The gradients of a checkpoint, and what the backward pass computed."""
        function = function or (lambda x, w: torch.sigmoid(x @ w).exp())
        x = torch.linspace(-1, 1, 12).view(4, 3).requires_grad_()
        w = torch.linspace(0, 1, 6).view(3, 2).requires_grad_()
        make = functools.partial(checkpointing.create_selective_checkpoint_contexts, policy, **options)
        out = checkpointing.checkpoint(function, x, w, use_reentrant=False, context_fn=make)
        with Log() as log:
            out.sum().backward(retain_graph=True)
        plain = torch.autograd.grad(function(x, w).sum(), [x, w])
        for got, expected in zip((x.grad, w.grad), plain):
            self.assertTrue(torch.equal(got, expected))
        return log.names(), out

    def count(self, names, name):
        return names.count(f"aten.{name}.default")

    def test_lists(self):
        names, _ = self.run_with([aten.mm.default])
        self.assertEqual((self.count(names, "mm"), self.count(names, "sigmoid")), (2, 1))
        names, _ = self.run_with([aten.sigmoid.default])
        self.assertEqual((self.count(names, "mm"), self.count(names, "sigmoid")), (3, 0))

    def test_functions(self):
        policies = checkpointing.CheckpointPolicy
        for keep in (policies.MUST_SAVE, policies.PREFER_SAVE, True):
            names, _ = self.run_with(lambda ctx, op, *args, **kwargs: keep)
            self.assertEqual((self.count(names, "mm"), self.count(names, "sigmoid")), (2, 0))
        for again in (policies.MUST_RECOMPUTE, policies.PREFER_RECOMPUTE, False):
            names, _ = self.run_with(lambda ctx, op, *args, **kwargs: again)
            self.assertEqual((self.count(names, "mm"), self.count(names, "sigmoid")), (3, 1))

    def test_what_policies_are_told(self):
        seen = []

        def policy(context, op, *args, **kwargs):
            seen.append((str(op), context.is_recompute, tuple(context.op_output.shape), len(args)))
            return checkpointing.CheckpointPolicy.PREFER_RECOMPUTE

        self.run_with(policy)
        self.assertEqual(seen, [
            ("aten.mm.default", False, (4, 2), 2), ("aten.sigmoid.default", False, (4, 2), 1),
            ("aten.exp.default", False, (4, 2), 1),
        ])

    def test_refusals(self):
        _, out = self.run_with([aten.mm.default])
        with self.assertRaisesRegex(RuntimeError, "Trying to backward an extra time"):
            out.sum().backward()
        make = checkpointing.create_selective_checkpoint_contexts
        with self.assertRaisesRegex(ValueError, "change it to `torch.ops.aten.mm.default`"):
            make([aten.mm])
        with self.assertRaisesRegex(ValueError, "to be an OpOverload but got"):
            make([torch.mm])
        with self.assertRaisesRegex(TypeError, "either a function or a list of ops"):
            make(5)

    def test_changed_results(self):
        def function(x, w):
            y = x @ w
            return torch.sigmoid(y.mul_(2)).exp()

        with self.assertRaisesRegex(RuntimeError, "selective activation checkpoint has been mutated"):
            self.run_with([aten.mm.default], function)

    def test_different_second_time(self):
        times = []

        def function(x, w):
            times.append(1)
            return (x @ w).exp().exp() if len(times) == 1 else (x @ w).sin().exp()

        with self.assertRaisesRegex(RuntimeError, "not found in storage"):
            self.run_with([aten.mm.default], function)


if __name__ == "__main__":
    unittest.main()
