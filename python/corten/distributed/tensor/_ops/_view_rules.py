"""Operators that give the elements of a tensor another shape."""

from __future__ import annotations

import corten
from corten.distributed.tensor._dtensor_spec import DTensorSpec, local_length
from corten.distributed.tensor._op_schema import Candidate, Decision, all_dims, positive
from corten.distributed.tensor._ops._reduction_rules import moved
from corten.distributed.tensor._sharding_prop import choose, rule, whole_rule
from corten.distributed.tensor.placement_types import Replicate, Shard, _Parts, _StridedShard

__all__ = []


def follow(call, mesh_dim, place):
    """Candidates of an operator of one tensor whose dimension `d` becomes the dimension `place(d)` of all results
    (None where parts cannot stay). Terms stay terms."""
    one = call.specs[0].placements[mesh_dim]
    count = len(call.results) or 1
    found = [call.replicated()]
    if isinstance(one, _Parts):
        dim = place(one.dim)
        if dim is not None:
            found.append(Candidate([moved(one, dim)] * count, [one]))
    elif not one.is_replicate():
        found.append(Candidate([one] * count, [one]))
    return found


@rule("t", "transpose", "permute", "swapaxes", "numpy_T", "adjoint", "mT", "t_copy", "transpose_copy", "permute_copy")
def permutations(call, mesh_dim):
    """Dimensions in another order."""
    ndim = call.specs[0].ndim
    if call.name.startswith("permute"):
        order = all_dims(call["dims"], ndim) if ndim else []
        return follow(call, mesh_dim, order.index)
    a, b = (0, 1) if "dim0" not in call.given else (call["dim0"], call["dim1"])
    a, b = positive(a, ndim), positive(b, ndim)
    if ndim < 2:
        return follow(call, mesh_dim, lambda dim: dim)
    return follow(call, mesh_dim, lambda dim: b if dim == a else a if dim == b else dim)


@rule("unsqueeze", "unsqueeze_copy")
def inserted(call, mesh_dim):
    """A dimension of one element more."""
    at = positive(call["dim"], call.specs[0].ndim + 1)
    return follow(call, mesh_dim, lambda dim: dim + (dim >= at))


@whole_rule("squeeze", "squeeze_copy")
def removed(call):
    """Dimensions of one element less: those of the whole, as parts may have further ones."""
    spec = call.specs[0]
    given = call.given.get("dim")
    dims = range(spec.ndim) if given is None else all_dims(given, spec.ndim) if spec.ndim and given != [] else []
    gone = [dim for dim in dims if spec.shape[dim] == 1]
    decision = choose(call, lambda call, mesh_dim: follow(
        call, mesh_dim, lambda dim: None if dim in gone else dim - sum(one < dim for one in gone)))
    writes = bool(call.written)

    def run(func, args, kwargs, mesh):
        if writes:
            return func(*args, **kwargs)
        return args[0].squeeze(gone) if gone else args[0].view_as(args[0])

    decision.run = run
    return decision


@whole_rule("expand", "expand_copy", "broadcast_to")
def expanded(call):
    """Dimensions of one element repeated."""
    spec, size = call.specs[0], list(call["size"])
    new = len(size) - spec.ndim
    inputs, outputs = [], []
    for one in spec.placements:
        if isinstance(one, _Parts) and spec.shape[one.dim] == 1 and size[one.dim + new] != 1:
            one = Replicate()
        inputs.append(one)
        outputs.append(moved(one, one.dim + new) if isinstance(one, _Parts) else one)
    return Decision([tuple(outputs)], [tuple(inputs)], {"size": local_size(call, outputs)})


def local_size(call, placements, shape=None):
    """A function that gives the shape of a rank's part of the first result."""
    shape = tuple(call.results[0].shape if shape is None else shape)
    placements, sizes = tuple(placements), call.sizes

    def size(coordinate):
        return [local_length(total, dim, placements, sizes, coordinate) for dim, total in enumerate(shape)]

    return size


