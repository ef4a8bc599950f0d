"""``torch.ao.nn.quantized`` under its older name."""

import sys

import corten.ao.nn.quantized as _new

sys.modules[__name__] = _new
