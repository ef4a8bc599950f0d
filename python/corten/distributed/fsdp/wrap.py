"""Which modules of a model to wrap: policies, and wrapping by them."""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from typing import Any

from corten import nn

__all__ = [
    "always_wrap_policy", "lambda_auto_wrap_policy", "transformer_auto_wrap_policy",
    "size_based_auto_wrap_policy", "enable_wrap", "wrap", "CustomPolicy", "ModuleWrapPolicy",
]


def always_wrap_policy(*args, **kwargs):
    """Every module is wrapped."""
    return True


class _Policy(ABC):
    """Says which modules are wrapped, and with which arguments."""

    @abstractmethod
    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        """A dictionary of the modules and their arguments."""


class ModuleWrapPolicy(_Policy):
    """Modules of some classes are wrapped."""

    def __init__(self, module_classes):
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        classes = tuple(self._module_classes)
        return {
            module: copy.copy(root_kwargs) for module in root_module.modules()
            if module not in ignored_modules and isinstance(module, classes)
        }

    def __call__(self, module, recurse, *args, **kwargs):
        return _module_wrap_policy(module, recurse, nonwrapped_numel=-1, module_classes=self._module_classes)

    def __repr__(self):
        return f"{super().__repr__()}({self._module_classes_str})"


class CustomPolicy(_Policy):
    """A function of a module says whether to wrap it: ``True``, ``False``, or arguments that differ."""

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        wrapped = {}
        for module in root_module.modules():
            if module in ignored_modules:
                continue
            result = self._lambda_fn(module)
            if not isinstance(result, (dict, bool)):
                raise ValueError(
                    "The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, "
                    f"but it returned {result}"
                )
            if result:
                own = result if isinstance(result, dict) else {}
                wrapped[module] = {**root_kwargs, **own}
        return wrapped


def _module_wrap_policy(module, recurse, nonwrapped_numel, module_classes):
    return True if recurse else isinstance(module, tuple(module_classes))


def lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, lambda_fn):
    """Modules are wrapped of which ``lambda_fn`` says so."""
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls):
    """Modules of the classes in ``transformer_layer_cls`` are wrapped."""
    return _module_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls)


def _or_policy(module, recurse, nonwrapped_numel, policies):
    """Modules are wrapped of which one of ``policies`` says so."""
    return any(
        policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies
    )


def size_based_auto_wrap_policy(
    module, recurse, nonwrapped_numel, min_num_params=int(1e8), force_leaf_modules=None,
    exclude_wrap_modules=None,
):
    """Modules with at least ``min_num_params`` elements of parameters that nothing inside has are wrapped."""
    space = size_based_auto_wrap_policy
    excluded = space.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    leaves = space.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    if nonwrapped_numel < min_num_params:
        return False
    if recurse:
        return not isinstance(module, tuple(leaves))
    return not isinstance(module, tuple(excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {nn.ModuleList, nn.ModuleDict}
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {nn.MultiheadAttention}


class _ConfigAutoWrap:
    """What :func:`enable_wrap` says, while it does."""

    in_autowrap_context = False
    wrapper_cls: Any = None
    kwargs: dict = {}


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """While this lasts, :func:`wrap` wraps modules with ``wrapper_cls``.

    Raises:
        NotImplementedError: Another one lasts.
    """
    config = _ConfigAutoWrap
    if config.in_autowrap_context:
        raise NotImplementedError(
            "You are already within an autowrap context and we currently do not supported nested autowrap."
        )
    config.in_autowrap_context, config.wrapper_cls, config.kwargs = True, wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        config.in_autowrap_context, config.wrapper_cls, config.kwargs = False, None, {}


def wrap(module, **wrap_overrides):
    """The module, wrapped as :func:`enable_wrap` says; without it the module itself."""
    config = _ConfigAutoWrap
    if not config.in_autowrap_context:
        return module
    return _wrap(module, config.wrapper_cls, **{**config.kwargs, **wrap_overrides})


def _wrap(module, wrapper_cls, **kwargs):
    return wrapper_cls(module, **{**kwargs, **getattr(module, "_wrap_overrides", {})})


def _recursive_wrap(
    module, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, only_wrap_children=False,
    **kwargs,
):
    """Wraps the modules inside that a policy names, children first.

    Returns:
        The module, or what it was wrapped in, and how many elements of parameters were wrapped.
    """
    for _, child in module.named_modules():
        if child not in ignored_modules and isinstance(wrapper_cls, type):
            if isinstance(child, wrapper_cls):
                raise AssertionError(f"Child {child} is already an instance of {wrapper_cls}")
    numel = sum(p.numel() for p in module.parameters() if p not in ignored_params)
    if not auto_wrap_policy(module=module, recurse=True, nonwrapped_numel=numel):
        return module, 0
    wrapped_numel = 0
    for name, child in module.named_children():
        if child not in ignored_modules:
            changed, count = _recursive_wrap(
                child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, **kwargs
            )
            setattr(module, name, changed)
            wrapped_numel += count
    rest = numel - wrapped_numel
    if not only_wrap_children and auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=rest):
        return _wrap(module, wrapper_cls, **kwargs), numel
    return module, wrapped_numel


def _post_order_apply(root_module, fn):
    """Replaces the modules inside by what ``fn`` gives for them, where it gives something."""

    def visit(module, name, parent):
        for child_name, child in list(module.named_children()):
            visit(child, child_name, module)
        result = fn(module)
        if result is not None and parent is not None:
            if not isinstance(result, nn.Module):
                raise AssertionError(f"fn should return None or an nn.Module but got {result}")
            setattr(parent, name, result)

    visit(root_module, "", None)


def _construct_wrap_fn(root_module, target_module_to_kwargs, fsdp_fn):
    """What :func:`_post_order_apply` takes, from the result of a policy."""

    def fn(module):
        if module in target_module_to_kwargs and module is not root_module:
            return fsdp_fn(module, **target_module_to_kwargs[module])
        return None

    return fn


def _wrap_module_cls_individually(module, module_classes, recurse, *args, **kwargs):
    """Modules of some classes are wrapped."""
    return True if recurse else isinstance(module, tuple(module_classes))
