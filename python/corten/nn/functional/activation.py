"""Activation functions."""

from __future__ import annotations

import warnings

from corten._overriding import dispatch, overridden
from ._ops import available, direct, needs, ops

direct(globals(), {
    "gelu": "gelu", "hardshrink": "hardshrink", "logsigmoid": "log_sigmoid", "prelu": "prelu",
    "softplus": "softplus", "softshrink": "softshrink", "relu_": "relu_", "elu_": "elu_",
    "selu_": "selu_", "celu_": "celu_", "hardtanh_": "hardtanh_", "leaky_relu_": "leaky_relu_",
    "rrelu_": "rrelu_", "threshold_": "threshold_",
})


@needs("threshold")
def threshold(input, threshold, value, inplace=False):
    """``input`` where it exceeds ``threshold``, else ``value``."""
    if overridden(input):
        return dispatch(_threshold, (input,), locals())
    op = ops.threshold_ if inplace else ops.threshold
    return op(input, threshold, value)


_threshold = threshold
# Its argument has the name of the function, which graphs show as PyTorch names it.
threshold.__name__ = threshold.__qualname__ = "_threshold"


@needs("relu")
def relu(input, inplace=False):
    """``max(0, input)``."""
    if overridden(input):
        return dispatch(relu, (input,), locals())
    return ops.relu_(input) if inplace else ops.relu(input)


@needs("relu6")
def relu6(input, inplace=False):
    """``min(max(0, input), 6)``."""
    if overridden(input):
        return dispatch(relu6, (input,), locals())
    return ops.relu6_(input) if inplace else ops.relu6(input)


@needs("elu")
def elu(input, alpha=1.0, inplace=False):
    """``input`` if positive, else ``alpha * (exp(input) - 1)``."""
    if overridden(input):
        return dispatch(elu, (input,), locals())
    return ops.elu_(input, alpha) if inplace else ops.elu(input, alpha)


@needs("selu")
def selu(input, inplace=False):
    """ELU with the scale and slope that keep mean 0 and variance 1."""
    if overridden(input):
        return dispatch(selu, (input,), locals())
    return ops.selu_(input) if inplace else ops.selu(input)


@needs("celu")
def celu(input, alpha=1.0, inplace=False):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    if overridden(input):
        return dispatch(celu, (input,), locals())
    return ops.celu_(input, alpha) if inplace else ops.celu(input, alpha)


@needs("leaky_relu")
def leaky_relu(input, negative_slope=0.01, inplace=False):
    """``input`` if positive, else ``negative_slope * input``."""
    if overridden(input):
        return dispatch(leaky_relu, (input,), locals())
    op = ops.leaky_relu_ if inplace else ops.leaky_relu
    return op(input, negative_slope)


@needs("rrelu")
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky ReLU whose slope is drawn from ``U(lower, upper)`` in training."""
    if overridden(input):
        return dispatch(rrelu, (input,), locals())
    op = ops.rrelu_ if inplace else ops.rrelu
    return op(input, lower, upper, training)


@needs("glu")
def glu(input, dim=-1):
    """``a * sigmoid(b)`` where ``a`` and ``b`` are the halves of ``input`` along ``dim``."""
    if overridden(input):
        return dispatch(glu, (input,), locals())
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return ops.glu(input, dim)


@needs("hardtanh")
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """``input`` clamped to ``[min_val, max_val]``."""
    if overridden(input):
        return dispatch(hardtanh, (input,), locals())
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    op = ops.hardtanh_ if inplace else ops.hardtanh
    return op(input, min_val, max_val)


@needs("hardsigmoid")
def hardsigmoid(input, inplace=False):
    """``relu6(input + 3) / 6``."""
    if overridden(input):
        return dispatch(hardsigmoid, (input,), locals())
    return ops.hardsigmoid_(input) if inplace else ops.hardsigmoid(input)


@needs("hardswish")
def hardswish(input, inplace=False):
    """``input * relu6(input + 3) / 6``."""
    if overridden(input):
        return dispatch(hardswish, (input,), locals())
    return ops.hardswish_(input) if inplace else ops.hardswish(input)


@needs("silu")
def silu(input, inplace=False):
    """``input * sigmoid(input)``."""
    if overridden(input):
        return dispatch(silu, (input,), locals())
    return ops.silu_(input) if inplace else ops.silu(input)


@needs("mish")
def mish(input, inplace=False):
    """``input * tanh(softplus(input))``."""
    if overridden(input):
        return dispatch(mish, (input,), locals())
    return ops.mish_(input) if inplace else ops.mish(input)


@needs("tanh")
def tanh(input):
    """Hyperbolic tangent."""
    return input.tanh()


@needs("sigmoid")
def sigmoid(input):
    """``1 / (1 + exp(-input))``."""
    return input.sigmoid()


@needs("tanh")
def tanhshrink(input):
    """``input - tanh(input)``."""
    if overridden(input):
        return dispatch(tanhshrink, (input,), locals())
    return input - input.tanh()


def softsign(input):
    """``input / (1 + |input|)``."""
    if overridden(input):
        return dispatch(softsign, (input,), locals())
    return input / (input.abs() + 1)


def _softmax_dim(name, rank, stacklevel):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if rank in (0, 1, 3) else 1


@needs("softmax")
def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """``exp(input)`` normalised to sum 1 along ``dim``."""
    if overridden(input):
        return dispatch(softmax, (input,), locals())
    if dim is None:
        dim = _softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


@needs("softmax")
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """``softmax(-input)``."""
    if overridden(input):
        return dispatch(softmin, (input,), locals())
    if dim is None:
        dim = _softmax_dim("softmin", input.dim(), _stacklevel)
    return softmax(-input, dim, dtype=dtype)


@needs("log_softmax")
def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """``log(softmax(input))``, computed stably."""
    if overridden(input):
        return dispatch(log_softmax, (input,), locals())
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


@needs("softmax", "empty_like")
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of the Gumbel-softmax distribution; one-hot with the soft gradient if ``hard``."""
    if overridden(logits):
        return dispatch(gumbel_softmax, (logits,), locals())
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -ops.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = ops.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


__all__ = available(globals())
