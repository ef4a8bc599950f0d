"""How many values share a scale, and the base of observers that are configured by it."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto

import corten
from corten import nn

from .observer import _with_args

_OBSERVER = __name__.rpartition(".")[0] + ".observer"


class MappingType(Enum):
    """How real values map to integers."""

    SYMMETRIC = auto()
    SYMMETRIC_NO_CLIPPING_ERR = auto()
    ASYMMETRIC = auto()


class ZeroPointDomain(Enum):
    """Whether zero points are integers, floats or absent."""

    INT = auto()
    FLOAT = auto()
    NONE = auto()


class TorchAODType(Enum):
    """Integers of fewer than 8 bits."""

    INT1 = auto()
    INT2 = auto()
    INT3 = auto()
    INT4 = auto()
    INT5 = auto()
    INT6 = auto()
    INT7 = auto()


@dataclass(frozen=True)
class Granularity:
    """Which values share a scale."""


@dataclass(frozen=True)
class PerBlock(Granularity):
    """A scale for every block of this size."""

    block_size: tuple[int, ...]


@dataclass(frozen=True)
class PerTensor(Granularity):
    """One scale."""


@dataclass(frozen=True)
class PerAxis(Granularity):
    """A scale for every slice along an axis."""

    axis: int


@dataclass(frozen=True)
class PerGroup(Granularity):
    """A scale for every group of columns of a row."""

    group_size: int


class PerRow(Granularity):
    """A scale for every row."""


class PerToken(Granularity):
    """A scale for every row along the last dimension."""


def get_block_size(input_shape, granularity):
    """The shape of the blocks that share a scale.

    Example::

        >>> get_block_size((2, 8), PerGroup(4))
        (1, 4)

    Raises:
        ValueError: The granularity is not one of the known ones.
    """
    if not isinstance(granularity, Granularity):
        raise AssertionError("Please provide an instance of Granularity, not subclass of it")
    if isinstance(granularity, PerTensor):
        return input_shape
    if isinstance(granularity, PerAxis):
        block = list(input_shape)
        block[granularity.axis] = 1
        return tuple(block)
    if isinstance(granularity, (PerRow, PerToken)):
        return (1,) * (len(input_shape) - 1) + (input_shape[-1],)
    if isinstance(granularity, PerGroup):
        if len(input_shape) != 2:
            raise AssertionError(
                "Expecting input shape dim to be 2 for per group quantization, gotinput shape: "
                f"{input_shape}"
            )
        return (1, granularity.group_size)
    raise ValueError(f"Unsupported Granularity: {granularity}")


class AffineQuantizedObserverBase(ABC, nn.Module):
    """Observers that are configured by a granularity; a graph's node of one becomes a pair of nodes that
    quantise and dequantise."""

    with_args = classmethod(_with_args)

    def __init__(
        self, mapping_type, target_dtype, granularity, quant_min=None, quant_max=None, eps=None,
        scale_dtype=None, zero_point_dtype=None, preserve_zero=True, zero_point_domain=ZeroPointDomain.INT,
        **kwargs,
    ):
        super().__init__()
        if granularity is None:
            raise AssertionError("granularity is None")
        self.mapping_type, self.target_dtype, self.granularity = mapping_type, target_dtype, granularity
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, eps
        self.scale_dtype, self.zero_point_dtype = scale_dtype, zero_point_dtype
        self.preserve_zero, self.zero_point_domain = preserve_zero, zero_point_domain
        # Known once an input was seen.
        self.block_size = None
        self.original_dtype = None

    @abstractmethod
    def forward(self, input):
        """Observes the input and returns it."""

    @abstractmethod
    def calculate_qparams(self):
        """Scale and zero point."""

    def convert(self, model, observer_node):
        """Replaces the observer's node by nodes that quantise and dequantise."""
        from corten.ao.quantization.fx.utils import create_getattr_from_value

        ops, graph, input = corten.ops.pt2e_quant, model.graph, observer_node.args[0]
        with graph.inserting_before(observer_node):
            if self.block_size is None:
                raise AssertionError("Expecting block_size to be populated")
            if self.original_dtype is None:
                raise AssertionError("Expecting original_dtype to be populated")
            limits = (self.target_dtype, self.quant_min, self.quant_max)
            if getattr(self, "is_dynamic", False):
                chosen = graph.call_function(ops.choose_qparams_affine, (
                    input, self.mapping_type.name, self.block_size, *limits, self.eps, self.scale_dtype,
                    self.zero_point_dtype, self.preserve_zero, self.zero_point_domain.name,
                ))
                qparams = [graph.call_function(operator.getitem, (chosen, index)) for index in range(2)]
            else:
                qparams = [
                    create_getattr_from_value(model, graph, name, value, getattr(value, "device", None))
                    for name, value in zip(("_scale", "_zero_point"), self.calculate_qparams())
                ]
            rest = (self.block_size, *qparams, *limits, self.zero_point_domain.name)
            quantized = graph.call_function(ops.quantize_affine, (input, *rest), {})
            dequantized = graph.call_function(
                ops.dequantize_affine, (quantized, *rest), {"output_dtype": self.original_dtype}
            )
            observer_node.replace_all_uses_with(dequantized)
            graph.erase_node(observer_node)


for _one in (
    MappingType, ZeroPointDomain, TorchAODType, Granularity, PerBlock, PerTensor, PerAxis, PerGroup, PerRow,
    PerToken, get_block_size, AffineQuantizedObserverBase,
):
    _one.__module__ = _OBSERVER
