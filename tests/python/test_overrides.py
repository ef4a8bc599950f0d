"""Everything that a class can take over by ``__torch_function__``: each call arrives there, as the
function that PyTorch names, with the arguments that it passes."""

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
        override_cases.lookup(torch, name.removesuffix(".__get__"))
    except AttributeError:
        return True
    return False


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


if __name__ == "__main__":
    unittest.main()
