"""Reductions and normalisations under a mask.

An element that the mask leaves out is replaced by what changes nothing: 0 in a sum, minus infinity
in a maximum. Means and variances, which nothing leaves unchanged, count the elements that are left.
"""

from __future__ import annotations

import functools

import corten
from corten._utils import wrap_dim

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp",
    "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]

#: Functions whose results have the shape of the input.
_NORMALISING = frozenset(("normalize", "softmin", *corten._C._ops_tagged("masked_same_shape")))

#: Integers that are summed and multiplied as int64.
_NARROW = (corten.uint8, corten.bool, corten.int8, corten.int16, corten.int32)


def _fill_value(name, input, ord=2):
    """The number that changes nothing, of the input's dtype."""
    dtype = input.dtype
    ordered = not dtype.is_complex and dtype != corten.bool
    integral = ordered and not dtype.is_floating_point and (dtype.is_signed or dtype == corten.uint8)
    if name in ("sum", "norm", "prod"):
        infinite = name == "norm" and ord == -float("inf")
        return float("inf") if infinite else int(name == "prod")
    if name == "median":
        return float("nan")
    least = name in ("amin", "argmin")
    if dtype.is_floating_point or (dtype.is_complex and name == "logsumexp"):
        return float("inf") if least else -float("inf")
    if integral:
        limits = corten.iinfo(dtype)
        return limits.max if least else limits.min
    raise NotImplementedError(f"identity of {name} on {dtype} input")


def _reduction_identity(name, input, *args):
    """The number that changes nothing in a reduction, as a tensor; None where there is none."""
    name = name.rsplit(".", 1)[-1].removeprefix("cum")
    if name in ("mean", "std", "var"):
        return None
    value = _fill_value(name, input, args[0] if args else 2)
    return corten.tensor(value, dtype=input.dtype, device=input.device)


def _dense(name, *tensors):
    if any(tensor.layout != corten.strided for tensor in tensors):
        shown = ", ".join(f"{tensor.layout} tensor" for tensor in tensors)
        raise ValueError(f"masked {name} expects strided tensor (got {shown})")


def _input_mask(input, *args, mask=None, **kwargs):
    """The mask in the shape and the layout of the input."""
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if input.layout != corten.strided:
        from ._sparse import mask_like

        return mask_like(input, _whole(input, mask))
    return _whole(input, mask)


def _output_mask(op, input, *args, mask=None, **kwargs):
    """Where a reduction has had an element, or a normalisation has one."""
    name = op.__name__
    whole = corten.ones(input.shape, dtype=corten.bool) if mask is None else _whole(input, mask)
    if name in _NORMALISING:
        return whole
    place = 1 if name == "norm" else 0
    dim = args[place] if len(args) > place else kwargs.get("dim", -1 if name == "median" else None)
    dims = _dims(dim, input.ndim)
    return corten.any(whole, dims, bool(kwargs.get("keepdim", False))) if dims else whole


def _whole(input, mask):
    """The mask in the shape of the input."""
    if mask.layout != corten.strided:
        mask = mask.to_dense()
    if mask.ndim > input.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the "
            "input)"
        )
    return corten.broadcast_to(mask, input.shape).to(corten.bool)


def _left(name, input, mask, operation=None, ord=2):
    """The input with what the mask leaves out replaced by what changes nothing."""
    _dense(operation or name, input)
    if mask is None:
        return input
    value = corten.tensor(_fill_value(name, input, ord), dtype=input.dtype, device=input.device)
    return corten.where(_whole(input, mask), input, value)


