"""Parameters computed from other parameters."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import contextmanager

import corten
from corten.nn.modules.container import ModuleDict, ModuleList
from corten.nn.parameter import Buffer, Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache_depth = 0
_cache = {}


@contextmanager
def cached():
    """Computes each parametrised tensor once while the context lasts."""
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if _cache_depth == 0:
            _cache.clear()


def _register_tensor(module, name, tensor):
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _set_value(holder, tensor):
    """Makes `holder` take over the value of `tensor`, shape and dtype included."""
    with corten.no_grad():
        if holder.shape == tensor.shape and holder.dtype == tensor.dtype:
            holder.set_(tensor.detach().clone())
        else:
            holder.data = tensor.detach()


class ParametrizationList(ModuleList):
    """The steps that compute one tensor, and the tensors they start from.

    ``original`` (or ``original0``, ``original1``, …) hold what is trained.
    """

    def __init__(self, modules, original, unsafe=False):
        modules = list(modules)
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        given_shape, given_dtype = original.shape, original.dtype
        start = self._inverted(original, registering=True)
        self.is_tensor = isinstance(start, corten.Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            if original.dtype != start.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {start.dtype}"
                )
            if start is not original:
                _set_value(original, start)
            _register_tensor(self, "original", original)
        else:
            for i, tensor in enumerate(start):
                if not isinstance(tensor, corten.Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                        f"tuple...). Got element {i} of the sequence with type "
                        f"{type(tensor).__name__}."
                    )
                if isinstance(original, Parameter):
                    needs_grad = original.requires_grad and tensor.is_floating_point()
                    tensor = Parameter(tensor, requires_grad=needs_grad)
                tensor.requires_grad_(original.requires_grad and tensor.is_floating_point())
                _register_tensor(self, f"original{i}", tensor)
        if not unsafe:
            self._check_result(given_shape, given_dtype)

    def _inverted(self, tensor, registering=False):
        value = tensor
        with corten.no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        # What is registered starts from the tensor itself where it has no inverse.
                        if not registering:
                            raise
        if not isinstance(value, (corten.Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(value).__name__}"
            )
        return value

    def _check_result(self, shape, dtype):
        result = self()
        if not isinstance(result, corten.Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
        if result.dtype != dtype:
            raise ValueError(
                "Registering a parametrization may not change the dtype of the tensor, unless "
                f"`unsafe` flag is enabled.\nunparametrized dtype: {dtype}\nparametrized dtype: "
                f"{result.dtype}"
            )
        if result.shape != shape:
            raise ValueError(
                "Registering a parametrization may not change the shape of the tensor, unless "
                f"`unsafe` flag is enabled.\nunparametrized shape: {shape}\nparametrized shape: "
                f"{result.shape}"
            )

    def _originals(self):
        if self.is_tensor:
            return (self.original,)
        return tuple(getattr(self, f"original{i}") for i in range(self.ntensors))

    def right_inverse(self, value):
        """Sets the originals so that the computed tensor is ``value``, as near as may be."""
        for module in self:
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(
                    f"parametrization {type(module).__name__} does not implement right_inverse."
                )
        start = self._inverted(value)
        start = (start,) if self.is_tensor else start
        if len(start) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got "
                f"a sequence of length {len(start)}."
            )
        for original, tensor in zip(self._originals(), start):
            if tensor.dtype != original.dtype:
                raise ValueError(
                    f"The tensor returned by `right_inverse` has dtype {tensor.dtype} while "
                    f"`original` has dtype {original.dtype}"
                )
            _set_value(original, tensor)

    def forward(self):
        first, *rest = self
        value = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _parametrized_property(name):
    def get(self):
        if not _cache_depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def set(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(get, set)


def _own_class(module):
    """Gives `module` a class of its own, on which properties can be put."""
    base = type(module)

    def get_state(self):
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    def deep_copy(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        twin = self.__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__ = copy.deepcopy(self.__dict__, memo)
        return twin

    members = {"__getstate__": get_state, "__deepcopy__": deep_copy}
    if hasattr(base, "__deepcopy__"):
        del members["__deepcopy__"]
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), members)
    module.parametrizations = ModuleDict()


def is_parametrized(module, tensor_name=None):
    """Whether a module has parametrisations, at all or of one tensor."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Makes ``module.tensor_name`` the result of ``parametrization`` over a trained original."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        steps = module.parametrizations[tensor_name]
        if not unsafe:
            _check_added(module, tensor_name, parametrization)
        steps.append(parametrization)
        steps.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        steps = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _own_class(module)
        setattr(type(module), tensor_name, _parametrized_property(tensor_name))
        module.parametrizations[tensor_name] = steps
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_added(module, tensor_name, parametrization):
    before = getattr(module, tensor_name)
    after = parametrization(before)
    if not isinstance(after, corten.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(after, what) != getattr(before, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless "
                f"the `unsafe` flag is enabled.\nmodule.{tensor_name}.{what}: {getattr(before, what)}\n"
                f"parametrization(module.{tensor_name}).{what}: {getattr(after, what)}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, corten.Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(before, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as "
                f"module.{tensor_name}, unless the `unsafe` flag is enabled.\n"
                f"module.{tensor_name}.{what}: {getattr(before, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Makes ``module.tensor_name`` a plain tensor again: the computed one, or the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    steps = module.parametrizations[tensor_name]
    originals = steps._originals()
    if leave_parametrized:
        with corten.no_grad():
            value = getattr(module, tensor_name)
        trained = any(isinstance(t, Parameter) for t in originals)
        if steps.is_tensor:
            original = originals[0]
            if type(original) in (corten.Tensor, Parameter, Buffer):
                _set_value(original, value)
        elif trained:
            original = Parameter(value.detach(), requires_grad=originals[0].requires_grad)
        else:
            original = value.detach()
    elif steps.is_tensor:
        original = originals[0]
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_tensor(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class a module had before it was parametrised."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Gives ``to_module`` the parametrisations of ``from_module`` and their originals."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        steps = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for step in steps:
            register_parametrization(to_module, name, step)
        for key, value in steps._parameters.items():
            setattr(to_module.parametrizations[name], key, value)
    return to_module

