"""Recording, whatever mode is on around it."""

from __future__ import annotations

import functools

import corten
from corten import _C

__all__ = ["recording", "recorded"]


class recording:
    """A context in which functions are recorded to be differentiated, in inference mode too.

    Inference tensors that such a function closes over are constants, which may be saved.
    """

    def __enter__(self):
        self._mode = corten.inference_mode(False)
        self._mode.__enter__()
        _C._transform_enter()
        return self

    def __exit__(self, *exception):
        _C._transform_exit()
        return self._mode.__exit__(*exception)


def recorded(function):
    """The function with recording turned on where inference mode has turned it off."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if not corten.is_inference_mode_enabled():
            return function(*args, **kwargs)
        with recording():
            return function(*args, **kwargs)

    return wrapper
