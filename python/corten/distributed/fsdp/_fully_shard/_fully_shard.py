"""Data parallelism in which every process keeps a part of each parameter."""

from __future__ import annotations

import contextlib
import functools
from abc import ABC, abstractmethod

from corten.distributed._composable.contract import contract

from ._fsdp_api import MixedPrecisionPolicy, OffloadPolicy
from ._fsdp_common import FSDPMeshInfo
from ._fsdp_init import (
    _as_modules, _get_device_from_mesh, _get_managed_modules, _get_managed_states, _get_mesh_info,
    _get_post_forward_mesh_info, _init_default_mesh, _init_param_groups, _mesh_info_of_dims,
    _move_states_to_device, _validate_mesh, _validate_module,
)
from ._fsdp_state import FSDPState, _get_module_fsdp_state

__all__ = [
    "fully_shard", "FSDPModule", "GradientReductionHandle", "UnshardHandle",
    "register_fsdp_forward_method", "get_cls_to_fsdp_cls", "disable_fsdp_module_new_init",
    "share_comm_ctx",
]

cls_to_fsdp_cls: dict = {}
_enable_fsdp_module_new_init = True


def get_cls_to_fsdp_cls():
    """The classes that :func:`fully_shard` made, by those of the modules."""
    return cls_to_fsdp_cls


@contract(state_cls=FSDPState)
def fully_shard(
    module, *, mesh=None, reshard_after_forward=None, shard_placement_fn=None, mp_policy=None,
    offload_policy=None, ignored_params=None, dp_mesh_dims=None,
):
    """Shards the parameters of a module over processes, in place, and gathers them when it runs.

    Parameters become ``DTensor`` with ``Shard(0)``. Those that are not in a module inside to which this was
    applied before are one group: they are gathered by one all-gather before the module runs and before its
    backward, and their gradients are averaged by one reduce-scatter after it. So apply it to the blocks of a
    model first, then to the model. The class of the module becomes a subclass that is a
    :class:`FSDPModule`, too.

    Args:
        module: A module, or a list of modules that are one group.
        mesh: The processes: of one dimension, or of two, over the first of which parameters are replicated;
            by default all.
        reshard_after_forward: Whether parameters are freed between forward and backward; by default in all
            modules but the root. A number is that of processes that share them in between.
        shard_placement_fn: Gives for a parameter ``Shard(dim)``, ``ShardPlacementResult``, or nothing.
        mp_policy: In which dtypes to compute.
        offload_policy: ``CPUOffloadPolicy()`` keeps what is sharded on the CPU.
        ignored_params: Parameters that are left alone.
        dp_mesh_dims: Which dimensions of ``mesh`` are those of the data.

    Returns:
        ``module``.

    Raises:
        ValueError: A parameter has no dimensions, or the mesh has more than two.
        NotImplementedError: A dimension other than the first does not divide evenly.
    """
    mp_policy = MixedPrecisionPolicy() if mp_policy is None else mp_policy
    offload_policy = OffloadPolicy() if offload_policy is None else offload_policy
    _validate_module(module, "fully_shard")
    mesh = _init_default_mesh() if mesh is None else mesh
    _validate_mesh(mesh, dp_mesh_dims)
    mesh_info = (
        _get_mesh_info(mesh) if dp_mesh_dims is None else _mesh_info_of_dims(mesh, dp_mesh_dims)
    )
    device = _get_device_from_mesh(mesh)
    modules = _as_modules(module)
    managed = _get_managed_modules(modules)
    params, buffers = _get_managed_states(managed, set(ignored_params or ()))
    _move_states_to_device(params, buffers, device)
    state = fully_shard.state(modules[0])
    state.init(modules, device, mp_policy, reshard_after_forward is None)
    _init_param_groups(state, params, modules, mesh_info, {
        "device": device, "shard_placement_fn": shard_placement_fn, "mp_policy": mp_policy,
        "offload_policy": offload_policy,
        "reshard_after_forward": True if reshard_after_forward is None else reshard_after_forward,
    })
    for one in modules:
        cls = type(one)
        if cls not in cls_to_fsdp_cls:
            cls_to_fsdp_cls[cls] = type(
                f"FSDP{cls.__name__}", (FSDPModule, cls), {"__deepcopy__": _unimplemented_deepcopy}
            )
        one.__class__ = cls_to_fsdp_cls[cls]
    return module


def _unimplemented_deepcopy(*args, **kwargs):
    raise AssertionError(
        "FSDP does not support deepcopy. Please use state dict for serialization."
    )


