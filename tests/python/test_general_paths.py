"""Fast paths beside the general path: results, versions, histories and errors of every operator are the same.

Builds with debug assertions can switch fast paths off; others have nothing to compare. Every operator is
called on some of its samples, on all of them with ``CORTEN_TEST_FULL=1``.
"""

import itertools
import operator as slots
import os
import unittest
import warnings
import zlib

import numpy as np

import forward_cases
from module_under_test import torch

FULL = bool(os.environ.get("CORTEN_TEST_FULL"))
NATIVE = getattr(torch, "_C", None)
SWITCHES = hasattr(NATIVE, "_set_fast_paths") and NATIVE._set_fast_paths(NATIVE._get_fast_paths())
# Calls that are compared at least: with values, with errors.
FLOORS = (4000, 3000)


def switched(fast, call):
    """What a call gives with fast paths or without."""
    before = NATIVE._get_fast_paths()
    NATIVE._set_fast_paths(fast)
    try:
        return call()
    finally:
        NATIVE._set_fast_paths(before)


def bits(tensor):
    """The elements of a tensor in order, as bytes."""
    tensor = tensor.detach()
    # Truth values have no negative, although a view of them may say so.
    return None if tensor.is_neg() and tensor.dtype == torch.bool else forward_cases.raw(torch, tensor)


def described(value, unwritten=False):
    """All that can be seen of a result."""
    if isinstance(value, torch.Tensor):
        seen = [type(value).__name__, str(value.dtype), str(value.layout), tuple(value.shape)]
        if value.layout != torch.strided:
            return seen
        state = [value.stride(), value.storage_offset(), value._version, value.requires_grad, value.is_leaf,
                 value._is_view(), value.is_conj(), value.is_neg(), type(value.grad_fn).__name__]
        return seen + state + [None if unwritten else bits(value)]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(described(v, unwritten) for v in value)]
    return [type(value).__name__, None if isinstance(value, torch.Generator) else repr(value)]


