"""Limiting gradients."""

from __future__ import annotations

import warnings

import corten

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm",
]


def _grads(parameters):
    if isinstance(parameters, corten.Tensor):
        parameters = [parameters]
    return [param.grad for param in parameters if param.grad is not None]


@corten.no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors as if they were one vector."""
    tensors = [tensors] if isinstance(tensors, corten.Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return corten.tensor(0.0)
    device = tensors[0].device
    norms = [corten.linalg.vector_norm(tensor, norm_type).to(device) for tensor in tensors]
    total = corten.linalg.vector_norm(corten.stack(norms), norm_type)
    if error_if_nonfinite and (total.isnan() or total.isinf()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@corten.no_grad()
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales the gradients, of norm ``total_norm``, down to ``max_norm`` if that is less."""
    # Multiplying by a factor clamped to 1 needs no branch on the norm's value.
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in _grads(parameters):
        grad.mul_(factor.to(grad.device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales all gradients so that their total norm is at most ``max_norm``; returns the norm."""
    if not isinstance(parameters, corten.Tensor):
        parameters = list(parameters)
        if not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
            )
    total = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Older name of :func:`clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning, stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@corten.no_grad()
def clip_grad_value_(parameters, clip_value, foreach=None):
    """Clamps every gradient element to ``[-clip_value, clip_value]``."""
    clip_value = float(clip_value)
    for grad in _grads(parameters):
        grad.clamp_(min=-clip_value, max=clip_value)