def groups(before, after):
    """Which dimensions of a shape become which of another one: pairs of lists whose products are equal, without
    dimensions of one element."""
    a = [dim for dim, size in enumerate(before) if size != 1]
    b = [dim for dim, size in enumerate(after) if size != 1]
    found, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        left, right, x, y = [a[i]], [b[j]], before[a[i]], after[b[j]]
        i, j = i + 1, j + 1
        while x != y:
            if x < y:
                left.append(a[i])
                x, i = x * before[a[i]], i + 1
            else:
                right.append(b[j])
                y, j = y * after[b[j]], j + 1
        found.append((left, right))
    return found


def _reshaped_part(one, group, before, after, ranks):
    """The placement after a change of shape of parts along the dimension of `group`; None where a rank's elements
    are no part of the result. `ranks` is into how many parts the dimension is split by the whole mesh."""
    left, right = group
    if len(left) == len(right) == 1:
        return moved(one, right[0])
    divides = before[one.dim] % ranks == 0
    pieces = 1
    for dim in left:
        if dim == one.dim:
            break
        pieces *= before[dim]
    split = one.split_factor if isinstance(one, _StridedShard) else 1
    if pieces != 1 and split != 1:
        return None
    pieces *= split
    # The result's dimension in front of which there are as many pieces.
    seen = 1
    for dim in right:
        if seen == pieces and divides and after[dim] % ranks == 0:
            return Shard(dim)
        if pieces % (seen * after[dim]) != 0:
            break
        seen *= after[dim]
    if len(right) == 1 and divides and ranks > 1:
        return _StridedShard(right[0], split_factor=pieces)
    return None


@whole_rule("view.default", "_unsafe_view", "reshape", "view_copy", "_reshape_alias", "_reshape_copy")
def views(call):
    """Another shape of the same elements in the same order."""
    spec, shape = call.specs[0], tuple(call.results[0].shape)
    empty = 0 in shape
    found = [] if empty else groups(spec.shape, shape)
    parts = [1] * spec.ndim
    splits = [0] * spec.ndim
    for i, one in enumerate(spec.placements):
        if isinstance(one, _Parts):
            parts[one.dim] *= call.sizes[i]
            splits[one.dim] += 1
    inputs, outputs = [], []
    for one in spec.placements:
        after = one
        if isinstance(one, _Parts):
            group = next((pair for pair in found if one.dim in pair[0]), None)
            after = None if group is None else _reshaped_part(one, group, spec.shape, shape, parts[one.dim])
            if isinstance(after, _StridedShard) and splits[one.dim] > 1 and len(group[0]) + len(group[1]) > 2:
                after = None
            if after is None:
                one = after = Replicate()
        inputs.append(one)
        outputs.append(after)
    if _meet(outputs, inputs):
        inputs = outputs = [one if not isinstance(one, _Parts) else Replicate() for one in inputs]
    changes = {"size": local_size(call, outputs)}
    if call.name in ("_reshape_alias",):
        return Decision([tuple(outputs)], [tuple(inputs)], changes, _reshape_alias)
    return Decision([tuple(outputs)], [tuple(inputs)], changes, _view)


def _meet(outputs, inputs):
    """Whether parts along several dimensions become parts along one, whose order would be another one."""
    before: dict = {}
    for one, after in zip(inputs, outputs):
        if isinstance(after, _Parts):
            before.setdefault(after.dim, set()).add(one.dim)
    return any(len(dims) > 1 for dims in before.values())


def _view(func, args, kwargs, mesh):
    """The operator; a copy where only the part's strides do not allow it."""
    try:
        return func(*args, **kwargs)
    except RuntimeError:
        return args[0].reshape(args[1])


def _reshape_alias(func, args, kwargs, mesh):
    return args[0].reshape(args[1])


@rule("view.dtype", "view_as_real", "view_as_complex", "real", "imag", "diagonal", "diagonal_copy")
def reinterpreted(call, mesh_dim):
    """Views of the bytes of elements; diagonals."""
    if call.name.startswith("diagonal"):
        spec = call.specs[0]
        gone = sorted(positive(call.get(name, default), spec.ndim) for name, default in (("dim1", 0), ("dim2", 1)))
        return follow(call, mesh_dim, lambda dim: None if dim in gone else dim - sum(one < dim for one in gone))
    last = call.specs[0].ndim - 1
    if isinstance(call.specs[0].placements[mesh_dim], (_Parts, Replicate)):
        same_width = call.name == "view" and call.results[0].shape == call.specs[0].shape
        keeps = same_width or call.name == "view_as_real"
        keeps = keeps or call.name in ("real", "imag")
        return follow(call, mesh_dim, lambda dim: dim if keeps or dim != last else None)
    return [call.replicated()]


