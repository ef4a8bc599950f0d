"""Batches cut into microbatches, and results of microbatches put together."""

from __future__ import annotations

import operator

import corten
from corten.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["TensorChunkSpec", "split_args_kwargs_into_chunks", "merge_chunks"]

#: Where tensors are cut if nothing else is said.
DEFAULT_CHUNK_DIM = 0


class _CustomReducer:
    """Results of microbatches are combined by a function, beginning with a value."""

    def __init__(self, init_value, reduce_fn):
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    """As its base."""


sum_reducer = _LossReducer(0.0, operator.add)


class TensorChunkSpec:
    """A tensor is cut in the dimension ``split_dim``."""

    def __init__(self, split_dim):
        self.split_dim = split_dim

    def __repr__(self):
        return f"{type(self).__module__}.{type(self).__name__}({self.split_dim})"

    def __str__(self):
        return f"TensorChunkSpec({self.split_dim})"

    def __eq__(self, other):
        return isinstance(other, TensorChunkSpec) and self.split_dim == other.split_dim

    def __hash__(self):
        return hash(self.split_dim)

    @staticmethod
    def from_tuple(chunk_dims):
        """Specifications for a tuple of dimensions."""
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims):
        """Specifications for a dictionary of dimensions."""
        return tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """Every microbatch gets the whole value."""


def _default_spec(value):
    return TensorChunkSpec(DEFAULT_CHUNK_DIM) if isinstance(value, corten.Tensor) else _Replicate()


def _is_replicated(spec):
    return spec is _Replicate or isinstance(spec, _Replicate)


def _with_specs(values, specs):
    """Pairs of leaves and their specifications, and the structure of the leaves."""
    leaves, tree = tree_flatten(values)
    if specs is None:
        return [(leaf, _default_spec(leaf)) for leaf in leaves], tree
    flat, _ = tree_flatten(specs)
    if len(flat) != len(leaves):
        raise ValueError(f"{len(leaves)} values need as many chunk specs, got {len(flat)}: {specs}")
    for leaf, spec in zip(leaves, flat):
        if not _is_replicated(spec) and not (
            isinstance(leaf, corten.Tensor) and isinstance(spec, TensorChunkSpec)
        ):
            raise ValueError(f"Unsupported chunk spec: {spec} and value: {leaf} combination.")
    return list(zip(leaves, flat)), tree


def _count(pairs, chunks):
    """How many microbatches there can be."""
    sizes = [leaf.size(spec.split_dim) for leaf, spec in pairs if not _is_replicated(spec)]
    return min([chunks, *sizes])


def _pieces(pairs, tree, count):
    columns = [
        [leaf] * count if _is_replicated(spec) else corten.tensor_split(leaf, count, spec.split_dim)
        for leaf, spec in pairs
    ]
    return [tree_unflatten([column[i] for column in columns], tree) for i in range(count)]


def split_args_kwargs_into_chunks(
    args, kwargs, chunks, args_chunk_spec=None, kwargs_chunk_spec=None
):
    """Cuts arguments into microbatches: tensors in their first dimension unless a specification says
    otherwise; other values go to all.

    Returns:
        A list of tuples and a list of dictionaries, both of the same length: ``chunks``, or fewer where a
        tensor is shorter.
    """
    kwargs = {} if kwargs is None else kwargs
    args_pairs, args_tree = _with_specs(tuple(args), args_chunk_spec)
    kwargs_pairs, kwargs_tree = _with_specs(kwargs, kwargs_chunk_spec)
    count = _count(args_pairs + kwargs_pairs, chunks)
    return _pieces(args_pairs, args_tree, count), _pieces(kwargs_pairs, kwargs_tree, count)


def merge_chunks(chunks, chunk_spec):
    """Puts results of microbatches together, by default in their first dimension.

    Raises:
        ValueError: A result has another structure than ``chunk_spec``.
    """
    rows = [tree_flatten(chunk)[0] for chunk in chunks]
    if chunk_spec is None:
        tree = tree_flatten(chunks[0])[1]
        specs = [TensorChunkSpec(DEFAULT_CHUNK_DIM)] * len(rows[0])
    else:
        specs, tree = tree_flatten(chunk_spec)
    for row, chunk in zip(rows, chunks):
        if len(row) != len(specs):
            raise ValueError(f"Chunk {chunk} did not match chunk spec {chunk_spec}")
    return tree_unflatten([_merged(list(column), spec) for column, spec in zip(zip(*rows), specs)], tree)


def _merged(values, spec):
    if isinstance(spec, TensorChunkSpec):
        return corten.cat(values, dim=spec.split_dim)
    if isinstance(spec, _CustomReducer):
        result = spec.init_value
        for value in values:
            result = spec.reduce_fn(result, value)
        return result
    for value in values[1:]:
        if value != values[0]:
            raise AssertionError(f"Expected {values[0]}, got {value}")
    return values[0]
