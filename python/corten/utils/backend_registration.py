"""A device from outside the library: its name, its module, and methods of tensors, storages and modules for it."""

from __future__ import annotations

import corten
from corten import _C

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]


def rename_privateuse1_backend(backend_name):
    """Gives the device ``privateuseone`` a name of its own, once for a program.

    Raises:
        RuntimeError: It has another name already.
    """
    _C._rename_privateuse1_backend(backend_name)


def _check_register_once(module, attr):
    if hasattr(module, attr):
        raise RuntimeError(
            f"The custom device module of {module} has already been registered with {attr}"
        )


def _device_module(name):
    module = getattr(corten, name, None)
    if module is None:
        raise RuntimeError(f"Try to call torch.{name}. The backend must register a custom backend module with "
                           f"`torch._register_device_module('{name}', BackendModule)`.")
    return module


def _normalization_device(name, device=None):
    """The index of a device, the current one where none is named."""
    if device is None:
        current = getattr(_device_module(name), "current_device", None)
        return current() if current is not None else 0
    if isinstance(device, int):
        return device
    device = corten.device(device)
    if device.type != name:
        raise RuntimeError(f"Invalid device, must be {name} device")
    return _normalization_device(name) if device.index is None else device.index


def _tensor_methods(name):
    _check_register_once(corten.Tensor, f"is_{name}")
    setattr(corten.Tensor, f"is_{name}", property(lambda self: self.device.type == name))
    _check_register_once(corten.Tensor, name)

    def moved(self, device=None, non_blocking=False, **kwargs):
        index = _normalization_device(name, device)
        return self.to(device=corten.device(f"{name}:{index}"), non_blocking=non_blocking, **kwargs)

    moved.__name__ = name
    setattr(corten.Tensor, name, moved)


def _module_methods(name):
    _check_register_once(corten.nn.Module, name)

    def moved(self, device=None):
        return self._apply(lambda tensor: getattr(tensor, name)(device))

    moved.__name__ = name
    setattr(corten.nn.Module, name, moved)


def _sequence_methods(name):
    from corten.nn.utils.rnn import PackedSequence

    _check_register_once(PackedSequence, f"is_{name}")
    setattr(PackedSequence, f"is_{name}", property(lambda self: self.data.device.type == name))

    def moved(self, *args, **kwargs):
        return self.to(*args, **{"device": name, **kwargs})

    moved.__name__ = name
    setattr(PackedSequence, name, moved)


def _storage_methods(name):
    from corten.storage import UntypedStorage

    _check_register_once(UntypedStorage, f"is_{name}")
    setattr(UntypedStorage, f"is_{name}", property(lambda self: self.device.type == name))

    def moved(self, device=None, non_blocking=False):
        source = corten.empty(0, dtype=corten.uint8, device=self.device).set_(self)
        index = _normalization_device(name, device)
        return source.to(corten.device(f"{name}:{index}"), non_blocking=non_blocking).untyped_storage()

    moved.__name__ = name
    setattr(UntypedStorage, name, moved)


def generate_methods_for_privateuse1_backend(
    for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=False, unsupported_dtype=None,
):
    """Adds methods and attributes of the device's name to tensors, modules, packed sequences and storages."""
    name = _C._get_privateuse1_backend_name()
    if for_tensor:
        _tensor_methods(name)
    if for_module:
        _module_methods(name)
    if for_packed_sequence:
        _sequence_methods(name)
    if for_storage:
        _storage_methods(name)


def _get_custom_mod_func(func_name):
    """A function of the device's module.

    Raises:
        RuntimeError: There is none.
    """
    name = _C._get_privateuse1_backend_name()
    function = getattr(_device_module(name), func_name, None)
    if function is None:
        raise RuntimeError(f"Try to call torch.{name}.{func_name}. The backend must register a custom backend module "
                           f"with `torch._register_device_module('{name}', BackendModule)`. And BackendModule needs "
                           f"to have the following API's:\n `{func_name}(*args, **kwargs)`. \n")
    return function
