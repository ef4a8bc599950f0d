"""Tensors that a module owns: parameters and buffers."""

from __future__ import annotations

from collections import OrderedDict

import corten
from corten import Tensor, _C

__all__ = [
    "Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer",
    "UninitializedTensorMixin", "is_lazy",
]


# Results of operators on these classes are plain tensors.
_plain_torch_function = getattr(_C, "_disabled_torch_function_impl", None)


class _MarkedMeta(type(Tensor)):
    """Counts a tensor subclass instance carrying the class's mark as an instance of the class."""

    _mark = ""

    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        mark = cls.__dict__.get("_mark")
        return mark is not None and isinstance(instance, Tensor) and getattr(instance, mark, False)


def _as_marked(cls, data, requires_grad):
    """`data` as an instance of `cls`, or, for a subclass of Tensor, as itself with a mark."""
    if data is None:
        data = corten.empty(0)
    if type(data) is Tensor or isinstance(data, (Parameter, Buffer)) and type(data) is cls:
        return Tensor._make_subclass(cls, data, requires_grad)
    if type(data) in (Parameter, Buffer):
        return Tensor._make_subclass(cls, data.detach(), requires_grad)
    marked = data.detach().requires_grad_(requires_grad)
    if type(marked) is not type(data):
        raise RuntimeError(
            f"Creating a {cls.__name__} from an instance of type {type(data).__name__} requires "
            f"that detach() returns an instance of the same type, but return type "
            f"{type(marked).__name__} was found instead."
        )
    setattr(marked, cls._mark, True)
    return marked


class Parameter(Tensor, metaclass=_MarkedMeta):
    """A tensor that becomes a parameter of the module it is assigned to.

    Shares memory with ``data`` and requires gradients unless told otherwise.
    """

    _mark = "_is_param"
    __torch_function__ = _plain_torch_function

    def __new__(cls, data=None, requires_grad=True):
        return _as_marked(cls, data, requires_grad)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        data = self.data.clone(memory_format=corten.preserve_format)
        result = type(self)(data, self.requires_grad)
        result.__dict__.update(_copied_attributes(self, memo))
        memo[id(self)] = result
        return result

    def __repr__(self, *, tensor_contents=None):
        prefix = "tensor(" if type(self) is Parameter else f"{type(self).__name__}("
        return "Parameter containing:\n" + _C._tensor_str(self, prefix)

    def __reduce_ex__(self, proto):
        from corten import _utils

        state = self.__dict__
        if not state:
            return _utils._rebuild_parameter, (self.data, self.requires_grad, OrderedDict())
        arguments = (self.data, self.requires_grad, OrderedDict(), dict(state))
        return _utils._rebuild_parameter_with_state, arguments


# Operators on parameters take the fast paths of plain tensors.
_C._set_parameter_class(Parameter)


class Buffer(Tensor, metaclass=_MarkedMeta):
    """A tensor that becomes a buffer of the module it is assigned to.

    A persistent buffer is part of the module's ``state_dict``.
    """

    _mark = "_is_buffer"
    __torch_function__ = _plain_torch_function

    def __new__(cls, data=None, *, persistent=True):
        result = _as_marked(cls, data, data.requires_grad if data is not None else False)
        result.persistent = persistent
        return result

    def __reduce_ex__(self, proto):
        # Files know buffers as tensors that have a mark.
        function, (rebuild, _, arguments, state) = Tensor.__reduce_ex__(self, proto)
        return function, (rebuild, Tensor, arguments, {**state, "_is_buffer": True})


def _copied_attributes(tensor, memo):
    import copy

    return {name: copy.deepcopy(value, memo) for name, value in tensor.__dict__.items()}


class UninitializedTensorMixin:
    """A tensor of a lazy module whose shape is not known yet; only ``materialize`` gives it one."""

    _allowed_methods = (
        Tensor.__hash__, Tensor.size, Tensor.copy_, Tensor.is_complex, Tensor.is_floating_point,
        Tensor.half, Tensor.float, Tensor.double, Tensor.char, Tensor.short, Tensor.int,
        Tensor.long, Tensor.cuda, Tensor.cpu, Tensor.to, Tensor.get_device, Tensor.detach,
        Tensor.requires_grad_, Tensor.bfloat16,
    )

    def materialize(self, shape, device=None, dtype=None):
        """Gives the tensor memory for ``shape`` and its final class."""
        self.data = corten.empty(
            shape,
            device=self.data.device if device is None else device,
            dtype=self.data.dtype if dtype is None else dtype,
        )
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self):
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self):
        return f"<{type(self).__name__}>"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        # Reading and writing attributes, such as `data`, is allowed.
        if func in cls._allowed_methods or type(func).__name__ == "method-wrapper":
            return _plain_torch_function(func, types, args, kwargs or {})
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you "
            "are using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call `forward` "
            "with a dummy batch to initialize the parameters before calling torch functions"
        )


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter of a lazy module before the first forward."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        data = corten.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, proto):
        return UninitializedParameter, (self.requires_grad, self.data.device, self.data.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer of a lazy module before the first forward."""

    cls_to_become = Buffer

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        data = corten.empty(0, device=device, dtype=dtype)
        result = Tensor._make_subclass(cls, data, requires_grad)
        result.persistent = persistent
        return result

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            function, arguments = self.__reduce_ex__(2)
            memo[id(self)] = function(*arguments)
        return memo[id(self)]

    def __reduce_ex__(self, proto):
        arguments = (self.requires_grad, self.data.device, self.data.dtype, self.persistent)
        return UninitializedBuffer, arguments


def refuse_uninitialized(param, name, kind):
    """That a parameter has a shape, before ``name`` normalizes it.

    Raises:
        ValueError: It has none yet.
    """
    if is_lazy(param):
        raise ValueError(
            f"The module passed to `{name}` can't have uninitialized parameters. Make sure to run "
            f"the dummy forward before applying {kind} normalization"
        )


def is_lazy(param):
    """Whether ``param`` waits for its shape."""
    return isinstance(param, UninitializedTensorMixin)
