"""Every operator with a rule for names: a named tensor gives what an unnamed one does, and a name per dimension."""

import unittest
import warnings

import forward_cases
from module_under_test import torch

NAMES = [f"d{nr}" for nr in range(12)]
# What an operator may say of named tensors that it does not take.
REFUSALS = ("is not yet supported with named tensors", "no names were given for unflattened sizes",
            "Cannot resize named tensor", "Name mismatch: specified out tensor")
# Calls that are compared at least.
FLOOR = 400


def named(value):
    """The tensor with names by position from the right."""
    return value.rename_(*NAMES[:value.dim()][::-1])


def tensors(value):
    """The tensors of a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors(v)] if isinstance(value, (list, tuple)) else []


@unittest.skipUnless(hasattr(torch.Tensor, "refine_names"), "PyTorch dropped names")
class NamedOperators(unittest.TestCase):
    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")

    def arguments(self, operator, case, count):
        """New arguments, so many tensors among them named; None where there are no dimensions to name."""
        words, kind, dtype, layout, _ = case
        positional, keywords = forward_cases.Maker(torch, kind, dtype, layout).arguments(operator.schema, words)
        given = [tensor for tensor in tensors(positional) if tensor.dim()]
        if count and not given:
            return None
        for tensor in given[:count]:
            named(tensor)
        return positional, keywords

    def outcome(self, call, arguments):
        torch.manual_seed(3)
        try:
            return call(*arguments[0], **arguments[1])
        except Exception as error:  # pylint: disable=broad-exception-caught
            return error

    def test_operators(self):
        from corten import ops

        wrong, compared, refused = [], 0, set()
        for operator in forward_cases.operators(ops.all()):
            if operator.entry["names"] in (None, "given") or operator.schema.outputs:
                continue
            call = forward_cases.find(torch, operator, None)
            for case in operator.cases():
                if case[1] != "float" or case[3] != "contiguous":
                    continue
                wanted = self.outcome(call, self.arguments(operator, case, 0))
                if isinstance(wanted, Exception):
                    continue
                # Names by position from the right match wherever sizes are broadcast.
                for count in (1, 9) if operator.entry["names"] in ("unify", "cat", "stack") else (1,):
                    arguments = self.arguments(operator, case, count)
                    if arguments is None:
                        continue
                    found = self.outcome(call, arguments)
                    if isinstance(found, RuntimeError) and any(words in str(found) for words in REFUSALS):
                        refused.add(operator.name)
                        continue
                    compared += 1
                    if complaint := self.differs(found, wanted, operator.unwritten):
                        wrong.append(f"{operator.name} {case[4]} {count}: {complaint}")
        self.assertEqual(wrong[:30], [], f"{len(wrong)} calls")
        self.assertLessEqual(refused, {
            "aten::unflatten.int", "aten::resize_", "aten::resize_as_", "aten::bernoulli_.Tensor",
        })
        self.assertGreater(compared, FLOOR)

    def differs(self, found, wanted, unwritten):
        """What is wrong with a result, or nothing."""
        if isinstance(found, Exception):
            return repr(found)
        if not isinstance(wanted, torch.Tensor | list | tuple):
            return "" if found == wanted else f"{found} instead of {wanted}"
        ours, theirs = tensors(found), tensors(wanted)
        if len(ours) != len(theirs):
            return "another number of results"
        for one, other in zip(ours, theirs):
            if len(one.names) != one.dim() or one.shape != other.shape or one.dtype != other.dtype:
                return f"{one.names} {one.shape} {one.dtype} instead of {other.shape} {other.dtype}"
            plain = one.rename(None)
            if not unwritten and not torch.equal(plain.isnan(), other.isnan()):
                return "other values"
            if not unwritten and not torch.equal(plain.nan_to_num(), other.nan_to_num()):
                return "other values"
        return ""


if __name__ == "__main__":
    unittest.main()
