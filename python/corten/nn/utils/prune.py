"""Pruning: parameters become products of what they were and masks of zeros and ones."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

import corten

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]


class BasePruningMethod(ABC):
    """A way to choose what is pruned; called before ``forward``, it puts the product in its place.

    The parameter goes to ``name_orig``, the mask to the buffer ``name_mask``.
    """

    _tensor_name = None

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask for importances ``t``, within what ``default_mask`` left."""

    def apply_mask(self, module):
        """The product."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes a parameter of a module; what was pruned before stays pruned."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = _method_of(module, name)
        if before is not None:
            key, existing = before
            del module._forward_pre_hooks[key]
            container = PruningContainer(existing)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if before is None:
            parameter = module._parameters[name]
            del module._parameters[name]
            module.register_parameter(name + "_orig", parameter)
            default = corten.ones_like(parameter)
        else:
            default = getattr(module, name + "_mask").detach().clone(
                memory_format=corten.contiguous_format
            )
        try:
            mask = method.compute_mask(importance_scores, default_mask=default)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if before is None:
                parameter = getattr(module, name + "_orig")
                module.register_parameter(name, parameter)
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """A pruned copy of a tensor."""
        scores = t if importance_scores is None else importance_scores
        default = corten.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default)

    def remove(self, module):
        """Makes the product the parameter, for good."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, self._tensor_name):
            delattr(module, self._tensor_name)
        original = module._parameters[self._tensor_name + "_orig"]
        original.data = weight.data
        del module._parameters[self._tensor_name + "_orig"]
        del module._buffers[self._tensor_name + "_mask"]
        setattr(module, self._tensor_name, original)


class PruningContainer(BasePruningMethod):
    """Several ways, one after another."""

    def __init__(self, *args):
        self._pruning_methods = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        if len(args) == 1 and isinstance(args[0], BasePruningMethod):
            methods = args
        for place, method in enumerate(methods):
            if place == 0:
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Adds another way, for the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The mask of the last way, on what the others left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            places = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim + t.dim() if method.dim < 0 else method.dim
            left = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
            places = [slice(None)] * t.dim()
            places[dim] = left
            places = tuple(places)
        elif method.PRUNING_TYPE == "global":
            places = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        result = mask.clone()
        result[places] = method.compute_mask(t[places], default_mask=mask[places]).to(mask.dtype)
        return result


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask


class _Amount(BasePruningMethod):
    """A number of entries, or a share of them."""

    def __init__(self, amount):
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size):
        return _compute_nparams_toprune(self.amount, size)


class RandomUnstructured(_Amount):
    """Prunes random entries."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        count = self._count(t.nelement())
        _validate_pruning_amount(count, t.nelement())
        mask = default_mask.clone(memory_format=corten.contiguous_format)
        if count:
            chosen = corten.topk(corten.rand_like(t).view(-1), k=count)
            mask.view(-1)[chosen.indices] = 0
        return mask


class L1Unstructured(_Amount):
    """Prunes the entries of least magnitude."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        count = self._count(t.nelement())
        _validate_pruning_amount(count, t.nelement())
        mask = default_mask.clone(memory_format=corten.contiguous_format)
        if count:
            chosen = corten.topk(corten.abs(t).view(-1), k=count, largest=False)
            mask.view(-1)[chosen.indices] = 0
        return mask


class RandomStructured(_Amount):
    """Prunes random slices along a dimension."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        super().__init__(amount)
        self.dim = dim

    def _keeping(self, t, default_mask, kept):
        mask = corten.zeros_like(t)
        places = [slice(None)] * t.dim()
        places[self.dim] = kept
        mask[tuple(places)] = 1
        return mask * default_mask.to(dtype=mask.dtype)

    def compute_mask(self, t, default_mask):
        _validate_structured_pruning(t)
        size = t.shape[self.dim]
        count = self._count(size)
        _validate_pruning_amount(count, size)
        if count == 0:
            return default_mask
        threshold = corten.kthvalue(prob := corten.rand(size), k=count).values
        return self._keeping(t, default_mask, (prob > threshold).nonzero().view(-1))


class LnStructured(RandomStructured):
    """Prunes the slices of least norm along a dimension."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def compute_mask(self, t, default_mask):
        _validate_structured_pruning(t)
        size = t.shape[self.dim]
        count = self._count(size)
        _validate_pruning_amount(count, size)
        if count == 0:
            return default_mask
        dim = self.dim % t.dim()
        norms = corten.norm(t, p=self.n, dim=[d for d in range(t.dim()) if d != dim])
        return self._keeping(t, default_mask, corten.topk(norms, k=size - count).indices)


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def _compute_nparams_toprune(amount, tensor_size):
    """A share of a size, or the number itself."""
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _method_of(module, name):
    """The hook that prunes a parameter, with its key."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


def identity(module, name):
    """Makes the mask of a parameter without pruning it; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prunes random entries of a parameter: a number, or a share; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prunes the entries of least magnitude; returns the module."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prunes random slices along a dimension; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prunes the slices of least norm along a dimension; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Prunes by a mask; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes across several parameters, given as pairs of module and name."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = importance_scores or {}
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    values = [scores.get((m, n), getattr(m, n)) for m, n in parameters]
    masks = [
        getattr(m, n + "_mask", corten.ones_like(getattr(m, n))) for m, n in parameters
    ]
    flat = corten.nn.utils.parameters_to_vector(values)
    default = corten.nn.utils.parameters_to_vector(masks)
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    final, start = container.compute_mask(flat, default), 0
    for module, name in parameters:
        parameter = getattr(module, name)
        count = parameter.numel()
        mask = final[start:start + count].view_as(parameter)
        custom_from_mask(module, name, mask=mask)
        start += count


def remove(module, name):
    """Makes a pruned parameter an ordinary one; returns the module."""
    found = _method_of(module, name)
    if found is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module):
    """Whether a parameter of the module, or within it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for _, submodule in module.named_modules() for hook in submodule._forward_pre_hooks.values()
    )


def _validate_pruning_amount_init(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    wrong = isinstance(amount, numbers.Integral) and amount < 0
    share = not isinstance(amount, numbers.Integral)
    if wrong or share and (float(amount) > 1.0 or float(amount) < 0.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a "
                         "non-negative integer")


def _validate_pruning_amount(amount, tensor_size):
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune="
            f"{tensor_size}"
        )


def _validate_structured_pruning(t):
    if len(t.shape) <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {len(t.shape)} dims"
        )
