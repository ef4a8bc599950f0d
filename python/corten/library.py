"""Operators and kernels of one's own.

``custom_op`` makes an operator out of a function; ``register_fake``, ``register_kernel``,
``register_autograd`` and ``register_vmap`` give it shapes without data, kernels per device, a
derivative and a rule for batches. ``Library``, ``define`` and ``impl`` are the parts it is made of.
"""

from __future__ import annotations

import contextlib

import corten
from corten import _C
from corten._custom_op import (
    CustomOpDef, autocast_kernel, autograd_kernel, check_autocast, custom_op, implement, take_over,
    vmap_kernel,
)
from corten._dispatch_keys import DispatchKeySet
from corten._library import fake_impl
from corten._library.infer_schema import infer_schema
from corten.sparse import _entries as _sparse

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl",
    "impl_abstract", "infer_schema", "register_autocast", "register_autograd", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap",
]

#: Namespaces of the registry beside ``aten``.
_NATIVE = ("torchvision", "image")

_DEVICE_KEYS = {
    "cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "xpu": "XPU", "mps": "MPS", "hpu": "HPU",
    "default": "CompositeExplicitAutograd", "CompositeExplicitAutograd": "CompositeExplicitAutograd",
}


def fallthrough_kernel():
    """Stands for a kernel that lets calls pass to the next key."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def _qualified(op):
    """``namespace::name.overload`` of an operator in any of its forms."""
    if isinstance(op, CustomOpDef):
        return op._qualname
    name = getattr(op, "_qualified", None) or getattr(op, "_qualified_op_name", None) or op
    if not isinstance(name, str) or "::" not in name:
        raise ValueError(f"expected an operator or its qualified name 'namespace::name', got {op!r}")
    return name.removesuffix(".default")


#: What gives the shapes of operators that are not defined yet, by their names.
_fakes_to_come = {}


class Library:
    """Operators and kernels that are added to a namespace, for as long as the object lives.

    ``kind`` is "DEF" for a new namespace, "FRAGMENT" for more operators of one, "IMPL" for kernels
    only.
    """

    def __init__(self, ns, kind, dispatch_key=""):
        self._kernels, self._sparse, self._own_fallbacks = [], [], []
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("prim", "aten") and kind == "DEF":
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please "
                "use kind 'FRAGMENT' to add operators to it, or 'IMPL' to add kernels"
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema, alias_analysis="", *, tags=()):
        """Defines an operator from its schema without the namespace; gives its name."""
        if self.kind == "IMPL":
            raise RuntimeError("define() cannot be called inside an IMPL library")
        qualified = _C._library_define(self.ns, schema)
        _forget(qualified)
        return qualified.partition("::")[2]

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """Makes a function the kernel of an operator for a dispatch key."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        name = getattr(op_name, "_qualified", op_name).removesuffix(".default")
        name = name if "::" in name else f"{self.ns}::{name}"
        if fn is fallthrough_kernel:
            self._kernels.append(_C._library_fallthrough(name, key))
        elif with_keyset:
            self._kernels.append(_C._library_impl(name, key, _with_keys(fn), True))
        else:
            self._kernels.append(implement(name, key, fn))
            if key.startswith("Sparse"):
                self._sparse.append(name)

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        """Makes a function the kernel of all operators that have none of their own at a dispatch key. It is given
        the operator before the arguments, and the set of keys before both where it is wanted."""
        key = dispatch_key or self.dispatch_key
        if not key:
            raise RuntimeError("a fallback needs a dispatch key")
        if self.ns != "_":
            raise RuntimeError(
                f"Fallback can only be registered using library fragment on the global namespace \"_\" but it is {self.ns}"
            )
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if fn is fallthrough_kernel:
            _C._library_fallback(key, None)
        else:
            _C._library_fallback(key, _fallback_kernel(fn, with_keyset), True)
        _fallbacks[key] = fn
        self._own_fallbacks.append(key)

    def _destroy(self):
        for kernel in self._kernels:
            _C._library_remove(kernel)
        self._kernels.clear()
        for key in self._own_fallbacks:
            _fallbacks.pop(key, None)
            _C._library_remove_fallback(key)
        self._own_fallbacks.clear()
        for name in self._sparse:
            _sparse.replaced(name, -1)
        self._sparse.clear()

    def __del__(self):
        if _C is not None:
            self._destroy()

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"


#: Functions that are the kernels of all operators at a key.
_fallbacks = {}


