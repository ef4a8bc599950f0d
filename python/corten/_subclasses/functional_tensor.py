"""Functional tensors as a class of tensors, and the mode that gives them behaviour below autograd and other modes."""

from __future__ import annotations

import contextlib

import corten
from corten import _C
from corten import _functionalization as _f
from corten._functionalization._state import _FUNCTIONALIZE, state_of, thread
from corten.utils._python_dispatch import (
    TorchDispatchMode, _detect_infra_mode, _disable_infra_mode, _TorchDispatchModeKey, autograd_would_have_decomposed,
)
from corten.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only

__all__ = [
    "BaseFunctionalizeAPI", "CppFunctionalizeAPI", "FunctionalTensor", "FunctionalTensorMode", "FunctorchFunctionalizeAPI",
    "PythonFunctionalizeAPI", "disable_functional_mode", "dispatch_functionalize",
]

_FUNCTIONAL = _TorchDispatchModeKey.FUNCTIONAL


class FunctionalTensor(_C.Tensor):
    """A tensor that stands for a value. Its operators are those of :class:`FunctionalTensorMode`, which must be in
    force."""

    @staticmethod
    def __new__(cls, elem, mode=None):
        made = _C.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype,
            layout=elem.layout, device=elem.device, requires_grad=elem.requires_grad,
        )
        made.elem = elem
        made._inference_mode_base = None
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if _unknown(types):
            return NotImplemented
        if str(func) == "aten.detach.default":
            return args[0]
        raise RuntimeError(
            "Attempting to use FunctionalTensor on its own. Instead, please use it with a corresponding "
            "FunctionalTensorMode()"
        )

    def __repr__(self, *, tensor_contents=None):
        return f"FunctionalTensor({self.elem!r})"

    @staticmethod
    def to_functional(x):
        """A functional tensor that stands for ``x``."""
        if _f._is_functional_tensor(x):
            raise AssertionError("x must not already be a functional tensor")
        mode = _detect_infra_mode(_FUNCTIONAL)
        if mode is None:
            raise AssertionError("functional_mode must not be None")
        made = FunctionalTensor(_f._to_functional_tensor(x.detach() if x.requires_grad else x), mode)
        if x.requires_grad:
            made.requires_grad_()
            if not x.is_leaf:
                made = made.view_as(made)
        state_of(made.elem).value = state_of(made.elem).group.base = x
        return made

    def from_functional(self):
        """The value."""
        _f._sync(self.elem)
        return _f._from_functional_tensor(self.elem)

    def is_base_tensor(self):
        """Whether the tensor is no view."""
        return not state_of(self.elem).steps

    def replace_(self, output):
        """Lets the tensor stand for another value."""
        _f._functionalize_replace(self.elem, output)

    def commit_update(self):
        """Tells the aliases of the tensor that it has another value."""
        _f._functionalize_commit_update(self.elem)

    def sync(self):
        """Brings the tensor up to date."""
        _f._functionalize_sync(self.elem)

    def mark_mutation_hidden_from_autograd(self):
        """Says that the last write was not recorded for differentiation."""
        _f._functionalize_mark_mutation_hidden_from_autograd(self.elem)

    def tolist(self):
        """The elements as nested lists."""
        return self.elem.item() if self.elem.dim() == 0 else [one.tolist() for one in self.elem]

    def __bool__(self):
        return bool(self.item())


def _unknown(types):
    """Whether a call has tensors of classes that say themselves what it is."""
    return any(
        kind not in (_C.Tensor, corten.nn.Parameter, FunctionalTensor) and not issubclass(kind, FunctionalTensor)
        and kind.__torch_dispatch__ is not _C._disabled_torch_dispatch_impl and kind.__name__ != "FakeTensor"
        for kind in types
    )


class FunctionalTensorMode(TorchDispatchMode):
    """A block in which operators of functional tensors write to nothing, and factories make functional tensors."""

    def __init__(self, pre_dispatch=False, export=False, _allow_token_discovery=False, _keep_input_mutations=True):
        super().__init__()
        self.pre_dispatch, self.export = pre_dispatch, export
        self._allow_token_discovery, self._keep_input_mutations = _allow_token_discovery, _keep_input_mutations
        self._mode_key = _FUNCTIONAL
        self._tokens, self._tokens_forward_output = {}, {}
        self._entered = []

    @classmethod
    def is_infra_mode(cls):
        """Whether the mode belongs to the library itself: it does."""
        return True

    def __enter__(self):
        self._entered.append(_detect_infra_mode(_FUNCTIONAL) is None)
        return super().__enter__() if self._entered[-1] else self

    def __exit__(self, kind, value, traceback):
        if self._entered.pop():
            super().__exit__(kind, value, traceback)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if _unknown(types):
            return NotImplemented
        kwargs = kwargs or {}
        if self._decomposes(func, args, kwargs):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        inner = tree_map_only(FunctionalTensor, lambda one: one.elem, (args, kwargs))
        result = _at_key(func, *inner)
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, FunctionalTensor):
                _follow(leaf)
        outer = {id(one.elem): one for one in tree_leaves((args, kwargs)) if isinstance(one, FunctionalTensor)}

        def wrapped(leaf):
            if not isinstance(leaf, _C.Tensor) or state_of(leaf) is None:
                return leaf
            # What is written to is returned itself.
            return outer.get(id(leaf)) if id(leaf) in outer else FunctionalTensor(leaf, self)

        return tree_map(wrapped, result)

    def _decomposes(self, func, args, kwargs):
        if not hasattr(func, "_can_decompose") or not func._can_decompose():
            return False
        schema = func._schema
        if schema.is_mutable or any(one.alias_info is not None for one in schema.arguments):
            return True
        if self.export:
            return not self.pre_dispatch
        return autograd_would_have_decomposed(func, tree_flatten((args, kwargs))[0])


