"""Operators whose results on tensors without data their shape rules do not tell."""

from __future__ import annotations

import corten

from ._fake_errors import DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException

#: Operators that change sizes and strides of tensors in place.
IN_PLACE_VIEWS = frozenset({
    "t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_", "swapdims_", "as_strided_", "set_", "resize_",
    "resize_as_", "rename_",
})

#: Operators after which the sizes or strides of an argument may be others.
GEOMETRY_CHANGES = IN_PLACE_VIEWS | {"set_data", "_resize_output_", "resize_output_"}

#: Operators whose results are on the device of the first tensor, wherever the others are.
FIRST_DEVICE = frozenset({
    "copy_", "copy", "index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put",
    "slice_scatter", "diagonal_scatter", "select_scatter", "_to_copy", "set_",
})

_FIXED = {}


def _rule(*names):
    def keep(function):
        for name in names:
            _FIXED[name] = function
        return function

    return keep


def find(operator):
    """The rule of an operator, or None."""
    if operator.namespace != "aten":
        return None
    return _FIXED.get(operator.packet)


@_rule("_local_scalar_dense", "item")
def _item(mode, func, self, **kwargs):
    if self.constant is not None:
        from corten.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():
            return self.constant.item()
    symbolic = mode.shape_env is not None and (mode.allow_scalar_outputs or mode.shape_env.allow_scalar_outputs)
    # What checks of operators ask for is not what a symbol stands for.
    if not symbolic or not mode._asked_by_program:
        raise DataDependentOutputException(func)
    from corten.fx.experimental import _unbacked

    return _unbacked.item(mode, self)


@_rule("equal", "allclose", "is_nonzero")
def _data_dependent(mode, func, *args, **kwargs):
    raise DataDependentOutputException(func)


@_rule(
    "nonzero", "masked_select", "_unique2", "_unique", "unique_dim", "unique_consecutive", "bincount", "nonzero_numpy",
    "repeat_interleave", "argwhere", "_linalg_check_errors", "unique_dim_consecutive",
)
def _dynamic(mode, func, *args, **kwargs):
    name = func.name()
    if name == "aten::_linalg_check_errors":
        return None
    if name.startswith("aten::repeat_interleave") and (name != "aten::repeat_interleave.Tensor"
                                                       or kwargs.get("output_size") is not None):
        return NotImplemented
    if name.startswith("aten::masked_select.out") or name.endswith("out"):
        raise DynamicOutputShapeException(func)
    if mode.shape_env is None or not mode.shape_env.allow_dynamic_output_shape_ops:
        raise DynamicOutputShapeException(func)
    from corten.fx.experimental import _unbacked

    return _unbacked.run(mode, func, args, kwargs)


@_rule("index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
def _index(mode, func, self, indices, *rest, **kwargs):
    masks = [i for i, one in enumerate(indices) if one is not None and one.dtype in (corten.bool, corten.uint8)]
    if not masks:
        return NotImplemented
    if "put" in func.name():
        # Positions where a mask is true are as many as they may be: the result is as large as what is written to.
        return self if func.name().split("::")[1].split(".")[0].endswith("_") else corten.empty_like(self)
    with mode:
        positions = []
        for one in indices:
            if one is not None and one.dtype in (corten.bool, corten.uint8):
                found = corten.ops.aten.nonzero.default(one)
                positions.extend(found.select(1, dim) for dim in range(one.dim()))
            else:
                positions.append(one)
        return func(self, positions)


@_rule("_assert_async", "_assert_scalar")
def _assert(mode, func, *args, **kwargs):
    return None


@_rule("_functional_assert_async", "_functional_assert_scalar")
def _functional_assert(mode, func, *args, **kwargs):
    return args[-1]


@_rule("_foreach_addcdiv", "_foreach_addcdiv_", "_foreach_addcmul", "_foreach_addcmul_")
def _foreach(mode, func, self, tensor1, tensor2, scalars=1, **kwargs):
    """The sizes do not depend on the factors that a tensor has."""
    if not isinstance(scalars, corten.Tensor):
        return NotImplemented
    packet = func.name().partition("::")[2].partition(".")[0]
    with mode:
        return getattr(corten.ops.aten, packet).ScalarList(self, tensor1, tensor2, [1.0] * len(self))


@_rule("is_pinned")
def _is_pinned(mode, func, self, device=None):
    return False


@_rule("pin_memory", "_pin_memory")
def _pin(mode, func, self, device=None):
    with mode:
        return self.clone()


@_rule("record_stream")
def _record_stream(mode, func, *args, **kwargs):
    return None


@_rule("_nested_tensor_from_tensor_list", "_nested_view_from_buffer", "_nested_view_from_buffer_copy")
def _unsupported(mode, func, *args, **kwargs):
    raise UnsupportedOperatorException(func)
