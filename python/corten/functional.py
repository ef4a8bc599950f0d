"""Operators whose Python form is freer than their schema: variable numbers of tensors, choices of
results by flags."""

from __future__ import annotations

import math

from corten import _C
from corten._C import Tensor
from corten._overriding import as_operator, dispatch, hand_over, of_package, overridden

_ops = _C._functions


def _listed(tensors):
    """The tensors of a call: one sequence, or one per argument."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return list(tensors[0])
    return list(tensors)


def broadcast_tensors(*tensors):
    """The tensors expanded to their common shape."""
    if overridden(*tensors):
        return hand_over(broadcast_tensors, tensors, *tensors)
    return _ops.broadcast_tensors(_listed(tensors))


def align_tensors(*tensors):
    """Views of the tensors with the names of the one that has most dimensions; dimensions that a tensor lacks have
    size 1.

    Raises:
        RuntimeError: The names of a tensor are not among those names, in their order.
    """
    if overridden(*tensors):
        return hand_over(align_tensors, tensors, *tensors)
    tensors = _listed(tensors)
    longest = max(tensors, key=lambda tensor: tensor.dim()).names
    for tensor in tensors:
        rest = iter(longest)
        if not all(name in rest for name in tensor.names):
            shorter, longer = list(tensor.names), list(longest)
            raise RuntimeError(
                f"Could not align Tensor{shorter} and Tensor{longer} because {shorter} is not a subsequence "
                f"of {longer}. "
            )
    return tuple(tensor.align_to(*longest) for tensor in tensors)


def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes broadcast to."""
    result = []
    for index, shape in enumerate(shapes):
        if shape is None:
            continue
        if isinstance(shape, int):
            shape = (shape,)
        elif not isinstance(shape, (tuple, list)):
            raise RuntimeError(
                f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}"
            )
        shape = tuple(shape)
        if any(size < 0 for size in shape):
            raise ValueError("Attempting to broadcast a dimension with negative length!")
        result[:0] = [1] * (len(shape) - len(result))
        for place, size in enumerate(reversed(shape), start=1):
            if size != 1 and size != result[-place]:
                if result[-place] != 1:
                    raise RuntimeError(
                        f"Attempting to broadcast a dimension of length {size} at -{place}! "
                        f"Mismatching argument at index {index} had {shape}; but expected shape "
                        f"should be broadcastable to {result}"
                    )
                result[-place] = size
    return _C.Size(result)


@as_operator
def nonzero(input, *, out=None, as_tuple=False):
    """The places of the elements that are not zero: one row each, or one tensor per dimension."""
    if not as_tuple:
        return _ops.nonzero(input) if out is None else _ops.nonzero(input, out=out)
    if out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    return tuple(input.nonzero_numpy())


def split(tensor, split_size_or_sections, dim=0):
    """The tensor in pieces along a dimension: of one size, or of the given sizes."""
    if overridden(tensor):
        return dispatch(split, (tensor,), locals())
    return tensor.split(split_size_or_sections, dim)


