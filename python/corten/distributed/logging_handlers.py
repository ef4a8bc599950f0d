"""Where records of :mod:`corten.distributed.c10d_logger` go, by the name of a destination."""

from __future__ import annotations

import logging

__all__ = []

_log_handlers = {"default": logging.NullHandler()}
