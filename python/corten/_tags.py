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


@functools.cache
def _declared():
    """The kind, the tags and the implementation of every operator, by name. Variants have the tags of the operator
    that they are made of, except ``core``."""
    operators, of_block = _C._ops(), {}
    for op in operators:
        if op["tags"]:
            of_block.setdefault(op["source"], [tag for tag in op["tags"] if tag != "core"])
    return {
        op["name"]: (
            op["kind"], op["tags"] or (op["source"] and of_block.get(op["source"], ())) or (), op["implementation"],
        )
        for op in operators
    }


@functools.cache
def _with_numbers():
    return frozenset(op["name"] for op in _C._ops() if op.get("numbers"))


def takes_numbers(name):
    """Whether an overload for tensors is called with numbers: there is no signature for them beside it."""
    return name in _with_numbers()


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
    elif Tag.inplace_view not in found and schema.is_mutable and packet.endswith("_") and not packet.endswith("__"):
        found.add(Tag.inplace)
    if packet.endswith("_copy") and kind == "functional" and "copy" in implementation:
        found.add(Tag.view_copy)
    if implementation.startswith("pointwise"):
        found.add(Tag.pointwise)
    if name.startswith("aten::"):
        found.add(Tag.pt2_compliant_tag)
    return sorted(found)
