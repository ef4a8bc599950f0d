"""Which values arguments take and what becomes of them: PyTorch's table, and where Corten differs."""

import json
import unittest
from pathlib import Path

from argument_cases import calls, outcome
from module_under_test import torch

GOLDEN = Path(__file__).parents[1] / "goldens" / "arguments.json"
REFUSED = ("Error", "Exception")

# Where PyTorch drops imaginary parts, Corten keeps them or says that it cannot: the number is complex.
COMPLEX = {"np.complex64(1)", "2j", "1+0j", "np.complex128(1)", "tensor(1, complex64)",
           "tensor(1, complex128)", "tensor(1j, requires grad)"}
# What Python and NumPy take for integers and truth values passes where PyTorch's parser says no.
LENIENT = {"__index__", "np.bool_(1)", "[Index]", "[np 0-d]"}

# Calls whose answers are Python's in both: which exception a wrong value leads to, or how NumPy's
# arrays are read, differs; what is accepted there is not what these calls are in the table for.
APART = {
    ("Tensor?", "clamp positional"), ("Scalar", "tensor"),
    ("Scalar", "as_tensor"), ("Scalar", "Tensor of"), ("Scalar", "scatter value"),
    ("Scalar", "arange step"), ("float", "cosine_similarity"), ("float", "bernoulli_"),
    ("float", "scale_factor"), ("int", "repeat_interleave"), ("int", "getitem"),
    ("int", "manual_seed"), ("int", "padding_idx"), ("int", "len split"), ("int list", "split"),
    ("int list", "Size"), ("int list", "tensordot"), ("int list", "Tensor"),
    ("int list", "unflatten"), ("str", "reduction"), ("ScalarType", "to"), ("ScalarType", "type"),
    ("ScalarType", "softmax"), ("ScalarType", "finfo"), ("ScalarType", "iinfo"),
    ("Device", "Generator"), ("Layout", "empty_like"), ("Tensor[]", "broadcast_tensors"),
    ("Tensor[]", "block_diag"), ("Tensor[]", "index_put_"), ("Tensor[]", "getitem"),
    ("Tensor[]", "einsum"), ("Tensor[]", "cartesian_prod"),
}


def refused(text):
    return text.endswith(REFUSED)


def is_excused(label, wanted, found):
    """Whether a difference is one of those that are meant."""
    if label in COMPLEX:
        return True
    # Integers in other clothes: arrays of one element, and whatever has `__index__`.
    if label in LENIENT or label.startswith("np.array(1, "):
        return refused(wanted)
    return False


class Arguments(unittest.TestCase):
    """Every call with every value."""

    def check(self, kind):
        wanted = json.loads(GOLDEN.read_text())[kind]
        values, functions = calls(torch)[kind]
        self.assertEqual(set(wanted), set(functions))
        for name, function in functions.items():
            if (kind, name) in APART:
                continue
            expected = {label: text for text, labels in wanted[name].items() for label in labels}
            differences = []
            for label, value in values(torch).items():
                found = outcome(torch, function, value)
                if found != expected[label] and not is_excused(label, expected[label], found):
                    differences.append((label, expected[label], found))
            with self.subTest(name):
                self.assertEqual(differences, [])

    def test_accepted_everywhere(self):
        """What PyTorch accepts is accepted, and gives the same, in the calls set apart, too."""
        table = json.loads(GOLDEN.read_text())
        everyday = {"False", "True", "0", "1", "2", "-1", "0.5", "1.0", "np.int64(1)",
                    "np.float32(1)", "np.float64(1)", "None", "[2]", "(2, 2)", "Size", "torch.float32", "'cpu'", "'mean'"}
        for kind, name in sorted(APART):
            values, functions = calls(torch)[kind]
            for text, labels in table[kind][name].items():
                if refused(text):
                    continue
                for label in everyday.intersection(labels):
                    with self.subTest(f"{kind}, {name}: {label}"):
                        found = outcome(torch, functions[name], values(torch)[label])
                        self.assertEqual(found, text)


def _test_of(kind):
    def test(self):
        self.check(kind)

    return test


_NO_MARKS = str.maketrans("", "", "?[]")
for _number, _kind in enumerate(calls(torch)):
    setattr(Arguments, f"test_{_number:02}_{_kind.replace(' ', '_').translate(_NO_MARKS)}", _test_of(_kind))


class Numbers(unittest.TestCase):
    """The places that programs meet."""

    def setUp(self):
        self.x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    def test_truth_values_as_floats(self):
        x, functional = self.x, torch.nn.functional
        self.assertEqual(torch.nn.Dropout(False)(x).tolist(), x.tolist())
        self.assertEqual(functional.pad(x[0], (1, 1), value=True).tolist(), [1, 1, 2, 1])
        target = torch.tensor([0, 1])
        self.assertEqual(functional.cross_entropy(x, target, label_smoothing=False).item(),
                         functional.cross_entropy(x, target).item())
        self.assertEqual(torch.nn.Linear(True, 2).weight.shape, (2, 1))

    def test_imaginary_parts_are_not_dropped(self):
        for call in (lambda: torch.nn.functional.leaky_relu(self.x, 2j),
                     lambda: torch.nn.functional.hardshrink(self.x, 2j),
                     lambda: torch.addcmul(self.x, self.x, self.x, value=2j)):
            with self.assertRaisesRegex(RuntimeError, "cannot be converted to type"):
                call()


if __name__ == "__main__":
    unittest.main()
