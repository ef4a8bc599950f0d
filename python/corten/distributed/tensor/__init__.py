"""Tensors whose elements lie on several devices, with the semantics of one tensor."""

from __future__ import annotations

import corten.distributed.tensor._ops  # noqa: F401
from corten.distributed.device_mesh import DeviceMesh, init_device_mesh
from corten.distributed.tensor._api import DTensor, distribute_module, distribute_tensor
from corten.distributed.tensor._factories import empty, full, linspace, logspace, ones, rand, randn, zeros
from corten.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty",
           "full", "linspace", "logspace", "ones", "rand", "randn", "zeros", "DeviceMesh", "init_device_mesh"]

# Pickles name the public home.
DTensor.__module__ = __name__
