"""Modules that do not keep what their backward needs, or keep it on the CPU. State dictionaries and names of
parameters are those of what is wrapped."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from enum import Enum, auto

from corten import nn
from corten.autograd.graph import save_on_cpu
from corten.utils.checkpoint import checkpoint as _run_checkpointed

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """Which checkpointing of :mod:`corten.utils.checkpoint`."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


def _renamed(state_dict, old, new):
    """Lets keys that begin with ``old`` begin with ``new``."""
    for key in [key for key in state_dict if key.startswith(old)]:
        state_dict[new + key[len(old):]] = state_dict.pop(key)


class ActivationWrapper(nn.Module, ABC):
    """A module with another one inside, which it stands for."""

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._post_state_dict_hook)
        self.register_load_state_dict_pre_hook(self._pre_load_state_dict_hook)

    @abstractmethod
    def forward(self, *args, **kwargs):
        """Runs the module inside."""

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_CHECKPOINT_WRAPPED_MODULE), name)

    def __getitem__(self, key):
        return self._checkpoint_wrapped_module.__getitem__(key)

    def named_parameters(self, *args, **kwargs):
        """The parameters with the names that they have without wrappers."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter

    @staticmethod
    def _post_state_dict_hook(module, state_dict, prefix, *args):
        _renamed(state_dict, f"{prefix}{_CHECKPOINT_PREFIX}", prefix)
        return state_dict

    @staticmethod
    def _pre_load_state_dict_hook(module, state_dict, prefix, *args):
        _renamed(state_dict, prefix, f"{prefix}{_CHECKPOINT_PREFIX}")


class OffloadWrapper(ActivationWrapper):
    """Keeps on the CPU what backward needs."""

    def forward(self, *args, **kwargs):
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Runs the module inside once more when backward needs it; see :func:`checkpoint_wrapper`."""

    def __init__(
        self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs
    ):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = functools.partial(
                _run_checkpointed, use_reentrant=checkpoint_impl == CheckpointImpl.REENTRANT
            )
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args, **kwargs):
        if self.checkpoint_impl != CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)
        # The reentrant form takes no keywords.
        names, count = list(kwargs), len(args)

        def run(*values):
            return self._checkpoint_wrapped_module(*values[:count], **dict(zip(names, values[count:])))

        return self.checkpoint_fn(run, *args, *kwargs.values())


def offload_wrapper(module):
    """The module, which keeps on the CPU what backward needs."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs
):
    """The module, which does not keep what backward needs.

    Args:
        module: The module.
        checkpoint_impl: Which checkpointing.
        checkpoint_fn: In place of it, a function of a module and its arguments.
        **checkpoint_fn_kwargs: Further arguments of that function.
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda _: True, auto_wrap_policy=None
):
    """Replaces modules inside ``model``, not itself, by what ``checkpoint_wrapper_fn`` makes of them.

    Args:
        model: The model.
        checkpoint_wrapper_fn: Wraps a module.
        check_fn: Says of a module whether to wrap it.
        auto_wrap_policy: In place of that, a policy of :mod:`corten.distributed.fsdp.wrap`.

    Raises:
        ValueError: The policy is none.
    """
    from corten.distributed.fsdp.wrap import (
        _construct_wrap_fn, _Policy, _post_order_apply, _recursive_wrap, lambda_auto_wrap_policy,
    )

    policy = auto_wrap_policy
    if policy is None:
        policy = functools.partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    if callable(policy):
        _recursive_wrap(
            model, policy, checkpoint_wrapper_fn, ignored_modules=set(), ignored_params=set(),
            only_wrap_children=True,
        )
        return
    if not isinstance(policy, _Policy):
        raise ValueError(f"Expected {policy} to be callable or be a pre-defined wrap policy")
    wrapped = policy._run_policy(model, ignored_modules=set(), root_kwargs={})
    _post_order_apply(model, _construct_wrap_fn(model, wrapped, checkpoint_wrapper_fn))
