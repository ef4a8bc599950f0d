"""``Tag``: what is known of operators."""

from __future__ import annotations

import enum
import functools

from corten import _C


class Tag(enum.IntEnum):
    """A property that the definition of an operator may state."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19

    def __repr__(self):
        return f"<Tag.{self.name}: {self.value}>"

    __str__ = enum.Enum.__str__


def of_operator(overload):
    """The tags of an overload: those that the registry states, and what its schema says. Variants have the tags of
    the operator that they are made of, except ``core``."""
    kind, implementation, names = facts(overload._qualified)
    found = {Tag[one] for one in names if one in Tag.__members__} | {Tag.pt2_compliant_tag}
    if implementation == "pointwise":
        found.add(Tag.pointwise)
    if kind in ("out", "inplace"):
        found.add(Tag[kind])
    return sorted(found)


def facts(name):
    """The kind, the implementation and the tags of an operator."""
    if name not in _facts:
        _read_facts()
    return _facts.get(name, ("functional", "", ()))


#: The kind, the implementation and the tags of every operator, by name.
_facts = {}


def _read_facts():
    from corten import _C

    operators = _C._ops()
    of_block = {}
    for one in operators:
        if one["tags"]:
            of_block.setdefault(one["source"], [tag for tag in one["tags"] if tag != "core"])
    for one in operators:
        inherited = of_block.get(one["source"], ()) if one["source"] else ()
        _facts[one["name"]] = one["kind"], one["implementation"], one["tags"] or inherited


@functools.cache
def _declared():
    return {op["name"]: (op["kind"], op["tags"], op["implementation"]) for op in _C._ops()}


def tags_of(name, schema):
    """The tags of an overload, in the order of their numbers."""
    kind, words, implementation = _declared().get(name, ("functional", (), ""))
    found = {Tag[word] for word in words if word in Tag.__members__}
    if kind in ("inplace", "out"):
        found.discard(Tag.core)
    packet = name.partition("::")[2].partition(".")[0]
    outputs = any(one.is_out for one in schema.arguments)
    if outputs:
        found.add(Tag.out)
    elif schema.is_mutable and packet.endswith("_") and not packet.endswith("__"):
        found.add(Tag.inplace_view if packet in _IN_PLACE_VIEWS else Tag.inplace)
    if packet.endswith("_copy") and kind == "functional" and "copy" in implementation:
        found.add(Tag.view_copy)
    if implementation.startswith("pointwise"):
        found.add(Tag.pointwise)
    if name.startswith("aten::"):
        found.add(Tag.pt2_compliant_tag)
    return sorted(found)


#: Operators that change the sizes, the strides or the memory of a tensor.
_IN_PLACE_VIEWS = {
    "as_strided_", "detach_", "resize_", "resize_as_", "set_", "squeeze_", "swapaxes_", "swapdims_", "t_",
    "transpose_", "unsqueeze_",
}
