"""Tensors of random numbers for tests."""

from __future__ import annotations

import math
import warnings

import corten

__all__ = ["make_tensor"]


def make_tensor(
    *shape, dtype, device, low=None, high=None, requires_grad=False, noncontiguous=False,
    exclude_zero=False, memory_format=None,
):
    """A tensor of uniform numbers from ``[low, high)``, by default within ±9 where the dtype has them.

    Raises:
        ValueError: The bounds are wrong, or integers shall require a gradient.
        TypeError: The dtype has no such numbers.
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list, corten.Size)):
        shape = shape[0]
    shape = tuple(shape)
    floating = dtype.is_floating_point or dtype.is_complex
    if not floating and requires_grad:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"{dtype=}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    # Every second number of twice as many along the last dimension.
    wide = noncontiguous and math.prod(shape) > 1
    filled = (*shape[:-1], 2 * shape[-1]) if wide else shape
    result = _uniform(filled, dtype, device, low, high)
    if wide:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        smallest = corten.finfo(dtype).tiny if floating else 1
        result[result == 0] = smallest
    return result.requires_grad_(requires_grad) if requires_grad else result


def _bounds(low, high, default, lowest, highest, floating=False):
    low = default[0] if low is None else low
    high = default[1] if high is None else high
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and floating:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since "
            "2.1 and will be removed in 2.3. Use `torch.full(...)` instead.", FutureWarning, stacklevel=4,
        )
    elif not low < high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if high < lowest or low > highest or (low == highest and not floating):
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but the dtype only supports "
            f"[{lowest}, {highest}]"
        )
    return max(low, lowest), min(high, highest)


def _uniform(shape, dtype, device, low, high):
    if dtype is corten.bool:
        low, high = _bounds(low, high, (0, 2), 0, 2)
        return corten.randint(math.ceil(low), math.ceil(high), shape, device=device, dtype=dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        limits = corten.iinfo(dtype)
        default = (0 if limits.min == 0 else -9, 10)
        low, high = _bounds(low, high, default, limits.min, limits.max + (dtype is not corten.int64))
        return corten.randint(math.ceil(low), math.ceil(high), shape, device=device, dtype=dtype)
    limits = corten.finfo(dtype)
    low, high = _bounds(low, high, (-9, 9), limits.min, limits.max, floating=True)
    short = dtype.is_floating_point and dtype.itemsize == 1
    result = corten.empty(shape, device=device, dtype=corten.float32 if short else dtype)
    real = corten.view_as_real(result) if dtype.is_complex else result
    if high - low > limits.max:
        # The range exceeds the dtype: half of it, doubled.
        real.uniform_(low / 2, high / 2).mul_(2)
    else:
        real.uniform_(low, high)
    return result.to(dtype) if short else result
