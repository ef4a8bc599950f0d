"""Regions in which operators cast their arguments."""

from __future__ import annotations

import collections
import functools
import warnings

import corten

from . import _state

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

_CASTS = ("cpu", "cuda", "ipu", "xpu", "hpu", "xla", "mps", "mtia", "maia", "privateuseone")


def is_autocast_available(device_type):
    """Whether operators on such devices have casts."""
    return corten.device(device_type).type in _CASTS


def autocast_decorator(autocast_instance, func):
    """A function that runs in the region."""

    @functools.wraps(func)
    def decorate_autocast(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)

    decorate_autocast.__script_unsupported = "@autocast() decorator is not supported in script mode"
    return decorate_autocast


class autocast:
    """A context manager and decorator. In it, operators such as products and convolutions compute in
    ``dtype``, by default ``bfloat16`` on the CPU, and those that need range or precision in
    ``float32``. Regions nest; ``enabled=False`` is a region without casts.

    Casts of parameters are kept until the outermost region ends, unless ``cache_enabled=False``.

    Raises:
        ValueError: ``device_type`` is no string.
        RuntimeError: There is no such kind of device, or none with casts.
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = corten.device(device_type).type
        self.fast_dtype = _state.get_autocast_dtype(self.device) if dtype is None else dtype
        if not is_autocast_available(self.device):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{self.device}'"
            )
        self._cache_enabled = corten.is_autocast_cache_enabled()
        if enabled:
            enabled = self._is_possible()
        if cache_enabled is not None:
            self._cache_enabled = cache_enabled
        self._enabled = enabled
        self._before = []

    def _is_possible(self):
        if self.device == "cpu":
            if self.fast_dtype in (corten.bfloat16, corten.float16):
                return True
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU "
                "Autocast only supports dtype of torch.bfloat16, torch.float16 currently.",
                stacklevel=3,
            )
            return False
        if self.device == "cuda" and not corten.cuda.is_available():
            warnings.warn(
                "CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=3
            )
            return False
        return True

    def __enter__(self):
        self._before.append((
            corten.is_autocast_cache_enabled(), _state.is_autocast_enabled(self.device),
            _state.get_autocast_dtype(self.device),
        ))
        _state.set_autocast_enabled(self.device, self._enabled)
        _state.set_autocast_dtype(self.device, self.fast_dtype)
        corten.autocast_increment_nesting()
        corten.set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        if corten.autocast_decrement_nesting() == 0:
            corten.clear_autocast_cache()
        cache, enabled, dtype = self._before.pop()
        _state.set_autocast_enabled(self.device, enabled)
        _state.set_autocast_dtype(self.device, dtype)
        corten.set_autocast_cache_enabled(cache)
        return False

    def __call__(self, func):
        return autocast_decorator(self, func)


def _cast(value, device_type, dtype):
    """Floating-point tensors on such devices in a dtype, through containers; doubles stay."""
    if isinstance(value, corten.Tensor):
        eligible = (
            value.is_floating_point()
            and value.device.type == device_type
            and value.dtype is not corten.float64
        )
        return value.to(dtype) if eligible else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {
            _cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()
        }
    if isinstance(value, collections.abc.Iterable):
        items = (_cast(item, device_type, dtype) for item in value)
        return type(value)(items) if isinstance(value, (list, tuple)) else items
    return value


def _checked(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Decorates ``forward`` of an ``autograd.Function``: with ``cast_inputs`` it runs without casts
    on inputs of that dtype, where casts are on; :func:`custom_bwd` gets what it ran with."""
    _checked(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args, **kwargs):
        context = args[0]
        context._dtype = _state.get_autocast_dtype(device_type)
        enabled = _state.is_autocast_enabled(device_type)
        if cast_inputs is None:
            context._fwd_used_autocast = enabled
            return fwd(*args, **kwargs)
        context._fwd_used_autocast = False
        if not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            return fwd(
                *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs)
            )

    return decorate_fwd


def custom_bwd(bwd=None, *, device_type):
    """Decorates ``backward``: it runs with the casts that ``forward`` ran with."""
    _checked(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args, **kwargs):
        context = args[0]
        with autocast(device_type, enabled=context._fwd_used_autocast, dtype=context._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
