"""Everything that a class can take over by ``__torch_function__``: each call arrives there, as the
function that PyTorch names, with the arguments that it passes."""

import importlib
import inspect
import json
import unittest
import warnings
from pathlib import Path

import override_cases
from module_under_test import torch

CASES = json.loads((Path(__file__).parents[1] / "goldens" / "overrides.json").read_text())


#: Overrides get the arguments as they were given, without those that were not.
GIVEN_ONLY = ("torch.Tensor.__dlpack__", "torch.Tensor.split")


def is_absent(name):
    """Whether a function, such as one of quantised tensors, is not part of the package."""
    try:
        found = override_cases.lookup(torch, name.removesuffix(".__get__"))
    except AttributeError:
        return True
    return getattr(found, "is_absent", False)


class Walk(unittest.TestCase):
    def test_what_is_there(self):
        absent = [name for name in CASES if is_absent(name)]
        self.assertLess(len(absent), 80)

    def walk(self, kind):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, (args, kwargs, expected) in CASES.items():
                if kind not in expected or is_absent(name):
                    continue
                with self.subTest(name=name):
                    found = override_cases.call(torch, name, args, kwargs, kind == "tensor")
                    if isinstance(found, Exception):
                        raise found
                    self.assertIsNotNone(found, "was not asked")
                    named, count, keywords = expected[kind]
                    self.assertEqual(found[0], override_cases.lookup(torch, named))
                    if name not in GIVEN_ONLY:
                        self.assertEqual((len(found[1]), sorted(found[2])), (count, keywords))

    def test_tensors(self):
        self.walk("tensor")

    def test_other_objects(self):
        self.walk("other")


class Lists(unittest.TestCase):
    overrides = importlib.import_module(torch.__name__ + ".overrides")

    def test_names(self):
        for name in ("torch.add", "torch.Tensor.add", "torch.nn.functional.relu", "torch.linalg.svd",
                     "torch.Tensor.shape.__get__", "torch.Tensor.__rsub__", "torch.nn.functional.linear"):
            function = override_cases.lookup(torch, name)
            self.assertEqual(self.overrides.resolve_name(function), name)
        self.assertIsNone(self.overrides.resolve_name(len))

    def test_functions(self):
        spaces = self.overrides.get_overridable_functions()
        self.assertIn(torch.nn.functional.relu, spaces[torch.nn.functional])
        self.assertIn(torch.Tensor.add, spaces[torch.Tensor])
        ignored = self.overrides.get_ignored_functions()
        self.assertIn(torch.zeros, ignored)
        self.assertFalse(any(function in ignored for function in spaces[torch]))

    def test_dummies(self):
        dummies = self.overrides.get_testing_overrides()
        self.assertGreater(len(dummies), 1200)
        for function, names in ((torch.nn.functional.relu, ["input"]), (torch.Tensor.register_hook, ["self", "hook"])):
            signature = inspect.signature(dummies[function])
            needed = [one.name for one in signature.parameters.values()
                      if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
            self.assertEqual(needed, names)
            self.assertEqual(dummies[function](*names), -1)


class Traces(unittest.TestCase):
    """Graphs of functions of unknown values show what overrides are told."""

    def test_every_function(self):
        fx = importlib.import_module(torch.__name__ + ".fx")
        for name, (args, kwargs, expected) in CASES.items():
            if "other" not in expected or is_absent(name) or ".sym_" in name:
                continue

            class Called(torch.nn.Module):
                def forward(self, x):
                    function = override_cases.lookup(torch, name)
                    given = [override_cases.value(torch, one, lambda: x) for one in args]
                    named = {key: override_cases.value(torch, one, lambda: x) for key, one in kwargs.items()}
                    return function(*given, **named)

            with self.subTest(name=name):
                nodes = list(fx.symbolic_trace(Called()).graph.nodes)
                node = nodes[-2]
                called, count, keywords = expected["other"]
                self.assertEqual(node.op, "call_function")
                self.assertEqual(node.target, override_cases.lookup(torch, called))
                self.assertEqual((len(node.args), sorted(node.kwargs)), (count, keywords))


class Modes(unittest.TestCase):
    def test_everything_is_seen(self):
        seen = []

        class Noting(self.mode()):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(getattr(func, "__name__", None))
                return func(*args, **(kwargs or {}))

        x = torch.ones(2)
        with Noting():
            torch.nn.functional.softsign(x)
            torch.range(0, 2) if torch.__name__ == "corten" else None
            torch.einsum("i,i->", x, x)
            x.shape
            len(x)
        self.assertEqual(seen[0], "softsign")
        self.assertIn("einsum", seen)
        self.assertEqual(seen[-2:], ["__get__", "__len__"])

    @staticmethod
    def mode():
        return importlib.import_module(torch.__name__ + ".overrides").TorchFunctionMode


if __name__ == "__main__":
    unittest.main()