@contextlib.contextmanager
def disable_fsdp_module_new_init():
    """Lets ``__new__`` of wrapped classes not initialise what it makes."""
    global _enable_fsdp_module_new_init
    previous, _enable_fsdp_module_new_init = _enable_fsdp_module_new_init, False
    try:
        yield
    finally:
        _enable_fsdp_module_new_init = previous


class UnshardHandle(ABC):
    """What :meth:`FSDPModule.unshard` began."""

    @abstractmethod
    def wait(self):
        """Waits until the parameters are whole."""


class _UnshardHandleImpl(UnshardHandle):
    def __init__(self, groups):
        self._groups = groups

    def wait(self):
        for group in self._groups:
            group.wait_for_unshard()
        self._groups = ()


class GradientReductionHandle(ABC):
    """What :meth:`FSDPModule.finalize_backward` began."""

    @abstractmethod
    def wait(self):
        """Waits until the parameters have their gradients."""


class _GradientReductionHandleImpl(GradientReductionHandle):
    def __init__(self, state):
        self._state = state

    def wait(self):
        if self._state is not None:
            self._state.end_reductions()
            self._state = None


class FSDPModule:
    """The methods of modules that :func:`fully_shard` was applied to. Those that take ``recurse`` apply to the
    modules inside, too."""

    _orig_cls_mro_index = 2

    def __new__(cls, *args, **kwargs):
        # Containers make modules of their own class: without this one.
        original = cls.__mro__[cls._orig_cls_mro_index]
        self = original.__new__(original, *args, **kwargs)
        if _enable_fsdp_module_new_init:
            self.__init__(*args, **kwargs)
        return self

    def _get_fsdp_state(self):
        state = _get_module_fsdp_state(self)
        if state is None:
            raise AssertionError(f"No FSDP state found on {self}")
        return state

    def _groups(self, recurse=False):
        """The groups of parameters of this module, or of all inside."""
        modules = self.modules() if recurse else (self,)
        found = {}
        for module in modules:
            if isinstance(module, FSDPModule):
                for group in module._get_fsdp_state()._fsdp_param_groups:
                    found[id(group)] = group
        return list(found.values())

    def reshard(self):
        """Frees the whole parameters; those registered are the sharded ones."""
        for group in self._groups():
            group.reshard()

    def unshard(self, async_op=False):
        """Gathers the parameters.

        Args:
            async_op: Give an :class:`UnshardHandle` back and do not wait; the module waits when it runs.
        """
        groups = self._groups()
        for group in groups:
            group.unshard(async_op=async_op)
        handle = _UnshardHandleImpl(groups)
        if async_op:
            return handle
        handle.wait()
        return None

    def set_keep_unsharded_storage(self, keep, *, recurse=True):
        """Whether whole parameters keep their memory while they are not used."""
        for group in self._groups(recurse):
            for param in group.fsdp_params:
                param.keep_unsharded_storage = keep

    def reset_iter_state(self):
        """Called on the root after an exception in forward or backward: forgets the pass and its gradients."""
        self._get_fsdp_state().reset_iter_state()

    def set_is_last_backward(self, is_last_backward):
        """Says whether more passes follow before the step. Gradients are reduced in each of them."""
        self._get_fsdp_state()._context.is_last_backward = is_last_backward

    def set_manual_backward_finalization(self, enabled):
        """Called on the root: whether :meth:`finalize_backward` ends backward, instead of its own end.

        Raises:
            RuntimeError: This is not the root, or a pass is under way.
        """
        state = self._get_fsdp_state()
        if state._is_root is False:
            raise RuntimeError("set_manual_backward_finalization must be called on the root FSDP module")
        if state._context.callback_queued or state._context.is_reduction_pending:
            raise RuntimeError("set_manual_backward_finalization must not be called during a pass")
        state._context.is_finalized_by_hand = enabled

    def finalize_backward(self, *, async_op=False):
        """Called on the root after :meth:`set_manual_backward_finalization`: reduces the gradients that backward
        left, and ends it.

        Args:
            async_op: Give a :class:`GradientReductionHandle` back and do not wait.
        """
        state = self._get_fsdp_state()
        state.finalize_backward(async_op)
        return _GradientReductionHandleImpl(state) if async_op else None

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers, *, recurse=True):
        """How many reductions may be under way; of the whole model, before its first pass or after.

        Raises:
            ValueError: ``max_input_buffers`` is not positive.
        """
        if max_input_buffers < 1:
            raise ValueError(f"max_input_buffers should be positive, got {max_input_buffers}")
        self._get_fsdp_state()._context.max_reductions = max_input_buffers

    def set_requires_gradient_sync(self, requires_gradient_sync, *, recurse=True):
        """Whether backward reduces gradients, or adds them up for a later one that does."""
        for group in self._groups(recurse):
            group.reduce_grads = group.all_reduce_grads = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce, *, recurse=True):
        """Whether backward adds gradients up over replicas, or leaves it to a later one."""
        for group in self._groups(recurse):
            group.all_reduce_grads = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward, recurse=True):
        """Whether parameters are freed between forward and backward.

        Raises:
            ValueError: ``reshard_after_forward`` is not a bool.
        """
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(
                f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}"
            )
        for module in self.modules() if recurse else (self,):
            if isinstance(module, FSDPModule):
                module._get_fsdp_state()._auto_reshard_after_forward = False
        for group in self._groups(recurse):
            if isinstance(group.mesh_info, FSDPMeshInfo):
                after = _get_post_forward_mesh_info(reshard_after_forward, group.mesh_info)
                group.post_forward_mesh_info = after
                for param in group.fsdp_params:
                    param.post_forward_mesh_info = after

    def set_reshard_after_backward(self, reshard_after_backward, *, recurse=True):
        """Whether parameters are freed after backward."""
        for group in self._groups(recurse):
            group.reshard_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules):
        """The modules whose parameters are gathered while this one runs."""
        _assert_all_fsdp_modules(modules)
        self._get_fsdp_state()._states_to_forward_prefetch = [
            module._get_fsdp_state() for module in modules
        ]

    def set_modules_to_backward_prefetch(self, modules):
        """The modules whose parameters are gathered during this one's backward; by default the one that ran
        before it."""
        _assert_all_fsdp_modules(modules)
        self._get_fsdp_state()._states_to_backward_prefetch = [
            module._get_fsdp_state() for module in modules
        ]

    def set_custom_all_gather(self, comm):
        """Who gathers; see :class:`AllGather`."""
        for group in self._groups():
            group.all_gather_comm = comm

    def set_custom_reduce_scatter(self, comm):
        """Who reduces; see :class:`ReduceScatter`."""
        for group in self._groups():
            group.reduce_scatter_comm = comm

    def set_all_reduce_hook(self, hook, *, stream=None):
        """A function of the reduced gradients, ``[elements]``, which it may change, before they are averaged."""
        for group in self._groups():
            group.all_reduce_hook = hook

    def set_post_optim_event(self, event):
        """What the root waits for before it gathers parameters, instead of everything that was begun."""
        self._get_fsdp_state()._context.post_optim_event = event

    def set_gradient_divide_factor(self, factor):
        """What sums of gradients are divided by, in place of the number of processes."""
        for group in self._groups():
            group.divide_factor = factor

    def set_reduce_scatter_divide_factor(self, factor):
        """The older name of :meth:`set_gradient_divide_factor`."""
        self.set_gradient_divide_factor(factor)

    def set_force_sum_reduction_for_comms(self, enable):
        """Nothing changes: gradients are always added up and divided then."""

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params, *, recurse=True):
        """Whether parameters without gradients take part in the reduction with zeros, for models of which
        processes use different parts."""
        for group in self._groups(recurse):
            group.reduce_scatter_unused_params = reduce_scatter_unused_params

    def set_unshard_in_backward(self, unshard_in_backward):
        """Whether parameters are gathered before backward; if not, it must not need them."""
        for group in self._groups():
            group.unshard_in_backward = unshard_in_backward

    def _apply(self, fn, *args, **kwargs):
        # What is moved or cast is what is sharded.
        for group in self._groups():
            group._to_sharded()
        result = super()._apply(fn, *args, **kwargs)
        for group in self._groups():
            group.lazy_init()
        return result


def _assert_all_fsdp_modules(modules):
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")


def register_fsdp_forward_method(module, method_name):
    """Lets a method of a module, too, gather parameters as its ``forward`` does. Other modules are left alone.

    Raises:
        ValueError: There is no such method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)
    state = module._get_fsdp_state()

    @functools.wraps(method)
    def wrapped(*args, **kwargs):
        args, kwargs = state._pre_forward(module, args, kwargs)
        return state._post_forward(module, args, method(*args, **kwargs))

    # It is the instance's own, and no method that would get it again.
    object.__setattr__(module, method_name, wrapped)


def share_comm_ctx(modules):
    """Lets several roots, such as the stages of a pipeline in one process, keep one order of what they send.

    Raises:
        ValueError: A module is no :class:`FSDPModule`.
    """
    _assert_all_fsdp_modules(modules)
    if modules:
        shared = modules[0]._get_fsdp_state()._context.reducing
        for module in modules[1:]:
            module._get_fsdp_state()._context.reducing = shared
