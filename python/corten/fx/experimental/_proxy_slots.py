"""Which node of a trace each tensor and each symbolic number is the value of."""

from __future__ import annotations

import dataclasses

import corten
from corten.fx.proxy import Proxy

__all__ = ["get_proxy_slot", "has_proxy_slot", "set_meta", "set_proxy_slot", "track_tensor", "track_tensor_tree"]

#: The classes of numbers that a trace may leave open.
py_sym_types = (corten.SymInt, corten.SymFloat, corten.SymBool)

_REQUIRED = object()


@dataclasses.dataclass
class _ProxyTensor:
    """The node of a tensor, and its value where that is known."""

    proxy: Proxy
    constant: object = None


class _TensorSlots:
    """What is known of tensors, which are kept: a graph may give them back after Python dropped them."""

    def __init__(self):
        self._found = {}

    def __setitem__(self, tensor, slot):
        self._found[tensor._cdata] = tensor, slot

    def __getitem__(self, tensor):
        return self._found[tensor._cdata][1]

    def __contains__(self, tensor):
        return tensor._cdata in self._found

    def __iter__(self):
        return iter([tensor for tensor, _ in self._found.values()])

    def __len__(self):
        return len(self._found)

    def get(self, tensor, default=None):
        """What is known of a tensor."""
        found = self._found.get(tensor._cdata)
        return default if found is None else found[1]

    def values(self):
        """What is known of all."""
        return [slot for _, slot in self._found.values()]


def set_proxy_slot(obj, tracer, proxy):
    """Says which node of a trace a tensor or number is the value of."""
    if isinstance(obj, py_sym_types):
        from ._symbolic_proxies import note_number

        note_number(obj, tracer, proxy)
    else:
        tracer.tensor_tracker[obj] = proxy


def has_proxy_slot(obj, tracer):
    """Whether a tensor or number is the value of a node of a trace."""
    return get_proxy_slot(obj, tracer, False, lambda _: True)


def get_proxy_slot(obj, tracer, default=_REQUIRED, transform=lambda slot: slot):
    """What is known of the node of a tensor or number.

    Raises:
        RuntimeError: Nothing is, and there is no ``default``.
    """
    if isinstance(obj, py_sym_types):
        from ._symbolic_proxies import find_number

        found = find_number(obj, tracer)
    else:
        found = tracer.tensor_tracker.get(obj)
    if found is None:
        if default is _REQUIRED:
            raise RuntimeError(f"{obj} ({type(obj)}, {id(obj)})is not tracked with proxy for {tracer}")
        return default
    return transform(found)


def snapshot_fake(val, include_real=False):
    """A tensor without data as it is now: changes of its metadata do not change the copy."""
    from .proxy_tensor import disable_proxy_modes_tracing

    with disable_proxy_modes_tracing(), corten.no_grad():
        return val.detach()


def extract_val(val, include_real=False):
    """What is noted of a value: tensors without data, numbers as they are."""
    from corten._subclasses import fake_tensor

    if isinstance(val, corten.Tensor):
        if fake_tensor.is_fake(val):
            return snapshot_fake(val)
        return _without_data(val)
    if isinstance(val, (list, tuple)) and not hasattr(val, "_fields"):
        return type(val)([extract_val(item) for item in val]) if type(val) in (list, tuple) else tuple(
            extract_val(item) for item in val
        )
    if isinstance(val, tuple):
        return tuple(extract_val(item) for item in val)
    if isinstance(val, dict):
        return {key: extract_val(item) for key, item in val.items()}
    if isinstance(val, (*py_sym_types, int, float, bool, str, complex, corten.device, corten.dtype)):
        return val
    return None


def _without_data(val):
    from corten._subclasses import fake_tensor
    from corten.utils._python_dispatch import _disable_current_modes

    if val.layout != corten.strided:
        return None
    with _disable_current_modes(), corten.no_grad():
        if "FakeTensorMode" in vars(fake_tensor):
            with fake_tensor.FakeTensorMode(allow_fallback_kernels=True):
                return corten.empty_strided(val.shape, val.stride(), device=val.device, dtype=val.dtype)
        return corten.empty_strided(val.shape, val.stride(), device="meta", dtype=val.dtype)


def set_meta(proxy, val):
    """Notes what the value of a node is."""
    from corten._subclasses.fake_tensor import is_fake
    from corten.fx.passes.shape_prop import _extract_tensor_metadata

    proxy.node.meta["val"] = extract_val(val)
    if is_fake(val) or (isinstance(val, corten.Tensor) and not val.is_sparse):
        proxy.node.meta["tensor_meta"] = _extract_tensor_metadata(val)
    return proxy


def track_tensor(tensor, proxy, *, constant, tracer):
    """Says which node a tensor is the value of, and its symbolic sizes with it."""
    if any(isinstance(size, corten.SymInt) for size in _geometry(tensor)):
        from ._symbolic_proxies import track_geometry

        track_geometry(tensor, proxy, tracer)
    set_proxy_slot(tensor, tracer, _ProxyTensor(proxy, constant))


def _geometry(tensor):
    if tensor.layout != corten.strided:
        return tensor.shape
    return (*tensor.shape, *tensor.stride(), tensor.storage_offset())


def track_tensor_tree(inner_res, proxy_res, *, constant, tracer):
    """Says of which nodes the tensors of a tree are the values: of items of ``proxy_res``."""
    if isinstance(inner_res, corten.Tensor):
        set_meta(proxy_res, inner_res)
        track_tensor(inner_res, proxy_res, tracer=tracer, constant=constant)
    elif isinstance(inner_res, py_sym_types):
        set_meta(proxy_res, inner_res)
        set_proxy_slot(inner_res, tracer, proxy_res)
    elif isinstance(inner_res, (tuple, list)):
        if isinstance(proxy_res, Proxy):
            set_meta(proxy_res, inner_res)
        for place, item in enumerate(inner_res):
            known = None if constant is None else constant[place]
            track_tensor_tree(item, proxy_res[place], constant=known, tracer=tracer)
    elif isinstance(inner_res, dict):
        if isinstance(proxy_res, Proxy):
            set_meta(proxy_res, inner_res)
        for key, item in inner_res.items():
            track_tensor_tree(item, proxy_res[key], constant=None, tracer=tracer)
    return inner_res
