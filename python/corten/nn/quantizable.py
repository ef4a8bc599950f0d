"""``torch.ao.nn.quantizable`` under its older name."""

import sys

import corten.ao.nn.quantizable as _new

sys.modules[__name__] = _new
