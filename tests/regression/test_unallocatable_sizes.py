"""No number and no expanded tensor ends the process: a result or an exception, and soon."""

import itertools
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import unittest

import corten as torch
from absurd_calls import EXPRESSIONS, SKIPPED
from module_under_test import SANITIZED

WORKER = str(pathlib.Path(__file__).with_name("absurd_calls.py"))
F = torch.nn.functional
FULL = bool(os.environ.get("CORTEN_TEST_FULL"))
#: Every so many operators in the ordinary run.
STEP = 1 if FULL else 41


def operators():
    names = sorted(op["name"] for op in torch._C._ops())
    return [name for name in names if not SKIPPED.match(name)]


def walk(names, long=None):
    """What went wrong: `(operator, case, how it ended)`. Long walks over many elements go to `long`."""
    faults, sound = [], set()
    names = list(names)
    while names:
        done = subprocess.run([sys.executable, WORKER, *names], capture_output=True, text=True, check=False)
        last = None
        for line in done.stdout.splitlines():
            kind, *words = json.loads(line)
            if kind == "operator" and words[1]:
                sound.add(words[0])
            elif kind == "call":
                last = words
            elif kind == "error" and last:
                faults.append((last[0], last[2], words[0]))
        if done.returncode == 0:
            break
        if last is None:
            faults.append((names[0], "no call", done.stderr[-500:]))
            names = names[1:]
            continue
        name, number, what, many = last
        if many and done.returncode == -signal.SIGALRM:
            if long is not None:
                long.append((name, what))
        else:
            faults.append((name, what, f"{signal_name(done.returncode)} {done.stderr[-300:]}"))
        at = [entry.partition("/")[0] for entry in names].index(name)
        names = [f"{name}/{number + 1}", *names[at + 1 :]]
    return faults, sound


def signal_name(code):
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def fails_at_once(test, call):
    """That a call finds no memory, in PyTorch's words."""
    words = "can't allocate memory: you tried to allocate|Storage size calculation overflowed"
    test.assertRaisesRegex(RuntimeError, words, call)


