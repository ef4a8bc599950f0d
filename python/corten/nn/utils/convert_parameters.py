"""Parameters as one vector."""

from __future__ import annotations

import corten

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _same_device(param, device):
    if device is not None and param.device != device:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )
    return param.device


def parameters_to_vector(parameters):
    """All parameters, flattened and joined."""
    device, flat = None, []
    for param in parameters:
        device = _same_device(param, device)
        flat.append(param.view(-1))
    return corten.cat(flat)


def vector_to_parameters(vec, parameters):
    """Makes the parameters slices of ``vec``."""
    if not isinstance(vec, corten.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {corten.typename(vec)}")
    device, start = None, 0
    for param in parameters:
        device = _same_device(param, device)
        end = start + param.numel()
        param.data = vec[start:end].view_as(param).data
        start = end