@rule("slice", "slice_copy", "narrow", "narrow_copy")
def slices(call, mesh_dim):
    """A range of a dimension: parts along others, and along it where it is the whole."""
    spec = call.specs[0]
    at = positive(call.get("dim", 0), spec.ndim)
    whole = call.results[0].shape == spec.shape and (call.get("step") or 1) == 1
    return follow(call, mesh_dim, lambda dim: None if dim == at and not whole else dim)


@rule("select", "select_copy", "unbind", "unbind_copy")
def selected(call, mesh_dim):
    """One place, or each place, of a dimension."""
    at = positive(call.get("dim", 0), call.specs[0].ndim)
    return follow(call, mesh_dim, lambda dim: None if dim == at else dim - (dim > at))


@rule("split", "split_with_sizes", "chunk", "tensor_split", "split_copy", "split_with_sizes_copy", "unsafe_split",
      "unsafe_chunk", "unsafe_split_with_sizes")
def splits(call, mesh_dim):
    """Pieces of a dimension."""
    at = positive(call.get("dim", 0), call.specs[0].ndim)
    return follow(call, mesh_dim, lambda dim: None if dim == at else dim)


@whole_rule("as_strided")
def strided(call):
    """Any places of the memory of the whole, which has to have the whole's strides."""
    decision = choose(call, lambda call, mesh_dim: [call.replicated()])
    spec = call.specs[0]

    def run(func, args, kwargs, mesh):
        whole = args[0]
        if tuple(whole.stride()) != tuple(spec.stride) or whole.storage_offset():
            whole = corten.empty_strided(spec.shape, spec.stride, dtype=whole.dtype, device=whole.device).copy_(whole)
        return func(whole, *args[1:], **kwargs)

    decision.run = run
    return decision


@rule("unfold")
def windows(call, mesh_dim):
    """Windows of a dimension."""
    at = positive(call["dimension"], call.specs[0].ndim)
    return follow(call, mesh_dim, lambda dim: None if dim == at else dim)


@whole_rule("repeat")
def repeated(call):
    """Copies along dimensions: parts along those with one copy."""
    spec, times = call.specs[0], list(call["repeats"])
    new = len(times) - spec.ndim
    inputs, outputs = [], []
    for one in spec.placements:
        if isinstance(one, _Parts) and times[one.dim + new] != 1:
            one = Replicate()
        inputs.append(one)
        outputs.append(moved(one, one.dim + new) if isinstance(one, _Parts) else one)
    return Decision([tuple(outputs)], [tuple(inputs)])


@whole_rule("select_backward", "slice_backward", "diagonal_backward", "unfold_backward")
def view_gradients(call):
    """Gradients of views: zeros of the viewed tensor with the gradient at its place."""
    spec: DTensorSpec = call.specs[0]
    shape = tuple(call["input_sizes"] if "input_sizes" in call.given else call["input_size"])
    ndim = len(shape)
    inputs, outputs = [], []
    for one in spec.placements:
        after = one
        if isinstance(one, _Parts):
            dim = _source_dim(call, one.dim, ndim)
            after = None if dim is None else moved(one, dim)
            if after is None:
                one = after = Replicate()
        inputs.append(one)
        outputs.append(after)
    name = "input_sizes" if "input_sizes" in call.given else "input_size"
    return Decision([tuple(outputs)], [tuple(inputs)], {name: local_size(call, outputs, shape)})


def _source_dim(call, dim, ndim):
    if call.name == "select_backward":
        at = positive(call["dim"], ndim)
        return dim + (dim >= at)
    if call.name == "slice_backward":
        return None if dim == positive(call["dim"], ndim) else dim
    return None
