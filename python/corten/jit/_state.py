"""Whether decorated functions are compiled, which here is always so."""

from __future__ import annotations

import os


class EnabledProxy:
    """The switch of the environment variable ``PYTORCH_JIT``."""

    def __init__(self):
        self.enabled = os.environ.get("PYTORCH_JIT", "1") != "0"

    def __bool__(self):
        return self.enabled


_enabled = EnabledProxy()


def disable():
    """Turns the switch off."""
    _enabled.enabled = False


def enable():
    """Turns the switch on."""
    _enabled.enabled = True