@unittest.skipIf(SANITIZED, "the address sanitizer reserves more address space than the limit")
class Counts(unittest.TestCase):
    """Numbers of elements are known before there is memory for them, and are right."""

    @classmethod
    def setUpClass(cls):
        # Systems that promise more memory than they have do not refuse.
        cls.limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, cls.limits[1]))

    @classmethod
    def tearDownClass(cls):
        resource.setrlimit(resource.RLIMIT_AS, cls.limits)

    def test_triangles(self):
        for row, col, offset in itertools.product(range(5), range(5), range(-6, 7)):
            with self.subTest(row=row, col=col, offset=offset):
                lower = [(i, j) for i in range(row) for j in range(col) if j <= i + offset]
                upper = [(i, j) for i in range(row) for j in range(col) if j >= i + offset]
                found = torch.tril_indices(row, col, offset)
                self.assertEqual(found.T.tolist(), [list(pair) for pair in lower])
                self.assertEqual(tuple(found.shape), (2, len(lower)))
                self.assertEqual(torch.triu_indices(row, col, offset).T.tolist(),
                                 [list(pair) for pair in upper])

    def test_triangles_without_bounds(self):
        n = 2**40
        for function in (torch.tril_indices, torch.triu_indices):
            for row, col in ((n, n), (n, 1), (2**63 - 1, 2**63 - 1)):
                offset = n if function is torch.tril_indices else -n
                fails_at_once(self, lambda: function(row, col, offset))
            self.assertEqual(tuple(function(n, 0).shape), (2, 0))
        # Few elements in the corner of a large matrix.
        self.assertEqual(torch.tril_indices(n, n, 2 - n).tolist(), [[n - 2, n - 1, n - 1], [0, 0, 1]])
        self.assertEqual(torch.triu_indices(n, n, n - 2).tolist(), [[0, 0, 1], [n - 2, n - 1, n - 1]])
        self.assertEqual(torch.triu_indices(n, 1).tolist(), [[0], [0]])

    def test_choices(self):
        for count, r in itertools.product(range(6), range(1, 7)):
            for function, again in ((itertools.combinations, False),
                                    (itertools.combinations_with_replacement, True)):
                found = torch.combinations(torch.arange(count), r, with_replacement=again)
                self.assertEqual([tuple(row) for row in found.tolist()], list(function(range(count), r)))
                self.assertEqual(found.shape[1], r)
        fails_at_once(self, lambda: torch.combinations(torch.ones(200), 100))
        fails_at_once(self, lambda: torch.combinations(torch.ones(3), 2**40, with_replacement=True))
        # As deep as the list is long.
        self.assertEqual(torch.combinations(torch.ones(100_000), 100_000).shape, (1, 100_000))

    def test_repeats(self):
        for counts in ([10**12, 10**12], [2**50], [2**61, 3]):
            fails_at_once(self, lambda: torch.repeat_interleave(torch.tensor(counts)))
        with self.assertRaisesRegex(RuntimeError, "repeats are too many"):
            torch.repeat_interleave(torch.tensor([2**62, 2**62]))
        self.assertEqual(torch.repeat_interleave(torch.tensor([2, 0, 1])).tolist(), [0, 0, 2])

    def test_expanded_indices(self):
        for count in (2**40, 2**58, 2**62):
            index = torch.zeros(1, dtype=torch.int64).expand(count)
            fails_at_once(self, lambda: torch.ones(3)[index])
            fails_at_once(self, lambda: torch.ones(3).index_put((index,), torch.ones(1)))
            fails_at_once(self, lambda: torch.ones(3).index_select(0, index))

    def test_pieces(self):
        self.assertEqual([len(p) for p in torch.arange(7).chunk(3)], [3, 3, 1])
        self.assertEqual([len(p) for p in torch.arange(3).chunk(2**63 - 1)], [1, 1, 1])
        self.assertEqual([len(p) for p in torch.arange(7).tensor_split(3)], [3, 2, 2])
        fails_at_once(self, lambda: torch.ones(3).tensor_split(2**40))
        fails_at_once(self, lambda: torch.ones(0).chunk(2**40))
        fails_at_once(self, lambda: torch.ones(1).expand(2**40).unbind())

    def test_windows_of_expanded_images(self):
        image = torch.ones(1, 1, 1).expand(1, 1, 2**40)
        for pool in (F.max_pool1d, F.avg_pool1d):
            fails_at_once(self, lambda: pool(image, 2))

    def test_bytes_of_expanded_tensors(self):
        wide = torch.zeros(1).expand(2**62)
        self.assertEqual((wide.numel(), wide[5:].storage_offset()), (2**62, 0))
        fails_at_once(self, wide.clone)
        del wide

    def test_padded_sequences(self):
        packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1.0, 2.0]), torch.tensor([3.0])])
        padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed, padding_value=-1.0, total_length=4)
        self.assertEqual(padded.T.tolist(), [[1, 2, -1, -1], [3, -1, -1, -1]])
        self.assertEqual(lengths.tolist(), [2, 1])
        fails_at_once(self, lambda: torch.nn.utils.rnn.pad_packed_sequence(packed, total_length=2**40))

    def test_parameters_of_batch_norm(self):
        x, right, wrong = torch.ones(2, 3, 4), torch.ones(3), torch.ones(2)
        for name in ("running_mean", "running_var", "weight", "bias"):
            given = dict.fromkeys(("running_mean", "running_var", "weight", "bias"), right)
            with self.assertRaisesRegex(RuntimeError, f"{name} should contain 3 elements not 2"):
                F.batch_norm(x, **{**given, name: wrong})

    def test_negative_offsets(self):
        offsets = torch.tensor([-(2**40), 1])
        with self.assertRaises(RuntimeError):
            F.embedding_bag(torch.tensor([0, 1]), torch.ones(2, 3), offsets)

    def test_digits(self):
        torch.set_printoptions(precision=2**40, edgeitems=2**62, threshold=0)
        try:
            self.assertIn("0.5", repr(torch.tensor([0.5, 1.5])))
        finally:
            torch.set_printoptions(profile="default")


@unittest.skipIf(SANITIZED, "the address sanitizer reserves more address space than the limit")
class AbsurdSizes(unittest.TestCase):
    def test_operators(self):
        faults, _ = walk(operators()[::STEP])
        self.assertEqual(faults, [])

    def test_expressions(self):
        faults, _ = walk(str(number) for number in range(0, len(EXPRESSIONS), 1 if FULL else 5))
        self.assertEqual([(EXPRESSIONS[int(number)], *rest) for number, *rest in faults], [])


if __name__ == "__main__":
    unittest.main()
