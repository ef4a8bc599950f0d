"""Nested tensors: items of different lengths as one tensor.

With ``layout=torch.jagged`` the lengths differ along one dimension, and the items lie one behind
another in ``values()``, from ``offsets()`` on. With ``layout=torch.strided`` all the dimensions of
items may differ.
"""

from __future__ import annotations

import corten
from corten.nested._construction import (
    as_nested_tensor, masked_select, narrow, nested_tensor, nested_tensor_from_jagged,
)
from corten.nested._jagged import NestedTensor
from corten.nested._strided import StridedNestedTensor

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def to_padded_tensor(input, padding, output_size=None, out=None):
    """A dense tensor in which ``padding`` fills up the shorter items.

    ``output_size`` is the shape of the result, that of the longest item if it is None.
    """
    if not isinstance(input, (NestedTensor, StridedNestedTensor)):
        raise NotImplementedError("to_padded_tensor is for nested tensors")
    found = input.to_padded_tensor(padding, output_size)
    return found if out is None else out.resize_(found.shape).copy_(found)


del corten

from corten._homes import adopt as _adopt  # noqa: E402

_adopt(__name__, __all__)
