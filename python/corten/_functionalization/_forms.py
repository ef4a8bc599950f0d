"""What an operator does to its arguments, and the operator that gives the same result without writing."""

from __future__ import annotations

import functools
import re

import corten
from corten import _C
from corten._schemas import parse_schema

__all__ = []

#: Forms whose names do not follow from the name of the writing operator.
_NAMED = {
    "aten::normal_": "aten::normal_functional",
    "aten::_native_batch_norm_legit": "aten::_native_batch_norm_legit_functional",
    "aten::_fused_moving_avg_obs_fq_helper": "aten::_fused_moving_avg_obs_fq_helper_functional",
    "aten::rrelu_with_noise": "aten::rrelu_with_noise_functional",
}
#: Operators that change what a tensor shows, by the view operator that shows it.
_VIEWS_IN_PLACE = {
    "aten::as_strided_": "aten::as_strided", "aten::squeeze_": "aten::squeeze", "aten::squeeze_.dim": "aten::squeeze.dim",
    "aten::squeeze_.dims": "aten::squeeze.dims", "aten::t_": "aten::t", "aten::transpose_": "aten::transpose.int",
    "aten::unsqueeze_": "aten::unsqueeze",
}


class Form:
    """What there is to know about an overload."""

    __slots__ = ("functional", "is_view", "lists", "name", "schema", "several", "view_in_place", "written")

    def __init__(self, name):
        self.name = name
        self.schema = parse_schema(_C._op_schema(name))
        arguments = self.schema.arguments
        #: The places of arguments that are written to, and their names where they are given by name.
        self.written = [
            (place, one.name if one.kwarg_only else None) for place, one in enumerate(arguments)
            if one.alias_info is not None and one.alias_info.is_write
        ]
        self.view_in_place = _VIEWS_IN_PLACE.get(name)
        aliased = any(one.alias_info is not None for one in arguments)
        self.is_view = not self.written and (aliased or name == "aten::_unsafe_view")
        self.functional = _functional(name, self.schema) if self.written and not self.view_in_place else None
        self.several = len(self.schema.returns) > 1
        self.lists = [one.type.text.endswith("]") for one in self.schema.returns]


@functools.cache
def form_of(name):
    """What there is to know about an overload."""
    return Form(name)


def _parameters(schema, without_outputs=False):
    return [
        (one.type.text, one.name) for one in schema.arguments if not (without_outputs and one.is_out)
    ]


def _functional(name, schema):
    """The overload that computes what another one writes, or nothing."""
    if name in _NAMED:
        return _NAMED[name]
    space, _, rest = name.partition("::")
    packet = rest.partition(".")[0]
    if not any(one.is_out for one in schema.arguments):
        if inplace := re.fullmatch(r"__i(\w+)__", packet):
            packet = f"__{inplace[1]}__"
        elif packet.endswith("_") and not packet.endswith("__"):
            packet = packet[:-1]
    wanted = _parameters(schema, without_outputs=True)
    for overload in _C._op_overloads(f"{space}::{packet}"):
        found = f"{space}::{packet}.{overload}" if overload else f"{space}::{packet}"
        other = parse_schema(_C._op_schema(found))
        if not other.is_mutable and _matches(_parameters(other), wanted):
            return found
    return None


_OPTIONS = ["dtype", "layout", "device", "pin_memory"]


def _matches(given, wanted):
    """Whether parameters are the wanted ones; factories have options beside them."""
    names = [name for _, name in given]
    if given == wanted:
        return True
    is_factory = all(option in names for option in _OPTIONS) and not any(name in _OPTIONS for _, name in wanted)
    return is_factory and [one for one in given if one[1] not in _OPTIONS] == wanted


def options_of(functional, tensor):
    """The options with which a factory makes what would be written to a tensor."""
    if any(one.name == "pin_memory" for one in parse_schema(_C._op_schema(functional)).arguments):
        return {"dtype": tensor.dtype, "layout": tensor.layout, "device": tensor.device, "pin_memory": False}
    return {}


def check_writable(name, args, kwargs):
    """Runs a writing operator on tensors without elements, so that it refuses what it would refuse.

    Raises:
        RuntimeError: As the operator does.
    """
    from corten._functionalization._state import Below, OUTSIDE
    from corten.utils._python_dispatch import _disable_current_modes, _overload
    from corten.utils._pytree import tree_map

    def without(leaf):
        if not isinstance(leaf, corten.Tensor) or leaf.device.type == "meta":
            return leaf
        return corten.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device="meta")

    with Below(OUTSIDE), _disable_current_modes():
        args, kwargs = tree_map(without, (args, kwargs))
        _overload(name)(*args, **kwargs)
