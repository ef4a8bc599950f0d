"""`vmap`: a function of single items as a function of batches.

Libraries with trees of tensors of their own put functions in the places of
:func:`_process_batched_inputs`, :func:`_create_batched_inputs` and :func:`_unwrap_batched`.
"""

from __future__ import annotations

import functools

import corten
from corten import Tensor, _C
from corten._C import _add_batch_dim, _remove_batch_dim
from corten.utils._pytree import (
    _broadcast_to_and_flatten, tree_flatten, tree_unflatten,
)


def _get_name(func):
    return getattr(func, "__name__", repr(func))


def _process_batched_inputs(in_dims, args, func):
    """How many items there are, the dimension that each leaf of the arguments is split along, the
    leaves and their structure."""
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int "
            f"or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_get_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
            "are trying to vmap over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    given = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    dims = _broadcast_to_and_flatten(given, spec)
    if dims is None:
        raise ValueError(
            f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible "
            f"with the structure of `inputs`. in_dims has structure {tree_flatten(in_dims)[1]} but "
            f"inputs has structure {spec}."
        )
    for place, (leaf, dim) in enumerate(zip(leaves, dims)):
        dims[place] = _checked_dim(leaf, dim, in_dims, func)
    return _validate_and_get_batch_size(dims, leaves), dims, leaves, spec


def _checked_dim(leaf, dim, in_dims, func):
    where = f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{where}: Got in_dim={dim} for an input but in_dim must be either an integer "
            "dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We "
            "cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.dim() <= dim < leaf.dim():
        raise ValueError(
            f"{where}: Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {leaf.dim()} so expected in_dim to satisfy "
            f"-{leaf.dim()} <= in_dim < {leaf.dim()}."
        )
    return dim % leaf.dim()


def _validate_and_get_batch_size(dims, leaves):
    sizes = [leaf.size(dim) for leaf, dim in zip(leaves, dims) if dim is not None]
    if not sizes:
        raise ValueError(
            "vmap: Expected at least one Tensor to vmap over, but in_dims has none for all inputs"
        )
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that applies ``func`` to every item along a dimension of its arguments and puts
    the results along ``out_dims``.

    ``func`` is called once, with tensors that hide that dimension; operators run on all items at
    once where they have a rule for it, and item by item where not. ``randomness`` says what random
    operators do: fail, draw for each item, or draw once for all."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)

        def batch(part, part_size):
            return _call(func, part, dims, spec, kwargs, part_size, out_dims, randomness)

        if chunk_size is None or chunk_size >= size:
            return batch(leaves, size)
        parts = []
        for start in range(0, size, chunk_size):
            length = min(chunk_size, size - start)
            part = [
                leaf if dim is None else leaf.narrow(dim, start, length)
                for leaf, dim in zip(leaves, dims)
            ]
            parts.append(batch(part, length))
        return _joined(parts, out_dims, func)

    return wrapped


def _call(func, leaves, dims, spec, kwargs, size, out_dims, randomness):
    """One call of the function, on tensors that hide the mapped dimension."""
    level = _C._vmap_increment_nesting(size, randomness)
    try:
        items = _create_batched_inputs(dims, leaves, level, spec)
        return _unwrap_batched(func(*items, **kwargs), out_dims, level, size, func)
    finally:
        _C._vmap_decrement_nesting(level)


def _create_batched_inputs(flat_in_dims, flat_args, vmap_level, args_spec):
    """The arguments, whose tensors hide the mapped dimension."""
    items = [
        leaf if dim is None else _add_batch_dim(leaf, dim, vmap_level)
        for leaf, dim in zip(flat_args, flat_in_dims)
    ]
    return tree_unflatten(items, args_spec)


def _unwrap_batched(batched_outputs, out_dims, vmap_level, batch_size, func):
    """The results for all items, which come along ``out_dims``."""
    outputs, spec = tree_flatten(batched_outputs)
    dims = _out_dims(out_dims, spec, func)
    results = [
        _maybe_remove_batch_dim(_get_name(func), output, vmap_level, batch_size, dim)
        for output, dim in zip(outputs, dims)
    ]
    return tree_unflatten(results, spec)


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    if out_dim is None:
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type "
            f"{type(batched_output)}. Did you mean to set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _out_dims(out_dims, spec, func):
    """The dimension along which the items of each output come."""
    given = tuple(out_dims) if isinstance(out_dims, list) else out_dims
    dims = _broadcast_to_and_flatten(given, spec)
    if dims is None and isinstance(given, tuple) and len(given) == 1 and spec.is_leaf():
        dims = [given[0]]
    if dims is None:
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible "
            f"with the structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} "
            f"but outputs has structure {spec}."
        )
    return dims


def _joined(parts, out_dims, func):
    """The results of the chunks, one after another."""
    flat = [tree_flatten(part) for part in parts]
    spec = flat[0][1]
    dims = _out_dims(out_dims, spec, func)
    columns = zip(*(leaves for leaves, _ in flat))
    joined = [
        column[0] if dim is None else corten.cat(column, dim)
        for column, dim in zip(columns, dims)
    ]
    return tree_unflatten(joined, spec)
