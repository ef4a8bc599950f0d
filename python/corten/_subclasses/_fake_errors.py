"""Errors of tensors without data."""

from __future__ import annotations

from dataclasses import dataclass

from corten import _C


@dataclass
class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that none without data can stand for."""

    reason: str


class FakeTensorDeviceMismatchError(RuntimeError):
    """An operator got tensors of several devices."""

    def __init__(self, func, common_device, device):
        self.func, self.common_device, self.device = func, common_device, device
        super().__init__(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{common_device} and {device}!"
        )


@dataclass
class DynamicOutputShapeException(RuntimeError):
    """The sizes of a result depend on data."""

    func: object


@dataclass
class DataDependentOutputException(RuntimeError):
    """A result that is no tensor depends on data."""

    func: object


@dataclass
class UnsupportedOperatorException(RuntimeError):
    """An operator has no shape rule."""

    func: object


@dataclass
class UnsupportedMutationAliasingException(RuntimeError):
    """An operator writes to or aliases its arguments in a way that its schema does not tell."""

    reason: str


@dataclass
class MetadataMismatchError(RuntimeError):
    """Two tensors differ in what they should have in common."""

    reason: str


def render_call(func, args, kwargs):
    """A call as text, with tensors by their sizes."""
    parts = [_render(arg) for arg in args] + [f"{name}={_render(value)}" for name, value in kwargs.items()]
    return f"{func}({', '.join(parts)})"


def _render(value):
    from .fake_tensor import FakeTensor

    if isinstance(value, FakeTensor):
        return repr(value)
    if isinstance(value, _C.Tensor):
        return f"tensor([...], {describe(value)})"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(_render, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    return repr(value)


def describe(tensor):
    """Device, size and dtype of a tensor, the first and last where they are not the usual ones."""
    import corten

    parts = []
    if tensor.device.type != "cpu":
        parts.append(f"device='{tensor.device}'")
    parts.append(f"size={_sizes(tensor.shape)}")
    usual = (corten.get_default_dtype(), corten.bool)
    if tensor.dtype not in usual or tensor.dtype == corten.bool:
        parts.append(f"dtype={tensor.dtype}")
    return ", ".join(parts)


def _sizes(sizes):
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"
