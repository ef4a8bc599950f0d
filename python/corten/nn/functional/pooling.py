"""Convolutions are operators as they are; pooling adds the choice of returning indices."""

from __future__ import annotations

import math

import corten
from corten._overriding import dispatch, overridden
from ._ops import available, direct, needs, ops, pair_of

direct(globals(), {name: name for name in (
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "conv_tbc", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
)})


def _or_empty(stride):
    return [] if stride is None else stride


def _max_pool(n):
    """max_pool{n}d and its variant with indices."""
    with_indices = f"max_pool{n}d_with_indices"
    plain = f"max_pool{n}d"

    @needs(with_indices)
    def pool_with_indices(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=False,
    ):
        """Maxima of windows, and their flat positions."""
        if overridden(input):
            return dispatch(pool_with_indices, (input,), locals())
        op = getattr(ops, with_indices)
        return op(input, kernel_size, _or_empty(stride), padding, dilation, ceil_mode)

    @needs(plain)
    def pool(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=False,
    ):
        """Maxima of windows; also their flat positions if ``return_indices``."""
        if overridden(input):
            chosen = pool_with_indices if return_indices else pool
            return dispatch(chosen, (input,), locals())
        name = with_indices if return_indices else plain
        op = getattr(ops, name)
        return op(input, kernel_size, _or_empty(stride), padding, dilation, ceil_mode)

    pool.__name__ = pool.__qualname__ = plain
    pool_with_indices.__name__ = pool_with_indices.__qualname__ = with_indices
    return pool, pool_with_indices


def _full_sizes(output_size, input):
    """`output_size` with None replaced by the input's own size."""
    if isinstance(output_size, int):
        return output_size
    if input.dim() <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    own = input.shape[input.dim() - len(output_size) :]
    return [mine if wanted is None else wanted for wanted, mine in zip(output_size, own)]


@needs("adaptive_avg_pool2d")
def adaptive_avg_pool2d(input, output_size):
    """Means of windows chosen so that the output has ``output_size``."""
    if overridden(input):
        return dispatch(adaptive_avg_pool2d, (input,), locals())
    return ops.adaptive_avg_pool2d(input, _full_sizes(output_size, input))


@needs("adaptive_avg_pool3d")
def adaptive_avg_pool3d(input, output_size):
    """Means of windows chosen so that the output has ``output_size``."""
    if overridden(input):
        return dispatch(adaptive_avg_pool3d, (input,), locals())
    return ops.adaptive_avg_pool3d(input, _full_sizes(output_size, input))


