"""``torch.ao.nn.qat`` under its older name."""

import sys

import corten.ao.nn.qat as _new

sys.modules[__name__] = _new
