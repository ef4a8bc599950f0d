"""An operator computed in another dtype than its arguments have."""

from __future__ import annotations

import corten
from corten._ops import HigherOrderOperator
from corten.utils._pytree import tree_leaves, tree_map_only

_ALLOWED = (
    "aten.linear.default", "aten.mm.default", "aten.conv2d.default", "aten.convolution.default",
    "aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar",
)


class OutDtypeOperator(HigherOrderOperator):
    """``torch.ops.higher_order.out_dtype``."""

    def __init__(self):
        super().__init__("out_dtype")

    def run(self, op, output_dtype, *args):
        """The result of the operator in a dtype."""
        return _computed(op, output_dtype, args)

    def record(self, recorder, op, output_dtype, *args):
        """A node of its own."""
        from corten.export._recorder import paused

        with paused():
            result = self.run(op, output_dtype, *args)
            recorder.emit(self, (op, output_dtype, *args), {}, result)
        return result


def _computed(op, output_dtype, args):
    """The result of an operator in a dtype: tensors are promoted with it before the operator is called.

    Raises:
        ValueError: ``op`` is no overload, or none of those that this is for.
    """
    if not isinstance(op, corten._ops.OpOverload):
        raise ValueError("out_dtype's first argument must be an OpOverload")
    if str(op) not in _ALLOWED:
        raise ValueError(f"out_dtype only allows the following operators: {list(_ALLOWED)}.")
    if _is_product_of_bytes(op, output_dtype, args):
        return corten._int_mm(*args)
    dtype = output_dtype
    for leaf in tree_leaves(args):
        if isinstance(leaf, corten.Tensor):
            dtype = corten.promote_types(dtype, leaf.dtype)
    wide = tree_map_only(corten.Tensor, lambda tensor: tensor.to(dtype), args)
    return op(*wide).to(output_dtype)


def _is_product_of_bytes(op, output_dtype, args):
    is_product = str(op) == "aten.mm.default" and output_dtype == corten.int32
    return is_product and all(one.dtype == corten.int8 for one in args)


out_dtype = OutDtypeOperator()