def _with_keys(function):
    def kernel(word, *args, **kwargs):
        return function(DispatchKeySet.from_raw_repr(word), *args, **kwargs)

    return kernel


def _fallback_kernel(function, with_keyset):
    from corten.utils._python_dispatch import _overload

    def kernel(name, word, *args, **kwargs):
        if with_keyset:
            return function(DispatchKeySet.from_raw_repr(word), _overload(name), *args, **kwargs)
        return function(_overload(name), *args, **kwargs)

    return kernel


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    """A block with a library, whose kernels are taken back at the end."""
    made = Library(*args, **kwargs)
    try:
        yield made
    finally:
        made._destroy()


def _forget(qualified):
    """Lets ``corten.ops`` look an operator up again, now that it is defined."""
    namespace, _, rest = qualified.partition("::")
    vars(getattr(corten.ops, namespace)).pop(rest.partition(".")[0], None)
    if qualified in _fakes_to_come:
        implement(qualified, "Meta", _fakes_to_come.pop(qualified))


def define(qualname, schema, *, lib=None, tags=()):
    """Defines ``namespace::name`` with a schema such as ``"(Tensor x) -> Tensor"``."""
    namespace, separator, name = qualname.partition("::")
    if not separator:
        raise ValueError(f"Expected qualname to be of the form 'namespace::name', got {qualname}")
    if not schema.startswith("("):
        raise ValueError(f"define(qualname, schema, ...): expected schema to look like e.g. "
                         f'"(Tensor x) -> Tensor" but got "{schema}"')
    _forget(_C._library_define(namespace, name + schema))


def impl(qualname, types, func=None, *, lib=None):
    """Registers a kernel for device types, or for a dispatch key by its name."""

    def register(function):
        for one in (types,) if isinstance(types, str) else types:
            key = _DEVICE_KEYS.get(one, one)
            implement(_qualified(qualname), key, function)
        return function

    return register if func is None else register(func) and None


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Registers a kernel for device types, ``None`` for all."""
    if isinstance(op, CustomOpDef):
        return op.register_kernel(device_types, func)
    return impl(_qualified(op), device_types or "default", func, lib=lib)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """Registers what gives shapes, dtypes and strides of the results without data, of an operator that may
    be defined later."""
    if isinstance(op, CustomOpDef):
        return op.register_fake if func is None else op.register_fake(func)

    def register(function):
        name = _qualified(op)
        fake_impl.register(name, function)
        if _C._op_overloads(name.partition(".")[0]):
            implement(name, "Meta", function)
        else:
            _fakes_to_come[name] = function
        return function

    return register if func is None else register(func)


impl_abstract = register_fake
get_ctx = fake_impl.get_ctx


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """Registers the derivative of an operator.

    ``backward(ctx, *grads)`` gives one gradient per input; ``setup_context(ctx, inputs, output)``
    keeps what it needs. Operators of torchvision keep the derivative that they have in the registry: what
    the package registers for them is the same by way of Python, and has no second derivative.
    """
    if isinstance(op, CustomOpDef):
        op.register_autograd(backward, setup_context=setup_context)
        return
    name = _qualified(op)
    if name.partition("::")[0] in _NATIVE:
        return
    _C._library_impl(name, "Autograd", autograd_kernel(name, lambda: (backward, setup_context)))


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Lets an operator cast the floating-point tensors it gets to a dtype, where casts are on."""
    if isinstance(op, CustomOpDef):
        return op.register_autocast(device_type, cast_inputs)
    check_autocast(device_type)
    name = _qualified(op)
    if device_type == "cpu":
        _C._library_impl(name, "AutocastCPU", autocast_kernel(name, cast_inputs))


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """Registers ``func(mode, func, types, args, kwargs)``, which takes calls of an operator over
    from dispatch modes of a class."""
    if isinstance(op, CustomOpDef):
        return op.register_torch_dispatch(torch_dispatch_class, func)
    return take_over(_qualified(op), torch_dispatch_class, func)


def register_vmap(op, func=None, /, *, lib=None):
    """Registers ``func(info, in_dims, *args) -> (output, out_dims)``, which acts on batches."""
    if isinstance(op, CustomOpDef):
        return op.register_vmap if func is None else op.register_vmap(func)

    def register(function):
        name = _qualified(op)
        _C._library_impl(name, "FuncTorchBatched", vmap_kernel(name, function))
        return function

    return register if func is None else register(func)
