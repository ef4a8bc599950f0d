"""Methods of ``Tensor`` that are written in Python, attached to the native class."""

from __future__ import annotations

from corten import _C
from corten._C import Tensor
from corten._overriding import dispatch, hand_over, overridden


def _attach(function):
    """Makes a function a method of ``Tensor``."""
    function.__qualname__ = f"Tensor.{function.__name__}"
    setattr(Tensor, function.__name__, function)
    return function


def typename(obj):
    """The name of an object's type; that of a tensor says its dtype and device."""
    if isinstance(obj, Tensor):
        return obj.type()
    module = getattr(obj, "__module__", "")
    name = getattr(obj, "__qualname__", None) or type(obj).__qualname__
    if not hasattr(obj, "__qualname__"):
        module = type(obj).__module__
    return name if module in ("builtins", "", None) else f"{module}.{name}"


@_attach
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Accumulates the gradients of this tensor into the leaves it depends on.

    A tensor with more than one element needs ``gradient``, the gradient with respect to itself.
    """
    if overridden(self):
        return dispatch(Tensor.backward, (self,), locals())
    if inputs is not None and isinstance(inputs, (list, tuple)) and not inputs:
        raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    self._backward(gradient, retain_graph, create_graph, inputs)
    return None


@_attach
def register_hook(self, hook):
    """Calls ``hook`` with every gradient computed for this tensor; it may return a replacement."""
    if overridden(self):
        return dispatch(Tensor.register_hook, (self,), locals())
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return self._register_hook(hook)


@_attach
def register_post_accumulate_grad_hook(self, hook):
    """Calls ``hook`` with this leaf whenever its gradient has been accumulated."""
    if overridden(self):
        return dispatch(Tensor.register_post_accumulate_grad_hook, (self,), locals())
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return self._register_post_accumulate_grad_hook(hook)


@_attach
def __deepcopy__(self, memo):
    if overridden(self):
        return dispatch(Tensor.__deepcopy__, (self,), locals())
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) in memo:
        return memo[id(self)]
    with _C.no_grad():
        result = _copy_of_data(self, memo)
        if self.requires_grad:
            result.requires_grad_()
        if self.grad is not None:
            result.grad = self.grad.__deepcopy__(memo)
    memo[id(self)] = result
    if self.__dict__:
        from copy import deepcopy

        result.__dict__.update(deepcopy(self.__dict__, memo))
    return result


def _copy_of_data(tensor, memo):
    """A copy of the whole storage, shared through ``memo`` with other tensors over it."""
    from corten import _utils

    if _utils.is_wrapper(tensor):
        copied = tensor.detach().clone()
        if type(copied) is not type(tensor):
            raise RuntimeError(
                "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass "
                f"types that properly implement clone(), and {type(tensor).__name__} gave a "
                f"{type(copied).__name__}"
            )
        return copied
    if tensor.layout is not _C.strided or tensor.device.type == "meta":
        copied = tensor.detach().clone()
    else:
        storage = tensor.untyped_storage()
        # Storages in the same structure are copied once, too.
        shared = storage.__deepcopy__(memo)
        memo["corten", storage._cdata] = storage
        if tensor.is_quantized:
            return _quantized_copy(tensor, shared)
        flagged = tensor.is_conj(), tensor.is_neg()
        copied = _C._functions.empty((0,), dtype=tensor.dtype, device=tensor.device)
        copied = _utils.strided_over(
            copied, shared, tensor.storage_offset(), tuple(tensor.size()), tensor.stride()
        )
        if flagged[0]:
            copied = copied.conj()
        if flagged[1]:
            copied = copied._neg_view()
        if tensor.has_names():
            copied.rename_(*tensor.names)
    return copied if type(tensor) is Tensor else copied.as_subclass(type(tensor))


def _quantized_copy(tensor, shared):
    """A quantised tensor over the copy of its storage."""
    from corten import _utils

    copied = _utils.quantized_over(
        shared, tensor.dtype, tensor.storage_offset(), tuple(tensor.size()), tensor.stride(),
        _utils.quantizer_of(tensor),
    )
    return copied if type(tensor) is Tensor else copied.as_subclass(type(tensor))


@_attach
def __reduce_ex__(self, proto):
    if overridden(self):
        return dispatch(Tensor.__reduce_ex__, (self,), locals())
    from corten import _utils

    if type(self) is Tensor and not self.__dict__:
        return _utils.reduce_tensor(self)
    state = _utils._get_obj_state(self)
    function, arguments = _utils.reduce_tensor(self)
    return _rebuild_from_type_v2, (function, type(self), arguments, state)


def _rebuild_from_type_v2(func, new_type, args, state):
    """A tensor of a subclass, with the attributes it had."""
    result = func(*args)
    if type(result) is not new_type:
        result = result.as_subclass(new_type)
    setter = getattr(new_type, "__setstate__", None)
    if setter is not None and setter is not Tensor.__setstate__:
        result.__setstate__(state)
    else:
        from corten import _utils

        _utils._set_obj_state(result, state)
    return result


@_attach
def __setstate__(self, state):
    if overridden(self):
        return dispatch(Tensor.__setstate__, (self,), locals())
    if isinstance(state, dict):
        self.__dict__.update(state)
    elif len(state) == 4:
        from corten import _utils
        from corten.storage import untyped

        _utils.check_bounds(untyped(state[0]), self.element_size(), *state[1:])
        self.set_(*state)
    else:
        self.requires_grad, _, self._backward_hooks = state[-3:]


def _block_format(self):
    """The name of the format of a block-quantised tensor, such as ``Q4_K``; None for other tensors."""
    return _C._block_format(self)


Tensor.block_format = property(_block_format)


@_attach
def __array__(self, dtype=None, copy=None):
    if overridden(self):
        return hand_over(Tensor.__array__, (self,), self, dtype=dtype)
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        return array.astype(dtype)
    return array.copy() if copy else array


@_attach
def __array_wrap__(self, array, context=None, return_scalar=False):
    if overridden(self):
        return hand_over(Tensor.__array_wrap__, (self,), self, array=array)
    if array.dtype == bool:
        # NumPy's comparisons give what this library's old comparisons gave.
        array = array.astype("uint8")
    return _C.from_numpy(array) if array.ndim else _C.tensor(array.item())


Tensor.__array_priority__ = 1000
_written = Tensor.__repr__


@_attach
def __repr__(self, *, tensor_contents=None):
    """The elements, with dtype and history where these do not follow from them."""
    if overridden(self):
        return dispatch(Tensor.__repr__, (self,), locals())
    if tensor_contents is None:
        value = _C._held_object(self)
        return _written(self) if value is None else f"_to_functional_tensor({value.value!r})"
    suffix = ", requires_grad=True" if self.requires_grad else ""
    if self.grad_fn is not None:
        suffix = f", grad_fn=<{self.grad_fn.name()}>"
    return f"{type(self).__name__.replace('Tensor', 'tensor')}({tensor_contents}{suffix})"


@_attach
def __reversed__(self):
    """This tensor with the first dimension reversed."""
    if overridden(self):
        return dispatch(Tensor.__reversed__, (self,), locals())
    return self if self.dim() == 0 else self.flip(0)


@_attach
def __dir__(self):
    if overridden(self):
        return dispatch(Tensor.__dir__, (self,), locals())
    names = dir(type(self))
    for name in ("volatile", "__cuda_array_interface__"):
        if name in names:
            names.remove(name)
    return sorted({*names, *self.__dict__})


def __torch_function__(cls, func, types, args=(), kwargs=None):
    """What operators do with subclasses: they compute, and the results get the subclass."""
    if not all(issubclass(cls, ty) for ty in types):
        return NotImplemented
    before = _C._torch_function_state()
    _C._set_torch_function_state(1)
    try:
        result = func(*args, **(kwargs or {}))
    finally:
        _C._set_torch_function_state(before)
    return result if func in _plain_functions() else _converted(result, cls)


Tensor.__torch_function__ = classmethod(__torch_function__)


def _disabled_torch_dispatch_impl(func, types, args=(), kwargs=None):
    """The result of a call that passes modes and classes of tensors by."""
    include, exclude = _C._tls_key_sets()
    before = _C._set_tls_key_sets(include & ~_PYTHON, exclude | _PYTHON)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _C._set_tls_key_sets(*before)


_PYTHON = _C._keyset_of("Python") | _C._keyset_of("PythonTLSSnapshot")
_C._disabled_torch_dispatch_impl = _disabled_torch_dispatch_impl
Tensor.__torch_dispatch__ = _disabled_torch_dispatch_impl


def _plain_functions():
    """Functions and attributes whose results keep the class they have."""
    if not _PLAIN:
        _PLAIN.update((Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__))
    return _PLAIN


_PLAIN = set()


def _converted(result, cls):
    """Tensors in a result become instances of a subclass."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        return type(result)(_converted(item, cls) for item in result)
    return result