def apart(one, other, place=()):
    """Where two descriptions differ first."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return next(apart(a, b, (*place, i)) for i, (a, b) in enumerate(zip(one, other)) if a != b)
    return f"{place}: {str(one)[:200]} instead of {str(other)[:200]}"


def outcome(make, call, unwritten=False):
    """What a call gives and what it does to its arguments, or its error."""
    positional, keywords = make()
    try:
        result = call(*positional, **keywords)
    except Exception as error:  # pylint: disable=broad-exception-caught
        result = error
    if isinstance(result, Exception):
        return ["error", type(result).__name__, str(result), described([*positional, *keywords.values()], True)]
    return ["done", described(result, unwritten), described([*positional, *keywords.values()], unwritten)]


def of_gradients(value):
    """The same argument, as one whose gradient is wanted."""
    if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.requires_grad_()
    if isinstance(value, list):
        return [of_gradients(v) for v in value]
    return value


def chosen(operator, nr, kind, layout):
    """Whether a case is among those that are always compared: a dtype class for most layouts."""
    place = zlib.crc32(f"{operator.name}{nr}{layout}".encode()) % 20
    return FULL or place < 5 and list(forward_cases.CLASSES)[place] == kind


class GeneralPaths(unittest.TestCase):
    """Every operator with fast paths and without."""

    def setUp(self):
        if not SWITCHES:
            self.skipTest("this build has no switch")
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        self.enterContext(np.errstate(all="ignore"))
        self.differences, self.counts = [], {"done": 0, "error": 0}

    def compare(self, title, make, call, unwritten=False, seed=False):
        def once():
            if seed:
                torch.manual_seed(11)
            return outcome(make, call, unwritten)

        fast, general = switched(True, once), switched(False, once)
        self.counts[general[0]] += 1
        if fast != general:
            self.differences.append(f"{title} {apart(fast, general)}")

    def finish(self):
        self.assertEqual(self.differences[:30], [], f"{len(self.differences)} calls differ")

    def calls(self, operator):
        """The calls of an operator that are compared: a title, arguments, and what is called."""
        schema = operator.schema
        for nr, (words, kind, dtype, layout, key) in enumerate(operator.cases()):
            if not chosen(operator, nr // 20, kind, layout):
                continue
            for road in (None, *operator.roads()):
                try:
                    call = forward_cases.find(torch, operator, road)
                except AttributeError:
                    continue
                for form in ("given", "named", "recorded"):
                    yield f"{operator.name} {key} {road} {form}", (words, kind, dtype, layout), form, call, road

    def arguments(self, operator, case, form, road):
        """New arguments of a call, or None where it has no such form."""
        words, kind, dtype, layout = case
        schema = operator.schema
        positional, keywords = forward_cases.Maker(torch, kind, dtype, layout).arguments(schema, words)
        if schema.outputs:
            if form != "given" or len(schema.outputs) != 1 or schema.outputs[0].list:
                return None
            keywords["out" if road is not None else schema.outputs[0].name] = torch.empty(
                0, dtype=getattr(torch, dtype))
        if form == "named":
            if len(positional) < 2 or schema.written:
                return None
            names = [a.name for a in schema.arguments if a not in schema.outputs]
            keywords = {**dict(zip(names[1:], positional[1:])), **keywords}
            positional = positional[:1]
        if form == "recorded":
            positional = [of_gradients(p) for p in positional]
            if not any(isinstance(p, torch.Tensor) and p.requires_grad for p in positional):
                return None
            if schema.written:
                # A leaf cannot be written in place.
                positional[0] = positional[0] * 1 if isinstance(positional[0], torch.Tensor) else positional[0]
        return positional, keywords

    def test_operators(self):
        from corten import ops

        for operator in forward_cases.operators(ops.all()):
            for title, case, form, call, road in self.calls(operator):
                if self.arguments(operator, case, form, road) is not None:
                    self.compare(title, lambda: self.arguments(operator, case, form, road), call,
                                 operator.unwritten, operator.random)
        self.finish()
        for (kind, count), least in zip(self.counts.items(), FLOORS):
            self.assertGreaterEqual(count, least, kind)

    def test_slots(self):
        binary = [slots.add, slots.sub, slots.mul, slots.truediv, slots.floordiv, slots.mod, slots.pow, slots.and_,
                  slots.or_, slots.xor, slots.lshift, slots.rshift, slots.matmul, slots.iadd, slots.isub, slots.imul,
                  slots.itruediv, slots.ifloordiv, slots.imod, slots.ipow, slots.iand, slots.ior, slots.ixor,
                  slots.ilshift, slots.irshift, slots.eq, slots.ne, slots.lt, slots.le, slots.gt, slots.ge]
        others = [2, 0, -3, 2.5, True, 1 << 70, 1 + 2j, "text", None, np.float32(1.5), np.int64(3), (1, 2)]
        dtypes = [torch.float32, torch.int64, torch.bool, torch.complex64, torch.float16]

        def tensor(dtype, shape, grad=False):
            made = torch.arange(1, 7).to(dtype)[:int(np.prod(shape))].reshape(shape)
            return made.requires_grad_() * 1 if grad else made

        def arguments(make, value, left):
            return lambda: ([make(), value] if left else [value, make()], {})

        for call, dtype in itertools.product(binary, dtypes):
            for grad in {False, dtype.is_floating_point}:
                for value, left in itertools.product(others, (True, False)):
                    make = arguments(lambda: tensor(dtype, (2, 3), grad), value, left)
                    self.compare(f"{call.__name__} {dtype} {value!r} {left} {grad}", make, call)
                for other, shape in itertools.product(dtypes, ((2, 3), (3,), (), (2,))):
                    self.compare(f"{call.__name__} {dtype} {other} {shape} {grad}",
                                 lambda: ([tensor(dtype, (2, 3), grad), tensor(other, shape)], {}), call)
        for call, dtype in itertools.product([slots.neg, slots.pos, slots.abs, slots.invert, bool, float, int], dtypes):
            for shape in ((), (2, 3)):
                self.compare(f"{call.__name__} {dtype} {shape}", lambda: ([tensor(dtype, shape)], {}), call)
        self.finish()

    def test_keys(self):
        """Indexing, where views of one position or range have short ways."""
        keys = [0, -1, 5, slice(1, None), slice(None, None, 2), None, ..., (0, 1), (slice(None), -1), True,
                (..., None), [0, 1], (None, 0), slice(3, 1), 2.5]
        bases = [lambda: torch.arange(6.0).reshape(2, 3), lambda: torch.arange(6).reshape(3, 2).t(),
                 lambda: torch.ones(2, 0), lambda: torch.tensor(3.0), lambda: torch.arange(24.0).reshape(2, 3, 1, 4),
                 lambda: torch.ones(2, 3, requires_grad=True), lambda: torch.ones(2, 3, requires_grad=True) * 2]
        for (nr, base), key in itertools.product(enumerate(bases), keys):
            self.compare(f"base {nr} {key}", lambda: ([base()], {}), lambda x: x[key])

            def assigned(x):
                x[key] = 7
                return x

            self.compare(f"base {nr} {key} assigned", lambda: ([base()], {}), assigned)
        self.finish()

    def test_lists_of_numbers(self):
        """Sizes and dimensions one by one, as one sequence, and what is none."""
        given = [(), (6,), (2, 3), ((2, 3),), ([2, 3],), (-1,), (3, -1), (2.0, 3), (True, 6), (torch.tensor(6),),
                 (np.int64(2), 3), ("2", 3), ((2, 3), 1), (1, 0), (0, 1), (2, 3, 1, 1, 1), (0,), (1, 1), (1 << 70,)]
        names = sorted(name for name in dir(torch.Tensor) if not name.startswith("_"))
        kept = [name for name in names if name in ("view", "reshape", "permute", "expand", "repeat", "tile", "sum", "mean",
                "squeeze", "unsqueeze", "transpose", "select", "narrow", "flip", "roll", "new_zeros", "new_empty")]
        for name, args in itertools.product(kept, given):
            for grad in (False, True):
                self.compare(f"Tensor.{name}{args} {grad}",
                             lambda: ([torch.arange(6.0).reshape(2, 3).requires_grad_(grad)], {}),
                             lambda x: getattr(x, name)(*args), name == "new_empty")
        for name, args in itertools.product(("zeros", "ones", "empty", "rand", "randn", "arange", "eye", "linspace"), given):
            self.compare(f"{name}{args}", lambda: ([], {}), lambda: getattr(torch, name)(*args), name == "empty", True)
        self.finish()


if __name__ == "__main__":
    unittest.main()