def _dims(dim, ndim):
    """All dimensions to reduce, in order."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    ndim, dims = max(ndim, 1), []
    for one in (dim,) if isinstance(dim, int) else dim:
        if one in dims:
            raise RuntimeError(f"dim={one} appears multiple times in the list of dims")
        dims.append(wrap_dim(one, ndim))
    return tuple(sorted(dims))


_canonical_dim = _dims


def _where(mask, input, fill_value):
    """The input where the mask is true, the value elsewhere, in the layout of the mask: nothing is
    stored where a sparse mask is false."""
    if mask.layout == corten.strided:
        return corten.where(mask, input, fill_value)
    from ._sparse import where

    return where(mask, input, fill_value)


def _sparse_reduction(name, input, dim, keepdim, dtype, mask):
    """A reduction of a sparse tensor, sparse; None for others."""
    if input.layout == corten.strided:
        return None
    from ._sparse import reduced

    return reduced(name, input, _dims(dim, input.ndim), bool(keepdim), dtype, mask)


def _summed_dtype(dtype, input):
    if dtype is not None:
        return dtype
    return corten.int64 if input.dtype in _NARROW else input.dtype


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Sums of the elements that the mask keeps; 0 where there is none."""
    sparse = _sparse_reduction("sum", input, dim, keepdim, _summed_dtype(dtype, input), mask)
    if sparse is not None:
        return sparse
    left = _left("sum", input, mask)
    dims = _dims(dim, input.ndim)
    return corten.sum(left, dims, bool(keepdim), dtype=_summed_dtype(dtype, input))


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Products of the elements that the mask keeps; 1 where there is none."""
    sparse = _sparse_reduction("prod", input, dim, keepdim, _summed_dtype(dtype, input), mask)
    if sparse is not None:
        return sparse
    result = _left("prod", input, mask).to(_summed_dtype(dtype, input))
    # Unlike sums, products over an empty list of dimensions are the elements.
    nothing = isinstance(dim, list) and not dim
    for one in () if nothing else reversed(_dims(dim, input.ndim)):
        result = result.prod(one, keepdim=bool(keepdim))
    return result


def _cumulative(name, input, dim, dtype, mask):
    dtype = input.dtype if dtype is None else dtype
    left = _left(name, input, mask, "cum" + name)
    place = _dims(dim, input.ndim)[0]
    return getattr(corten, "cum" + name)(left, place, dtype=dtype).to(dtype)


def cumsum(input, dim, *, dtype=None, mask=None):
    """Running sums of the elements that the mask keeps."""
    return _cumulative("sum", input, dim, dtype, mask)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Running products of the elements that the mask keeps."""
    return _cumulative("prod", input, dim, dtype, mask)


def _extreme(name, input, dim, keepdim, dtype, mask):
    sparse = _sparse_reduction(name, input, dim, keepdim, dtype, mask)
    if sparse is not None:
        return sparse
    left = _left(name, input, mask)
    result = getattr(corten, name)(left, _dims(dim, input.ndim), bool(keepdim))
    return result.to(input.dtype if dtype is None else dtype)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Maxima of the elements that the mask keeps."""
    return _extreme("amax", input, dim, keepdim, dtype, mask)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Minima of the elements that the mask keeps."""
    return _extreme("amin", input, dim, keepdim, dtype, mask)


def _place(name, input, dim, keepdim, dtype, mask):
    left = _left(name, input, mask)
    result = getattr(corten, name)(left, dim, bool(keepdim))
    return result.to(input.dtype if dtype is None else dtype)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the maxima of the elements that the mask keeps are."""
    return _place("argmax", input, dim, keepdim, dtype, mask)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the minima of the elements that the mask keeps are."""
    return _place("argmin", input, dim, keepdim, dtype, mask)