def einsum(*args):
    """A sum of products, in the notation of Einstein: ``einsum("ij,jk->ik", a, b)``."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if isinstance(args[0], Tensor):
        equation, operands = _equation_of(args)
    else:
        equation, operands = args[0], _listed(args[1:])
    if overridden(*operands):
        return hand_over(einsum, operands, equation, *operands)
    if not operands:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    return _ops.einsum(equation, operands)


def _equation_of(args):
    """The equation of ``einsum(op1, sublist1, op2, sublist2, …, [sublist_out])``."""
    def subscript(number):
        if number is Ellipsis:
            return "..."
        if 0 <= number < 26:
            return chr(ord("A") + number)
        if 26 <= number < 52:
            return chr(ord("a") + number - 26)
        raise ValueError(
            "einsum(): subscript in subscript list is not within the valid range [0, 52)"
        )

    equation = ",".join("".join(map(subscript, sublist)) for sublist in args[1::2])
    if len(args) % 2 == 1:
        equation += "->" + "".join(map(subscript, args[-1]))
        args = args[:-1]
    return equation, list(args[::2])


def meshgrid(*tensors, indexing=None):
    """Grids of coordinates from vectors of them."""
    if overridden(*_listed(tensors)):
        return hand_over(meshgrid, _listed(tensors), *tensors, indexing=indexing)
    tensors = _listed(tensors)
    if indexing is None:
        return _ops.meshgrid(tensors)
    return _ops.meshgrid(tensors, indexing=indexing)


def cartesian_prod(*tensors):
    """Every combination of elements of vectors, one per row."""
    if overridden(*_listed(tensors)):
        return hand_over(cartesian_prod, _listed(tensors), *tensors)
    return _ops.cartesian_prod(_listed(tensors))


def block_diag(*tensors):
    """A matrix with the given ones along its diagonal."""
    if overridden(*_listed(tensors)):
        return hand_over(block_diag, _listed(tensors), *tensors)
    return _ops.block_diag(_listed(tensors))


def chain_matmul(*matrices, out=None):
    """The product of several matrices, in the order that costs least."""
    matrices = _listed(matrices)
    if overridden(*matrices):
        return hand_over(chain_matmul, matrices, *matrices)
    if out is None:
        return _ops.chain_matmul(matrices)
    return _ops.chain_matmul(matrices, out=out)


def _atleast(name):
    def function(*tensors):
        given = _listed(tensors)
        if overridden(*given):
            return hand_over(function, given, *tensors)
        operator = getattr(_ops, name)
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return operator(tensors[0])
        return tuple(operator(given))

    function.__name__ = name
    function.__doc__ = f"The tensors with at least {name[-2]} dimension(s)."
    return function


atleast_1d, atleast_2d, atleast_3d = map(_atleast, ("atleast_1d", "atleast_2d", "atleast_3d"))


def tensordot(a, b, dims=2, out=None):
    """A product summed over pairs of dimensions, or over the last and first few."""
    if overridden(a, b):
        return dispatch(tensordot, (a, b), locals())
    if isinstance(dims, (tuple, list)):
        dims_a, dims_b = ([d] if isinstance(d, int) else list(d) for d in dims)
    elif isinstance(dims, Tensor) and dims.numel() > 1:
        dims_a, dims_b = dims.tolist()
        dims_a, dims_b = ([d] if isinstance(d, int) else d for d in (dims_a, dims_b))
    else:
        count = int(dims)
        if count < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if count > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}"
            )
        dims_a, dims_b = list(range(-count, 0)), list(range(count))
    if out is None:
        return _ops.tensordot(a, b, dims_a, dims_b)
    return _ops.tensordot(a, b, dims_a, dims_b, out=out)


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """Distances between the rows of two batches of matrices."""
    if overridden(x1, x2):
        return dispatch(cdist, (x1, x2), locals())
    modes = {
        "use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1,
        "donot_use_mm_for_euclid_dist": 2,
    }
    if compute_mode not in modes:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _ops.cdist(x1, x2, p, modes[compute_mode])


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """A vector or matrix norm; ``corten.linalg`` has the functions to prefer."""
    if overridden(input):
        return dispatch(norm, (input,), locals())
    if type(input) is not _C.Tensor and input.layout == _C.sparse_coo:
        return input.norm(p, dim, keepdim, dtype)
    linalg = _C._linalg
    extra = {"dtype": dtype}
    if out is not None:
        extra["out"] = out
    if dim is not None and not isinstance(dim, (tuple, list)):
        dim = [dim]
    if p == "fro" or p is None:
        return linalg.linalg_vector_norm(input, 2, dim, keepdim, **extra)
    if p == "nuc":
        dims = dim if dim is not None else list(range(input.dim()))
        return linalg.linalg_matrix_norm(input, "nuc", dims, keepdim, **extra)
    if isinstance(p, str):
        raise RuntimeError(
            f"only valid string values are 'fro' and 'nuc', found {p}"
        )
    dims = list(range(input.dim())) if dim is None else dim
    return linalg.linalg_vector_norm(input, p, dims, keepdim, **extra)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, or slices along ``dim``, in ascending order."""
    if overridden(input):
        return dispatch(unique, (input,), locals())
    if dim is None:
        found, inverse, counts = _ops._unique2(input, sorted, return_inverse, return_counts)
    else:
        found, inverse, counts = _ops.unique_dim(
            input, dim, sorted=sorted, return_inverse=return_inverse, return_counts=return_counts
        )
    return _chosen(found, inverse, counts, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements, or slices along ``dim``, without repetitions of the one before."""
    if overridden(input):
        return dispatch(unique_consecutive, (input,), locals())
    found, inverse, counts = _ops.unique_consecutive(input, return_inverse, return_counts, dim)
    return _chosen(found, inverse, counts, return_inverse, return_counts)


def _chosen(found, inverse, counts, return_inverse, return_counts):
    if not return_inverse and not return_counts:
        return found
    return (found, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


@of_package
def is_complex(input):
    """Whether a tensor has a complex dtype."""
    if overridden(input):
        return hand_over(is_complex, (input,), input)
    return _checked("is_complex", input).is_complex()


@of_package
def is_floating_point(input):
    """Whether a tensor has a floating-point dtype."""
    if overridden(input):
        return hand_over(is_floating_point, (input,), input)
    return _checked("is_floating_point", input).is_floating_point()


@of_package
def is_conj(input):
    """Whether a tensor is to be conjugated when it is read."""
    if overridden(input):
        return hand_over(is_conj, (input,), input)
    return _checked("is_conj", input).is_conj()


@of_package
def is_neg(input):
    """Whether a tensor is to be negated when it is read."""
    if overridden(input):
        return hand_over(is_neg, (input,), input)
    return _checked("is_neg", input).is_neg()


@of_package
def is_inference(input):
    """Whether a tensor was made in inference mode."""
    if overridden(input):
        return hand_over(is_inference, (input,), input)
    return _checked("is_inference", input).is_inference()


@of_package
def is_signed(input):
    """Whether a tensor has a signed dtype."""
    if overridden(input):
        return hand_over(is_signed, (input,), input)
    return _checked("is_signed", input).is_signed()


@of_package
def is_same_size(input, other):
    """Whether two tensors have the same shape."""
    if overridden(input, other):
        return hand_over(is_same_size, (input, other), input, other)
    return _checked("is_same_size", input).is_same_size(other)


@of_package
def get_device(input):
    """The index of a tensor's device, -1 for the CPU."""
    if overridden(input):
        return hand_over(get_device, (input,), input)
    return _checked("get_device", input).get_device()


def _checked(function, input):
    if not isinstance(input, Tensor):
        kind = type(input).__name__
        raise TypeError(f"{function}(): argument 'input' (position 1) must be Tensor, not {kind}")
    return input


def unravel_index(indices, shape):
    """The coordinates of flat indices into a tensor of ``shape``, one tensor per dimension."""
    if overridden(indices):
        return hand_over(unravel_index, (indices,), indices, shape=shape)
    if indices.is_complex() or indices.is_floating_point() or indices.dtype == _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if isinstance(shape, int):
        shape = (shape,)
    elif not isinstance(shape, (tuple, list)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    for size in shape:
        if not isinstance(size, int):
            raise TypeError(
                f"expected 'shape' sequence to only contain ints, but got {type(size)}"
            )
    if any(size < 0 for size in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(shape)}")
    steps = [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
    options = {"dtype": _C.int64, "device": indices.device}
    steps, sizes = _C.tensor(steps, **options), _C.tensor(shape, **options)
    indices = indices.to(_C.int64).unsqueeze(-1)
    return indices.div(steps, rounding_mode="trunc").remainder(sizes).unbind(-1)


def stft(
    input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect",
    normalized=False, onesided=None, return_complex=None, align_to_window=None,
):
    """The Fourier transforms of short overlapping pieces of a signal."""
    if overridden(input):
        return dispatch(stft, (input,), locals())
    if center:
        from corten.nn.functional import pad

        lead = [1] * (3 - input.dim())
        width = n_fft // 2
        padded = pad(input.view(lead + list(input.shape)), [width, width], pad_mode)
        input = padded.view(padded.shape[-input.dim():])
    return _ops.stft(
        input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex,
        align_to_window=align_to_window,
    )


@as_operator
def istft(
    input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False,
    onesided=None, length=None, return_complex=False,
):
    """The signal whose :func:`stft` this is."""
    return _ops.istft(
        input, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
        return_complex=return_complex,
    )


def lu(A, pivot=True, get_infos=False, out=None):
    """The LU factors of a matrix in one tensor, with pivots; see ``corten.linalg.lu_factor``."""
    if overridden(A):
        return dispatch(lu, (A,), locals())
    result = _ops._lu_with_info(A, pivot=pivot, check_errors=not get_infos)
    factors, pivots, infos = result
    if out is not None:
        for target, value in zip(out, (factors, pivots, infos)):
            target.resize_as_(value).copy_(value)
        return out
    return result if get_infos else (factors, pivots)


@as_operator
def combinations(input, r=2, with_replacement=False):
    """Every way to choose ``r`` of the elements of a vector, one per row.

    Raises:
        RuntimeError: ``input`` is no vector, or ``r`` is negative.
    """
    is_open = isinstance(input, Tensor) and input.dim() == 1 and not isinstance(input.shape[0], int)
    if not is_open or not isinstance(r, int) or r < 1:
        return _ops.combinations(input, r, with_replacement)
    import corten

    # Of a size that is left open: rows of a grid of all choices whose positions ascend.
    count = rows = input.shape[0]
    places = corten.arange(count, device=input.device)
    grids = corten.meshgrid([places] * r, indexing="ij")
    mask = corten.full([count] * r, True, dtype=corten.bool, device=input.device)
    for one, other in zip(grids, grids[1:]):
        mask = mask & (one <= other if with_replacement else one < other)
    for step in range(1, r):
        rows = rows * (count + step if with_replacement else count - step) // (step + 1)
    index = corten.ops.aten.nonzero_static.default(mask, size=rows)
    return input[index]


_NEEDS = {
    "combinations": "combinations", "broadcast_tensors": "broadcast_tensors", "einsum": "einsum",
    "meshgrid": "meshgrid",
    "cartesian_prod": "cartesian_prod", "block_diag": "block_diag", "tensordot": "tensordot",
    "atleast_1d": "atleast_1d", "atleast_2d": "atleast_2d", "atleast_3d": "atleast_3d",
    "cdist": "cdist", "unique": "_unique2", "unique_consecutive": "unique_consecutive",
    "stft": "stft", "istft": "istft", "lu": "_lu_with_info", "split": "split",
}

#: What the operators of this build allow.
__all__ = [
    "broadcast_shapes", "nonzero", "norm", "chain_matmul", "unravel_index", "is_complex",
    "is_floating_point", "is_conj", "is_neg", "is_inference", "is_signed", "is_same_size",
    "get_device", "align_tensors",
]
__all__ += [name for name, needed in _NEEDS.items() if hasattr(_ops, needed)]