def _adaptive_max_pool(n):
    name = f"adaptive_max_pool{n}d"

    @needs(name)
    def pool_with_indices(input, output_size, return_indices=False):
        """Maxima of windows chosen so that the output has ``output_size``, and their positions."""
        if overridden(input):
            return dispatch(pool_with_indices, (input,), locals())
        return getattr(ops, name)(input, _full_sizes(output_size, input))

    @needs(name)
    def pool(input, output_size, return_indices=False):
        """Maxima of windows chosen so that the output has ``output_size``."""
        if overridden(input):
            chosen = pool_with_indices if return_indices else pool
            return dispatch(chosen, (input,), locals())
        result = pool_with_indices(input, output_size)
        return result if return_indices else result[0]

    pool.__name__ = pool.__qualname__ = name
    pool_with_indices.__name__ = pool_with_indices.__qualname__ = f"{name}_with_indices"
    return pool, pool_with_indices


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)
adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pool(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pool(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pool(3)


def _fractional_max_pool(n):
    name = f"fractional_max_pool{n}d"

    @needs(name)
    def pool_with_indices(
        input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
        _random_samples=None,
    ):
        """Maxima of windows at random places, and their flat positions."""
        if overridden(input, _random_samples):
            return dispatch(pool_with_indices, (input, _random_samples), locals())
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            ratios = [output_ratio] * n if isinstance(output_ratio, (int, float)) else output_ratio
            if len(ratios) != n:
                raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
            output_size = [int(s * r) for s, r in zip(input.shape[-n:], ratios)]
        if _random_samples is None:
            batch = 1 if input.dim() == n + 1 else input.size(0)
            _random_samples = corten.rand(
                batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device
            )
        return getattr(ops, name)(
            input, pair_of(kernel_size, n), pair_of(output_size, n), _random_samples
        )

    @needs(name)
    def pool(
        input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
        _random_samples=None,
    ):
        """Maxima of windows at random places."""
        if overridden(input, _random_samples):
            chosen = pool_with_indices if return_indices else pool
            return dispatch(chosen, (input, _random_samples), locals())
        result = pool_with_indices(
            input, kernel_size, output_size, output_ratio, return_indices, _random_samples
        )
        return result if return_indices else result[0]

    pool.__name__ = pool.__qualname__ = name
    pool_with_indices.__name__ = pool_with_indices.__qualname__ = f"{name}_with_indices"
    return pool, pool_with_indices


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional_max_pool(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional_max_pool(3)


def _only_maxima(pool):
    """The half of a pooling function that never returns positions."""

    place = pool.__code__.co_varnames.index("return_indices")

    def maxima(*args, return_indices=False, **kwargs):
        if len(args) > place:
            args = (*args[:place], False, *args[place + 1:])
        return pool(*args, **kwargs)

    # Signatures are those of the wrapped function.
    maxima.__wrapped__ = pool
    maxima.__name__ = maxima.__qualname__ = f"_{pool.__name__}"
    maxima.__doc__ = "Maxima of windows, without their positions."
    return maxima


_max_pool1d, _max_pool2d, _max_pool3d = map(_only_maxima, (max_pool1d, max_pool2d, max_pool3d))
_adaptive_max_pool1d, _adaptive_max_pool2d, _adaptive_max_pool3d = map(
    _only_maxima, (adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d)
)
_fractional_max_pool2d, _fractional_max_pool3d = map(
    _only_maxima, (fractional_max_pool2d, fractional_max_pool3d)
)


def _unpool_size(input, kernel_size, stride, padding, output_size):
    """The spatial size that pooled to `input`'s; a wished size must lie within one stride of it."""
    n = len(kernel_size)
    default = [
        (input.size(d - n) - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(n)
    ]
    output_size = default if output_size is None else _fitting(list(output_size), default, stride)
    for d in range(n):
        _check_unpool_output_size(output_size, d)
    return output_size


def _check_unpool_output_size(output_size, dim):
    if output_size[dim] < 0:
        raise ValueError(
            "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
            f"output_size[{dim}]={output_size[dim]}"
        )


def _fitting(output_size, default, stride):
    """A wished size without batch and channels, which fits to the default."""
    n = len(default)
    if len(output_size) == n + 2:
        output_size = output_size[2:]
    if len(output_size) != n:
        raise ValueError(
            "output_size should be a sequence containing "
            f"{n} or {n + 2} elements, but it has a length of '{len(output_size)}'"
        )
    for d in range(n):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < output_size[d] < high:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})'
            )
    return output_size


def _unpool_arguments(input, kernel_size, stride, padding, output_size, n):
    kernel_size = pair_of(kernel_size, n)
    stride = kernel_size if stride is None else pair_of(stride, n)
    padding = pair_of(padding, n)
    return _unpool_size(input, kernel_size, stride, padding, output_size), stride, padding


@needs("max_unpool2d")
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts maxima back at their places; zero elsewhere."""
    if overridden(input):
        return dispatch(max_unpool1d, (input,), locals())
    size, _, _ = _unpool_arguments(input, kernel_size, stride, padding, output_size, 1)
    spread = ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1])
    return spread.squeeze(-1)


@needs("max_unpool2d")
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts maxima back at their places; zero elsewhere."""
    if overridden(input):
        return dispatch(max_unpool2d, (input,), locals())
    size, _, _ = _unpool_arguments(input, kernel_size, stride, padding, output_size, 2)
    return ops.max_unpool2d(input, indices, size)


@needs("max_unpool3d")
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts maxima back at their places; zero elsewhere."""
    if overridden(input):
        return dispatch(max_unpool3d, (input,), locals())
    size, stride, padding = _unpool_arguments(input, kernel_size, stride, padding, output_size, 3)
    return ops.max_unpool3d(input, indices, size, stride, padding)


def _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, n):
    powers = input.pow(norm_type)
    window = pair_of(kernel_size, n)
    pool = getattr(ops, f"avg_pool{n}d")
    mean = pool(powers, window, window if stride is None else stride, 0, ceil_mode)
    total = mean.sign() * ops.relu(mean.abs())
    return total.mul(math.prod(window)).pow(1.0 / norm_type)


@needs("avg_pool1d", "relu")
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The ``norm_type``-norm of each window."""
    if overridden(input):
        return dispatch(lp_pool1d, (input,), locals())
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1)


@needs("avg_pool2d", "relu")
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The ``norm_type``-norm of each window."""
    if overridden(input):
        return dispatch(lp_pool2d, (input,), locals())
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2)


@needs("avg_pool3d", "relu")
def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The ``norm_type``-norm of each window."""
    if overridden(input):
        return dispatch(lp_pool3d, (input,), locals())
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3)


__all__ = available(globals())