@_attach
def storage(self):
    """The storage with the dtype of this tensor; ``untyped_storage`` is what new code uses."""
    if overridden(self):
        return dispatch(Tensor.storage, (self,), locals())
    from corten.storage import _warn_typed_storage_removal

    _warn_typed_storage_removal(stacklevel=2)
    return self._typed_storage()


@_attach
def _typed_storage(self):
    from corten.storage import TypedStorage

    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)


def _element_name(dtype):
    from corten.storage import _dtype_to_storage_type_map

    return _dtype_to_storage_type_map().get(dtype, str(dtype)).removesuffix("Storage")


_set = Tensor.set_


@_attach
def set_(self, *args, **kwargs):
    """Makes the tensor look at another storage, of its own dtype where that is typed."""
    if overridden(self):
        return hand_over(Tensor.set_, (self,), self, *args, **kwargs)
    source = args[0] if args else kwargs.get("source")
    dtype = getattr(source, "_dtype", None)
    if dtype is not None and dtype != self.dtype:
        raise RuntimeError(
            f"Expected a Storage of type {_element_name(self.dtype)} or an UntypedStorage, but got type "
            f"{_element_name(dtype)} for argument 1 'storage'"
        )
    return _set(self, *args, **kwargs)


@_attach
def storage_type(self):
    """The class of storages from before these lost their dtype."""
    if overridden(self):
        return dispatch(Tensor.storage_type, (self,), locals())
    from corten import _legacy
    from corten.storage import TypedStorage, _dtype_to_storage_type_map

    return getattr(_legacy, _dtype_to_storage_type_map().get(self.dtype, ""), TypedStorage)


