"""The name under which distributed tensors began; :mod:`corten.distributed.tensor` is the one to use."""

from __future__ import annotations

import sys

import corten.distributed.tensor
from corten.distributed.tensor import *  # noqa: F403
from corten.distributed.tensor import __all__ as __all__
from corten.distributed.tensor import (  # noqa: F401
    _api as api, _dtensor_spec, _random, _redistribute, _utils, device_mesh, placement_types,
)

for _name in ("api", "_dtensor_spec", "_random", "_redistribute", "_utils", "device_mesh", "placement_types"):
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
