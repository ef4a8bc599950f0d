"""What ``export`` is made of."""

from __future__ import annotations

__all__ = ["capture_pre_autograd_graph"]


def capture_pre_autograd_graph(f, args, kwargs=None, dynamic_shapes=None):
    """The module of a program that was exported for training: what :func:`corten.export.export` gives."""
    from corten.export import export

    return export(f, args, kwargs, dynamic_shapes=dynamic_shapes).module()