@_attach
def share_memory_(self):
    """Moves the storage to memory that other processes can map."""
    if overridden(self):
        return dispatch(Tensor.share_memory_, (self,), locals())
    self._typed_storage()._share_memory_()
    return self


@_attach
def module_load(self, other, assign=False):
    """How ``load_state_dict`` puts ``other`` in the place of this tensor."""
    if overridden(self, other):
        return dispatch(Tensor.module_load, (self, other), locals())
    return other.detach() if assign else self.copy_(other).detach()


@_attach
def resize(self, *sizes):
    """Deprecated: a reshaped tensor."""
    if overridden(self):
        return hand_over(Tensor.resize, (self,), self, *sizes)
    from warnings import warn

    warn("non-inplace resize is deprecated", stacklevel=2)
    return _resized(self, _C.Size(sizes[0] if isinstance(sizes[0], (tuple, list)) else sizes))


def _resized(self, sizes):
    if sizes.numel() != self.numel():
        wanted, given = ("x".join(map(str, s)) for s in (sizes, self.shape))
        raise RuntimeError(
            f"requested resize to {wanted} ({sizes.numel()} elements in total), but the given "
            f"tensor has a size of {given} ({self.numel()} elements). autograd's resize can only "
            "change the shape of a given tensor, while preserving the number of elements. "
        )
    return self.reshape(sizes)


@_attach
def resize_as(self, tensor):
    """Deprecated: this tensor reshaped like another."""
    if overridden(self, tensor):
        return dispatch(Tensor.resize_as, (self, tensor), locals())
    from warnings import warn

    warn("non-inplace resize_as is deprecated", stacklevel=2)
    return _resized(self, tensor.size())


def _hand_over_method(method, function, *args):
    """Parameters with defaults of a method are handed over by name, as those of the function are."""
    self, args, kwargs = args
    if function.__name__ == "nonzero":  # one of the operators in PyTorch
        return hand_over(method, (self,), self, *args, **kwargs)
    function = getattr(function, "__wrapped__", function)
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[:code.co_argcount]
    first = len(names) - len(defaults)
    values = {**dict(zip(names[first:], defaults)), **dict(zip(names[1:], args)), **kwargs}
    values.pop("out", None)
    given = [values.pop(name) for name in names[1:first] if name in values]
    return hand_over(method, (self,), self, *given, **values)


def _from_functional(name):
    """A method that is a function of ``corten.functional`` with this tensor first."""

    def method(self, *args, **kwargs):
        from corten import functional

        if overridden(self):
            return _hand_over_method(method, getattr(functional, name), self, args, kwargs)
        return getattr(functional, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"See :func:`corten.{name}`."
    return _attach(method)


#: Methods that come from ``corten.functional``, and the operators that they need.
_FROM_FUNCTIONAL = {
    "nonzero": "nonzero", "norm": "norm", "stft": "stft", "istft": "istft", "unique": "_unique2",
    "unique_consecutive": "unique_consecutive", "lu": "_lu_with_info",
}
for _name, _needed in _FROM_FUNCTIONAL.items():
    if hasattr(_C._functions, _needed):
        _from_functional(_name)
del _name, _needed

_ALIASES = {
    "__div__": "__truediv__", "__rdiv__": "__rtruediv__", "__idiv__": "__itruediv__",
    "__nonzero__": "__bool__", "__long__": "__int__",
}
for _alias, _method in _ALIASES.items():
    setattr(Tensor, _alias, getattr(Tensor, _method))
del _alias, _method


# As a name of the module it would list the module's names.
del __dir__


def _make_wrapper_subclass(cls, size, *given, **options):
    """A tensor without elements, whose operators are those of the ``__torch_dispatch__`` of its class."""
    from corten.utils._wrapper_shapes import make_wrapper

    return make_wrapper(cls, size, *given, **options)


#: What makes tensors that are asked for nothing but their operators.
_native_wrapper = Tensor._make_wrapper_subclass
Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)
del _make_wrapper_subclass
