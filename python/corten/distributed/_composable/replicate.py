"""Data parallelism of a module in place, by the means of ``DistributedDataParallel``."""

from __future__ import annotations

import corten
from corten import nn
from corten.distributed._composable_state import _State
from corten.nn.parallel import DistributedDataParallel

from .contract import _get_registry, contract


def _is_fully_sharded(module):
    return "fully_shard" in (_get_registry(module) or {})


class _ReplicateState(_State):
    """The reducer of a module's gradients, which is made when the module first runs."""

    def __init__(self):
        super().__init__()
        self._ddp = None
        self._no_sync = False
        self._comm_hook_args = []
        self._init_args = None

    def record_init_args(self, module, ignored_modules, kwargs):
        """Keeps what the reducer is made of."""
        self._init_args = (module, ignored_modules, dict(kwargs))

    def _parameters(self, module, ignored):
        """The parameters that are not in ignored modules or sharded."""
        if module in ignored or _is_fully_sharded(module):
            return
        yield from module.parameters(recurse=False)
        for child in module.children():
            yield from self._parameters(child, ignored)

    def lazy_init(self):
        """Makes the reducer."""
        module, ignored, kwargs = self._init_args
        if "device_id" in kwargs:
            device = kwargs.pop("device_id")
            is_cpu = isinstance(device, corten.device) and device.type == "cpu"
            kwargs["device_ids"] = None if is_cpu else [device]
        parameters = dict.fromkeys(self._parameters(module, ignored))
        self._ddp = DistributedDataParallel(nn.ParameterList(parameters), **kwargs)
        for args, hook_kwargs in self._comm_hook_args:
            self._ddp.register_comm_hook(*args, **hook_kwargs)
        self._comm_hook_args.clear()

    def forward_pre_hook(self, module, args, kwargs):
        """Before the module runs."""
        if self._ddp is None:
            self.lazy_init()
        self._ddp.require_backward_grad_sync = not self._no_sync
        return self._ddp._pre_forward(*args, **kwargs)

    def forward_post_hook(self, module, input, output):
        """After the module ran."""
        return self._ddp._post_forward(output)


def _unimplemented_deepcopy(*args, **kwargs):
    raise AssertionError(
        "DDP does not support deepcopy. Please use state dict for serialization."
    )


class DDP:
    """The methods of modules that :func:`replicate` was applied to."""

    def __new__(cls, *args, **kwargs):
        # Containers make modules of their own class: without this one.
        original = cls.__mro__[2]
        return original.__new__(original, *args, **kwargs)

    def set_requires_gradient_sync(self, requires_gradient_sync):
        """Whether backward averages gradients, or adds them up for a later one that does."""
        replicate.state(self)._no_sync = not requires_gradient_sync

    def register_comm_hook(self, *args, **kwargs):
        """As of ``DistributedDataParallel``."""
        state = replicate.state(self)
        if state._ddp is None:
            state._comm_hook_args.append((args, kwargs))
        else:
            state._ddp.register_comm_hook(*args, **kwargs)


@contract(state_cls=_ReplicateState)
def replicate(module, ignored_modules=None, **kwargs):
    """Averages the gradients of a module over processes, in place.

    Args:
        module: The module; its class becomes a subclass that is a :class:`DDP`, too.
        ignored_modules: Modules inside whose gradients are left alone.
        **kwargs: Those of ``DistributedDataParallel``; ``device_id`` for ``device_ids``.

    Returns:
        ``module``.

    Raises:
        RuntimeError: :func:`fully_shard` was applied to it, or ``device_id`` is no device.
    """
    if "device_id" in kwargs and not isinstance(kwargs["device_id"], (int, corten.device)):
        raise RuntimeError(
            f"Expected device_id to be int or torch.device, but got {type(kwargs['device_id'])}"
        )
    if _is_fully_sharded(module):
        raise RuntimeError(
            "Cannot apply `replicate()` on a Module already managed by `fully_shard`"
        )
    state = replicate.state(module)
    state.record_init_args(module, set(ignored_modules or ()), kwargs)
    module.register_forward_pre_hook(state.forward_pre_hook, with_kwargs=True)
    module.register_forward_hook(state.forward_post_hook)
    cls = type(module)
    module.__class__ = type(f"DDP{cls.__name__}", (DDP, cls), {"__deepcopy__": _unimplemented_deepcopy})
    return module
