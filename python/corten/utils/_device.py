"""The device that factory functions use when none is named."""

from __future__ import annotations

import functools
import threading

from corten import _C
from corten.overrides import TorchFunctionMode

_FACTORIES = (
    "as_tensor", "asarray", "range", "tensor", *_C._ops_tagged("factory"),
    *(f"sparse_{kind}_tensor" for kind in ("coo", "compressed", "csr", "csc", "bsr", "bsc")),
)
_local = threading.local()


@functools.cache
def _device_constructors():
    import corten

    made = {getattr(corten, name) for name in _FACTORIES if hasattr(corten, name)}
    return frozenset(made | {corten.fft.fftfreq, corten.fft.rfftfreq})


class DeviceContext(TorchFunctionMode):
    """Adds a device to calls of factory functions that name none."""

    def __init__(self, device):
        self.device = _C.device(device)

    def clone(self):
        """Another context for the device."""
        return DeviceContext(self.device)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = self.device
        return func(*args, **kwargs)


def set_device(device):
    """A decorator: in the function, factories use a device. Generators use it whenever they run."""
    from ._contextlib import context_decorator

    return functools.partial(context_decorator, DeviceContext(device))


def set_default_device(device):
    """Makes factory functions use a device; ``None`` brings the host back."""
    current = getattr(_local, "default", None)
    if current is not None:
        current.__exit__(None, None, None)
        _local.default = None
    if device is not None:
        _local.default = DeviceContext(device)
        _local.default.__enter__()


def get_default_device():
    """The device that factory functions use."""
    from corten.overrides import _get_current_function_mode_stack

    for mode in reversed(_get_current_function_mode_stack()):
        if isinstance(mode, DeviceContext):
            if mode.device.type == "cuda" and mode.device.index is None:
                from corten import cuda

                return _C.device("cuda", cuda.current_device())
            return mode.device
    return _C.device("cpu")


def get_device_module(device=None):
    """The module for a kind of device, such as ``corten.cuda``."""
    import importlib

    if device is None:
        from corten import accelerator

        # That of the accelerator which this build can drive, as in PyTorch.
        device = accelerator.current_accelerator() or "cpu"
    kind = _C.device(device).type
    return importlib.import_module(f"corten.{kind}")


def _enter(device):
    stack = getattr(_local, "stack", None)
    if stack is None:
        stack = _local.stack = []
    context = DeviceContext(device)
    context.__enter__()
    stack.append(context)


def _exit():
    _local.stack.pop().__exit__(None, None, None)


def _decorate(device, function):
    @functools.wraps(function)
    def decorated(*args, **kwargs):
        with DeviceContext(device):
            return function(*args, **kwargs)

    return decorated


def _register_device_module(device_type, module):
    """Makes a module the one of a device's functions: ``torch.NAME``.

    Raises:
        RuntimeError: There is one already.
    """
    import sys

    import corten

    kind = corten.device(device_type).type
    if kind in vars(corten):
        raise RuntimeError(
            f"The runtime module of '{kind}' has already been registered with '{getattr(corten, kind)}'"
        )
    setattr(corten, kind, module)
    sys.modules[f"{corten.__name__}.{kind}"] = module