def _follow(tensor):
    """Gives a tensor the sizes and strides that a call gave what it stands for."""
    elem = tensor.elem
    if tensor.size() != elem.size() or tensor.stride() != elem.stride():
        _C._set_geometry(tensor, elem.size(), elem.stride(), elem.storage_offset())


def _at_key(func, args, kwargs):
    """The result of a call at the key ``Functionalize``, with views left as they are."""
    before, include = thread.reapply_views, _C._tls_key_sets()
    thread.reapply_views = True
    try:
        _C._set_tls_key_sets(include[0] | _FUNCTIONALIZE, include[1] & ~_FUNCTIONALIZE)
        if not hasattr(func, "_qualified"):
            return func(*args, **kwargs)
        result = _C._op_call_at(func._qualified, _FUNCTIONALIZE | _C._keyset_of("CPU"), *args, **kwargs)
        return result if func._results is None else func._results(result)
    finally:
        thread.reapply_views = before
        _C._set_tls_key_sets(*include)


def disable_functional_mode():
    """A block in which the mode of functional tensors is not in force."""
    return _disable_infra_mode(_FUNCTIONAL)


@contextlib.contextmanager
def _enabled(mode):
    with mode:
        yield


def dispatch_functionalize(func, mode=None):
    """As :func:`corten.func.functionalize`, below autograd and below other modes."""
    mode = FunctionalTensorMode() if mode is None else mode

    def outside(leaf):
        return leaf.from_functional() if isinstance(leaf, FunctionalTensor) else leaf

    def inside(leaf):
        return FunctionalTensor.to_functional(leaf) if isinstance(leaf, _C.Tensor) and not isinstance(
            leaf, FunctionalTensor) else leaf

    def inner(*args, **kwargs):
        with _disable_infra_mode(_FUNCTIONAL), _enabled(mode):
            args, kwargs = tree_map(inside, (args, kwargs))
            result = func(*args, **kwargs)
            return tree_map(outside, result)

    return inner


class BaseFunctionalizeAPI:
    """What operators that call functions need in order to be functional."""

    def wrap_tensors(self, args):
        """Functional tensors in the places of tensors."""
        raise NotImplementedError

    def unwrap_tensors(self, args):
        """Values in the places of functional tensors."""
        raise NotImplementedError

    def functionalize(self, inner_f):
        """A function of values that runs another one on functional tensors."""
        raise NotImplementedError

    def redispatch_to_next(self):
        """A block in which calls are those of values."""
        raise NotImplementedError

    def replace(self, input_tensor, output_tensor):
        """Lets a functional tensor stand for another value."""
        _f._functionalize_replace(_elem(input_tensor), output_tensor)

    def commit_update(self, tensor):
        """Tells the aliases of a functional tensor that it has another value."""
        _f._functionalize_commit_update(_elem(tensor))

    def sync(self, tensor):
        """Brings a functional tensor up to date."""
        _f._functionalize_sync(_elem(tensor))

    def mark_mutation_hidden_from_autograd(self, tensor):
        """Says that the last write was not recorded for differentiation."""
        _f._functionalize_mark_mutation_hidden_from_autograd(_elem(tensor))


def _elem(tensor):
    return tensor.elem if isinstance(tensor, FunctionalTensor) else tensor


def _is_functional(leaf):
    return isinstance(leaf, _C.Tensor) and _f._is_functional_tensor(leaf)


def _synced(leaf):
    _f._sync(leaf)
    return _f._from_functional_tensor(leaf)


class PythonFunctionalizeAPI(BaseFunctionalizeAPI):
    """The functions for :class:`FunctionalTensor`."""

    def __init__(self, mode=None, pre_dispatch=False):
        self.mode = FunctionalTensorMode() if mode is None else mode
        self.pre_dispatch = pre_dispatch

    def wrap_tensors(self, args):
        """Functional tensors in the places of tensors."""
        with self.mode:
            return tree_map_only(_C.Tensor, FunctionalTensor.to_functional, args)

    def unwrap_tensors(self, args):
        """Values in the places of functional tensors."""
        return tree_map_only(FunctionalTensor, FunctionalTensor.from_functional, args)

    def functionalize(self, inner_f):
        """A function of values that runs another one on functional tensors."""
        return dispatch_functionalize(inner_f, self.mode)

    def redispatch_to_next(self):
        """A block in which calls are those of values."""
        return disable_functional_mode()


class CppFunctionalizeAPI(BaseFunctionalizeAPI):
    """The functions for functional tensors without a class of their own."""

    def wrap_tensors(self, args):
        """Functional tensors in the places of tensors."""
        return tree_map_only(_C.Tensor, _f._to_functional_tensor, args)

    def unwrap_tensors(self, args):
        """Values in the places of functional tensors."""
        return tree_map(lambda leaf: _synced(leaf) if _is_functional(leaf) else leaf, args)

    def functionalize(self, inner_f):
        """A function of values that runs another one on functional tensors."""
        return _f.functionalize(inner_f)

    def redispatch_to_next(self):
        """A block in which calls are those of values."""
        return _f.Below(_f.OUTSIDE)


class FunctorchFunctionalizeAPI(CppFunctionalizeAPI):
    """The functions for a call of :func:`corten.func.functionalize`."""

    def __init__(self, interpreter=None):
        self.interpreter = interpreter

    def functionalize(self, inner_f):
        """A function of values that runs another one on functional tensors."""
        level = thread.levels[-1] if thread.levels else None
        views = level is None or level.reapply_views
        return _f.functionalize(inner_f, remove="mutations" if views else "mutations_and_views")
