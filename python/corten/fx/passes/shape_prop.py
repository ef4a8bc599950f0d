"""What the values of nodes are, found by running the graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import corten
from corten.fx.interpreter import Interpreter
from corten.fx.node import map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What there is to say of a tensor beside its elements."""

    shape: corten.Size
    dtype: corten.dtype
    requires_grad: bool
    stride: tuple
    memory_format: corten.memory_format | None
    is_quantized: bool
    qparams: dict


def _extract_tensor_metadata(result, include_contiguity=True):
    """The description of a tensor."""
    found = None
    if include_contiguity:
        formats = corten.contiguous_format, corten.channels_last, corten.channels_last_3d
        found = next((one for one in formats if _fits(result, one)), None)
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), found, result.is_quantized, {}
    )


def _fits(tensor, memory_format):
    wanted = {corten.channels_last: 4, corten.channels_last_3d: 5}.get(memory_format)
    return wanted in (None, tensor.dim()) and tensor.is_contiguous(memory_format=memory_format)


class ShapeProp(Interpreter):
    """Runs a graph and notes of every node ``meta["tensor_meta"]`` and ``meta["type"]``."""

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        self.real_module = self.module

    def run_node(self, n):
        """The value of one node, which is described in its notes."""
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        tensors = []

        def described(value):
            if not isinstance(value, corten.Tensor):
                return value
            tensors.append(value)
            return _extract_tensor_metadata(value)

        made = map_aggregate(result, described) if not hasattr(result, "n_fields") else tuple(
            map(described, result)
        )
        if tensors:
            n.meta["tensor_meta"] = made
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any):
        """Runs the graph for these inputs; gives its output."""
        return super().run(*args)
