"""The tables of decompositions: what computes an operator by simpler ones."""

from __future__ import annotations

import functools
from collections import defaultdict

import corten
from corten import ops
from corten.utils import _pytree as pytree

#: The functions by the kind of table, and by overload.
global_decomposition_table = defaultdict(dict)
decomposition_table = global_decomposition_table["post_autograd"]
pre_autograd_decomposition_table = global_decomposition_table["pre_autograd"]
meta_table = global_decomposition_table["meta"]


def overloads_of(op):
    """The overloads that an operator, or one overload, stands for."""
    if isinstance(op, ops.Packet):
        return [getattr(op, name) for name in op.overloads() if not _is_out(getattr(op, name))]
    return [op]


def _is_out(overload):
    return corten.Tag.out in overload.tags


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe=False):
    """A decorator: the function computes what an operator, or each of a list of them, computes.

    Raises:
        AssertionError: There is no table of this type.
        RuntimeError: The table has a function for the operator.
    """
    if type not in ("post_autograd", "pre_autograd", "meta"):
        raise AssertionError(f"type must be one of post_autograd, pre_autograd, or meta, got {type}")
    table = global_decomposition_table[type] if registry is None else registry

    def register(function):
        for op in pytree.tree_leaves(aten_op):
            for overload in overloads_of(op):
                if overload in table:
                    raise RuntimeError(f"duplicate registrations for {overload}")
                table[overload] = function
        return function

    return register


def get_decompositions(aten_ops, type="post_autograd"):
    """The functions that a table has for some operators, by overload."""
    table, found = global_decomposition_table[type], {}
    for op in aten_ops:
        if isinstance(op, ops.Packet):
            for name in op.overloads():
                overload = getattr(op, name)
                if overload in table:
                    found[overload] = table[overload]
        elif op in table:
            found[op] = table[op]
    return found


def remove_decompositions(decompositions, aten_ops):
    """Takes operators out of a table."""
    for op in aten_ops:
        for overload in overloads_of(op):
            decompositions.pop(overload, None)


_LOW = (corten.float16, corten.bfloat16)


def opmath(function):
    """Has a function compute with 32 bits what operands have in 16, and round the result."""

    @functools.wraps(function)
    def widened(*args, **kwargs):
        leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, corten.Tensor)]
        dtype = next((leaf.dtype for leaf in leaves if leaf.dtype in _LOW), None)
        if dtype is None:
            return function(*args, **kwargs)

        def up(leaf):
            low = isinstance(leaf, corten.Tensor) and leaf.dtype in _LOW
            return leaf.to(corten.float32) if low else leaf

        def down(leaf):
            wide = isinstance(leaf, corten.Tensor) and leaf.dtype == corten.float32
            return leaf.to(dtype) if wide else leaf

        return pytree.tree_map(down, function(*pytree.tree_map(up, args), **pytree.tree_map(up, kwargs)))

    return widened


def memory_format_of(tensor):
    """The memory format that a tensor has."""
    formats = {4: corten.channels_last, 5: corten.channels_last_3d}
    last = formats.get(tensor.dim())
    if last is None or tensor.is_contiguous() or not tensor.is_contiguous(memory_format=last):
        return corten.contiguous_format
    return last


def is_dense(tensor):
    """Whether the elements of a tensor lie side by side in some order of its dimensions."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True
