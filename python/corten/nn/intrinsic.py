"""``torch.ao.nn.intrinsic`` under its older name."""

import sys

import corten.ao.nn.intrinsic as _new

sys.modules[__name__] = _new
