"""Every operator of the registry on tensors without data: sizes, strides, dtypes and devices as with data."""

import unittest
import warnings

from corten import ops

import forward_cases
from module_under_test import torch

fake_tensor = __import__(f"{torch.__name__}._subclasses.fake_tensor", fromlist=["_"])
symbolic_shapes = __import__(f"{torch.__name__}.fx.experimental.symbolic_shapes", fromlist=["_"])
tree = __import__(f"{torch.__name__}.utils._pytree", fromlist=["_"])

# Operators whose results depend on data, as those of PyTorch do.
DATA = set("""
    _choose_qparams_per_tensor _unique _unique2 _local_scalar_dense allclose argwhere bincount ctc_loss.Tensor
    embedding_sparse_backward equal is_nonzero item masked_select narrow.Tensor nonzero nonzero_numpy
    repeat_interleave.Tensor repeat_interleave.self_Tensor tensor_split.tensor_indices_or_sections unique_consecutive
    unique_dim unique_dim_consecutive where nanquantile quantile
""".split())
# Layouts that no tensor without data stands for.
SPARSE = "sparse", "_gather_sparse_backward"


def described(value):
    """What is compared of a result: numbers in place of symbols."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    hint = symbolic_shapes.hint_int
    sizes = tuple(hint(size) for size in value.shape)
    strides = None
    if 0 not in sizes:
        strides = tuple(hint(stride) if size > 1 else None for size, stride in zip(sizes, value.stride()))
    return value.dtype, sizes, strides, value.device, value.requires_grad


def first_case(operator):
    """The arguments of the first call that works with data, twice, and what it gives."""
    for words, kind, dtype, layout, _ in operator.cases():
        if kind not in ("float", "integer") or layout not in ("strided", "contiguous"):
            continue
        try:
            given = [
                forward_cases.Maker(torch, kind, dtype, layout).arguments(operator.schema, words) for _ in range(2)
            ]
            torch.manual_seed(1)
            made = tree.tree_leaves(forward_cases.find(torch, operator, None)(*given[0][0], **given[0][1]))
            return given[1], [described(one) for one in made]
        except Exception:  # pylint: disable=broad-exception-caught
            continue
    return None


class Operators(unittest.TestCase):
    """Sizes without data are those with data."""

    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")

    def walk(self, symbolic):
        right, wrong = 0, {}
        # Symbols take several runs of a shape rule: every third operator then.
        for operator in forward_cases.operators(ops.all())[::3 if symbolic else 1]:
            name = operator.schema.full
            skipped = operator.schema.outputs or operator.entry["kind"] == "inplace" or operator.schema.space != "aten" or operator.schema.base.startswith("lift")
            if skipped or name in DATA or any(part in name for part in SPARSE):
                continue
            found = first_case(operator)
            if found is None:
                continue
            mode = fake_tensor.FakeTensorMode(shape_env=symbolic_shapes.ShapeEnv() if symbolic else None)
            try:
                args, kwargs = tree.tree_map(
                    lambda one: mode.from_tensor(one) if isinstance(one, torch.Tensor) else one, found[0]  # noqa: B023
                )
                with mode:
                    made = forward_cases.find(torch, operator, None)(*args, **kwargs)
                made = [described(one) for one in tree.tree_leaves(made)]
                if made == found[1]:
                    right += 1
                    continue
                wrong[name] = f"{made} instead of {found[1]}"
            except Exception as error:  # pylint: disable=broad-exception-caught
                wrong[name] = f"{type(error).__name__}: {error}"[:200]
        return right, wrong

    def test_sizes_that_are_numbers(self):
        right, wrong = self.walk(symbolic=False)
        self.assertLess(len(wrong), 0.01 * right, wrong)
        self.assertGreater(right, 1000)

    def test_sizes_that_are_symbols(self):
        right, wrong = self.walk(symbolic=True)
        self.assertLess(len(wrong), 0.01 * right, wrong)
        self.assertGreater(right, 330)


if __name__ == "__main__":
    unittest.main()
