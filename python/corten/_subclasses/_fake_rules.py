"""Operators whose results on tensors without data their shape rules do not tell."""

from __future__ import annotations

import re

import corten

from ._fake_errors import DataDependentOutputException, DynamicOutputShapeException

#: Operators whose results are on the device of the first tensor, wherever the others are.
FIRST_DEVICE = re.compile(r"(_unsafe_|_)?index(_put(_impl)?_?)?|copy_?|(slice|diagonal|select)_scatter|_to_copy|set_")

#: Operators that change sizes and strides of tensors in place.
GEOMETRY_CHANGES = re.compile("(t|transpose|(un)?squeeze|swap(axes|dims)|as_strided|set|resize(_as)?)_")

_RULES = []


def _rule(pattern):
    """Makes a function the rule of the operators whose names a pattern matches."""

    def keep(function):
        _RULES.append((re.compile(pattern), function))
        return function

    return keep


def find(operator):
    """The rule of an operator, or None."""
    if operator.namespace != "aten":
        return None
    if not hasattr(operator, "rule"):
        operator.rule = next((rule for pattern, rule in _RULES if pattern.fullmatch(operator.packet)), None)
        if operator.rule is None and corten.Tag.data_dependent_output in operator.tags:
            operator.rule = _data_dependent
        if operator.rule is None and corten.Tag.dynamic_output_shape in operator.tags:
            operator.rule = _dynamic
    return operator.rule


@_rule("_local_scalar_dense|item")
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


@_rule("is_nonzero")
def _data_dependent(mode, func, *args, **kwargs):
    raise DataDependentOutputException(func)


def _dynamic(mode, func, *args, **kwargs):
    from corten.fx.experimental import _unbacked

    name = func.name()
    if not _unbacked.has_rule(name):
        return NotImplemented
    if name.startswith("aten::repeat_interleave") and (name != "aten::repeat_interleave.Tensor"
                                                       or kwargs.get("output_size") is not None):
        return NotImplemented
    if name.startswith("aten::masked_select.out") or name.endswith("out"):
        raise DynamicOutputShapeException(func)
    if mode.shape_env is None or not mode.shape_env.allow_dynamic_output_shape_ops:
        raise DynamicOutputShapeException(func)
    return _unbacked.run(mode, func, args, kwargs)


@_rule(r"(_unsafe_|_)?index(_put(_impl)?_?)?")
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


@_rule("_assert_(async|scalar)|_linalg_check_errors|record_stream")
def _assert(mode, func, *args, **kwargs):
    return None


@_rule("_functional_assert_(async|scalar)")
def _functional_assert(mode, func, *args, **kwargs):
    return args[-1]


@_rule("_foreach_addc(div|mul)_?")
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


@_rule("_?pin_memory")
def _pin(mode, func, self, device=None):
    with mode:
        return self.clone()