def _counted(input, dim, keepdim, mask):
    """How many elements are left."""
    if mask is not None:
        return _whole(input, mask).sum(dim=dim, keepdim=keepdim)
    ones = corten.ones(input.shape, dtype=corten.int64, device=input.device)
    return sum(ones, dim, keepdim=keepdim)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Means of the elements that the mask keeps; NaN where there is none."""
    source = "Input" if dtype is None else "Optional"
    dtype = input.dtype if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point "
            f"or complex dtype. Got: {dtype}"
        )
    sparse = _sparse_reduction("mean", input, dim, keepdim, dtype, mask)
    if sparse is not None:
        return sparse
    keepdim = bool(keepdim)
    total = sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _counted(input, dim, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """Medians of the elements that the mask keeps; NaN where there is none."""
    floating = input.is_floating_point()
    wanted = input.dtype if dtype is None else dtype
    values = input if floating else input.to(corten.float)
    place = _dims(dim, input.ndim)[0]
    result = corten.nanmedian(_left("median", values, mask), place, keepdim).values
    if floating:
        return result
    if corten.isnan(result).any():
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return result.to(wanted)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Logarithms of the sums of the exponentials of the elements that the mask keeps."""
    left = _left("logsumexp", input, mask)
    result = corten.logsumexp(left, _dims(dim, input.ndim), keepdim=keepdim)
    return result.to(input.dtype if dtype is None else dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """The logarithm of the sum of exponentials, of which masks leave out some."""
    _dense("logaddexp", input, other)
    left, right = _left("logaddexp", input, input_mask), _left("logaddexp", other, other_mask)
    return corten.logaddexp(left, right).to(input.dtype if dtype is None else dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Norms of the elements that the mask keeps."""
    left = _left("norm", input, mask, ord=ord)
    dtype = input.dtype if dtype is None else dtype
    dims = _dims(dim, input.ndim)
    return corten.linalg.vector_norm(left, ord, dims, bool(keepdim), dtype=dtype)


def _variance(input, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1.0 if unbiased is None else float(unbiased)
    _dense("std/var", input)

    def inexact(dtype):
        return dtype if dtype.is_floating_point or dtype.is_complex else corten.float32

    dtype = inexact(input.dtype) if dtype is None else dtype
    count = _counted(input, dim, True, mask)
    centre = sum(input, dim, keepdim=True, dtype=dtype, mask=mask) / count
    distance = input - centre
    total = sum(
        distance * distance.conj(), dim, keepdim=keepdim, dtype=inexact(dtype), mask=mask
    )
    count = count if keepdim else count.reshape(total.shape)
    if correction:
        real = total.real.dtype if total.is_complex() else total.dtype
        count = (count.to(real) - correction).clamp(min=0)
    return (total / count).to(dtype)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Variances of the elements that the mask keeps; NaN where there is none."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Standard deviations of the elements that the mask keeps; NaN where there is none."""
    return corten.sqrt(_variance(input, dim, unbiased, correction, keepdim, dtype, mask))


def _normalised(name, filled_as, input, dim, dtype, mask):
    left = _left(filled_as, input, mask, name)
    dtype = input.dtype if dtype is None else dtype
    return getattr(corten.nn.functional, name)(left, _dims(dim, input.ndim)[0], dtype=dtype)


def softmax(input, dim, *, dtype=None, mask=None):
    """Softmax of the elements that the mask keeps."""
    return _normalised("softmax", "amax", input, dim, dtype, mask)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """The logarithm of the softmax of the elements that the mask keeps."""
    return _normalised("log_softmax", "amax", input, dim, dtype, mask)


def softmin(input, dim, *, dtype=None, mask=None):
    """Softmax of the negated elements that the mask keeps."""
    return _normalised("softmin", "amin", input, dim, dtype, mask)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The elements that the mask keeps divided by their norm, or by ``eps`` where it is smaller."""
    left = _left("sum", input, mask, "normalize")
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return left / corten.maximum(size, size.new_full((), eps))


def _taking_masked_tensors(function):
    """The function, of masked tensors as well: their own mask holds, whatever is given beside it."""

    @functools.wraps(function)
    def taking(input, *args, mask=None, **kwargs):
        if isinstance(input, corten.Tensor) and hasattr(input, "_masked_mask"):
            mask, input = input._masked_mask, input._masked_data
        return function(input, *args, mask=mask, **kwargs)

    return taking


globals().update(
    (name, _taking_masked_tensors(globals()[name])) for name in __all__ if name != "logaddexp"
)
