"""A wrapper that shards the parameters of a module over processes: those of one wrapped module are one flat
parameter. :func:`fully_shard` does that for each parameter, in place."""

from __future__ import annotations

import contextlib
import math
import warnings
from enum import Enum, auto

import corten
import corten.distributed as dist
from corten import nn

from . import _init_utils, _optim_utils, _state_dict_utils
from ._common_utils import FSDP_PREFIX, FSDP_WRAPPED_MODULE, _get_module_fsdp_state, clean_tensor_name
from ._flat_param import FLAT_PARAM  # noqa: F401
from ._unshard_param_utils import check_arguments, whole_params
from .api import (  # noqa: F401
    BackwardPrefetch, CPUOffload, FullOptimStateDictConfig, FullStateDictConfig,
    LocalOptimStateDictConfig, LocalStateDictConfig, MixedPrecision, OptimStateDictConfig,
    ShardedOptimStateDictConfig, ShardedStateDictConfig, ShardingStrategy, StateDictConfig,
    StateDictSettings, StateDictType,
)

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

#: The settings of dictionaries of each kind.
_CONFIGS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


class OptimStateKeyType(Enum):
    """What the keys of an optimizer's state are."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


class FullyShardedDataParallel(nn.Module):
    """Runs a module whose parameters are spread over processes, and gathered for as long as it runs.

    Args:
        module: What is wrapped; its own parameters, and those of modules inside that are not wrapped, are one flat
            parameter.
        process_group: Between which processes; with hybrid strategies those within a machine and those across.
        sharding_strategy: What is sharded; by default everything.
        cpu_offload: Whether parts are kept on the CPU.
        auto_wrap_policy: Which modules inside are wrapped first: a policy of ``fsdp.wrap``, or a function of
            ``module``, ``recurse`` and ``nonwrapped_numel``.
        backward_prefetch: When the next parameters are gathered in backward: before the gradients of a module are
            computed, or, with ``None``, when they are needed. ``BACKWARD_POST`` is as the first.
        mixed_precision: In which dtypes to compute.
        ignored_modules: Modules that are left alone.
        param_init_fn: Gives modules on the meta device their memory and values; by default ``reset_parameters``.
        device_id: Where to compute; by default where the parameters are.
        sync_module_states: Whether the values of the first process are those of all.
        forward_prefetch, limit_all_gathers: Taken; one module's parameters are gathered at a time in forward.
        use_orig_params: Whether parts have the names of the parameters, so that optimizers can tell these apart.
        ignored_states: Parameters or modules that are left alone.
        device_mesh: Between which processes, instead of ``process_group``.

    Raises:
        ValueError: Arguments contradict each other, or parameters of one flat parameter differ in dtype, or in
            ``requires_grad`` without ``use_orig_params``.
        NotImplementedError: ``keep_low_precision_grads`` is asked for.
    """

    def __init__(
        self, module, process_group=None, sharding_strategy=None, cpu_offload=None, auto_wrap_policy=None,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE, mixed_precision=None, ignored_modules=None,
        param_init_fn=None, device_id=None, sync_module_states=False, forward_prefetch=False,
        limit_all_gathers=True, use_orig_params=False, ignored_states=None, device_mesh=None,
    ):
        super().__init__()
        if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
            warnings.warn(
                f"FSDP will not all-gather parameters for containers that do not implement forward: {module}",
                stacklevel=2,
            )
        if mixed_precision is not None and mixed_precision.keep_low_precision_grads:
            raise NotImplementedError(
                "FullyShardedDataParallel: keep_low_precision_grads=True is not supported: gradients have the dtype "
                "of their parameters"
            )
        options = {
            "process_group": process_group, "sharding_strategy": sharding_strategy or ShardingStrategy.FULL_SHARD,
            "cpu_offload": cpu_offload, "backward_prefetch": backward_prefetch, "mixed_precision": mixed_precision,
            "param_init_fn": param_init_fn, "device_id": device_id, "sync_module_states": sync_module_states,
            "forward_prefetch": forward_prefetch, "limit_all_gathers": limit_all_gathers,
            "use_orig_params": use_orig_params, "ignored_modules": ignored_modules,
            "ignored_states": ignored_states, "device_mesh": device_mesh,
        }
        if auto_wrap_policy is not None:
            _init_utils.auto_wrap(module, auto_wrap_policy, options, type(self))
        self._init_fields(options)
        self._fsdp_wrapped_module = module
        self._init_state(module, options)
        _state_dict_utils.install(self)

    def _init_fields(self, options):
        self.cpu_offload = options["cpu_offload"] or CPUOffload()
        self.mixed_precision = options["mixed_precision"] or MixedPrecision()
        for name in ("backward_prefetch", "forward_prefetch", "limit_all_gathers"):
            setattr(self, name, options[name])
        self._use_orig_params = options["use_orig_params"]
        self._state_dict_type = StateDictType.FULL_STATE_DICT
        self._state_dict_config = FullStateDictConfig()
        self._optim_state_dict_config = FullOptimStateDictConfig()
        self._whole, self._is_summoned = None, False

    def _init_state(self, module, options):
        below, left_out = _init_utils.ignored(module, options["ignored_modules"], options["ignored_states"])
        modules = _init_utils.managed_modules(module, below)
        params = _init_utils.managed_params(modules, left_out)
        device = _init_utils.compute_device(options["device_id"], params)
        info, strategy = _init_utils.mesh_info_of(
            options["process_group"], options["device_mesh"], options["sharding_strategy"], device.type
        )
        if _init_utils.materialize(modules, params, device, options["param_init_fn"]):
            params = _init_utils.managed_params(modules, left_out)
        _init_utils.move(modules, params, device, self.cpu_offload.offload_params)
        if options["sync_module_states"]:
            _init_utils.broadcast_states(modules, params, info)
        self.sharding_strategy, self.compute_device = strategy, device
        self.process_group = getattr(info, "shard_process_group", None) or info.replicate_process_group
        self.rank, self.world_size = dist.get_rank(self.process_group), dist.get_world_size(self.process_group)
        state = _init_utils.make_state(self, module, params, info, device, {**options, "sharding_strategy": strategy})
        state.buffers = [(one, name) for one in modules for name in one._buffers]
        state.prefetches_backward = options["backward_prefetch"] is not None
        self._fsdp_state = state

    @property
    def module(self):
        """What is wrapped."""
        wrapped = getattr(self, FSDP_WRAPPED_MODULE)
        return getattr(wrapped, "_checkpoint_wrapped_module", wrapped)

    @property
    def _has_params(self):
        return self._fsdp_state.handle is not None

    @property
    def _flat_param(self):
        return self._fsdp_state.handle.flat_param if self._has_params else None

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == FSDP_WRAPPED_MODULE:
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key):
        return self._fsdp_wrapped_module[key]

    def forward(self, *args, **kwargs):
        """Runs what is wrapped."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def check_is_root(self):
        """Whether this is the outermost of the wrapped modules."""
        self._fsdp_state._lazy_init()
        return self._fsdp_state._is_root

    @property
    def _is_root(self):
        return self._fsdp_state._is_root

    @staticmethod
    def fsdp_modules(module, root_only=False):
        """The wrapped modules in a module, itself too; with ``root_only`` those that are in no other."""
        found = [one for one in module.modules() if isinstance(one, FullyShardedDataParallel)]
        if not root_only:
            return found
        inside = {inner for one in found for inner in one.modules() if inner is not one}
        return [one for one in found if one not in inside]

    def apply(self, fn):
        """As that of modules; parameters are whole meanwhile."""
        if self._is_summoned:
            return super().apply(fn)
        with self.summon_full_params(self):
            return super().apply(fn)

    def _apply(self, fn, *args, **kwargs):
        group = self._fsdp_state.group
        if group is None or self._is_summoned:
            return super()._apply(fn, *args, **kwargs)
        group._to_sharded()
        result = super()._apply(fn, *args, **kwargs)
        handle = self._fsdp_state.handle
        if not handle.offload_to_cpu:
            self.compute_device = group.device = handle.device = self._fsdp_state._device = next(
                iter(handle.pieces or [self._fsdp_wrapped_module._parameters[FLAT_PARAM]])).device
        group.lazy_init()
        return result

    def named_parameters(self, *args, **kwargs):
        """As those of modules; while parameters are whole, without what wrapping adds to names."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield name.replace(FSDP_PREFIX, "") if self._is_summoned else name, param

    def named_buffers(self, *args, **kwargs):
        """As those of modules; while parameters are whole, without what wrapping adds to names."""
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield name.replace(FSDP_PREFIX, "") if self._is_summoned else name, buffer

    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Says which dictionaries the wrapped modules in a module make and take.

        Returns:
            What was said before, as :class:`StateDictSettings`.

        Raises:
            RuntimeError: A setting is of another kind.
        """
        before = FullyShardedDataParallel.get_state_dict_type(module)
        model_kind, optim_kind = _CONFIGS[state_dict_type]
        config = model_kind() if state_dict_config is None else state_dict_config
        optim_config = optim_kind() if optim_state_dict_config is None else optim_state_dict_config
        if type(config) is not model_kind:
            raise RuntimeError(f"Expected state_dict_config of type {model_kind} but got {type(config)}")
        if type(optim_config) is not optim_kind:
            raise RuntimeError(f"Expected optim_state_dict_config of type {optim_kind} but got {type(optim_config)}")
        for one in FullyShardedDataParallel.fsdp_modules(module):
            one._state_dict_type = state_dict_type
            one._state_dict_config, one._optim_state_dict_config = config, optim_config
        return before

    @staticmethod
    def get_state_dict_type(module):
        """Which dictionaries the wrapped modules in a module make and take."""
        settings = None
        for one in FullyShardedDataParallel.fsdp_modules(module):
            own = StateDictSettings(one._state_dict_type, one._state_dict_config, one._optim_state_dict_config)
            if settings is None:
                settings = own
            elif settings != own:
                raise AssertionError(
                    f"All FSDP modules must have the same state dict settings. Got {own} and {settings}."
                )
        if settings is None:
            return StateDictSettings(None, None, None)
        return settings

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """As :meth:`set_state_dict_type`, for as long as the context lasts."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            if before.state_dict_type is not None:
                FullyShardedDataParallel.set_state_dict_type(
                    module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config
                )

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False, with_grads=False,
    ):
        """Registers whole parameters for as long as the context lasts, in all processes or, with ``rank0_only``, in
        the first.

        Args:
            recurse: Whether those of wrapped modules inside, too.
            writeback: Whether what is written to them stays.
            offload_to_cpu: Whether they are on the CPU.
            with_grads: Whether gradients are whole, too; needs ``use_orig_params``.

        Raises:
            NotImplementedError: ``writeback`` with ``rank0_only``, ``offload_to_cpu`` with whole parameters, or
                ``with_grads`` without ``use_orig_params``.
        """
        chosen = FullyShardedDataParallel.fsdp_modules(module)
        if not recurse:
            chosen = [module] if module in chosen else []
        chosen = [one for one in chosen if not one._is_summoned]
        states = [one._fsdp_state for one in chosen if one._has_params]
        check_arguments(writeback, rank0_only, offload_to_cpu, with_grads, states)
        with contextlib.ExitStack() as stack:
            for one in chosen:
                if one._has_params:
                    stack.enter_context(
                        whole_params(one._fsdp_state, writeback, rank0_only, offload_to_cpu, with_grads)
                    )
                one._is_summoned = True
                stack.callback(setattr, one, "_is_summoned", False)
            yield

    @contextlib.contextmanager
    def no_sync(self):
        """Gradients are added up, in whole, without the other processes, for as long as the context lasts.

        Raises:
            RuntimeError: This is not the outermost wrapped module.
        """
        self._fsdp_state._lazy_init()
        if not self._is_root:
            raise RuntimeError(
                "`no_sync()` on inner FSDP instances is not supported. Please call `no_sync()` on root FSDP module."
            )
        groups = [group for state in self._fsdp_state._context.all_states for group in state._fsdp_param_groups]
        before = [group.reduce_grads for group in groups]
        for group in groups:
            group.reduce_grads = False
        try:
            yield
        finally:
            for group, value in zip(groups, before):
                group.reduce_grads = value

    @corten.no_grad()
    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """Scales gradients so that their norm, over all processes, is ``max_norm`` at most.

        Returns:
            The norm that they had.

        Raises:
            RuntimeError: This is not the outermost wrapped module.
        """
        self._fsdp_state._lazy_init()
        if not self._is_root:
            raise RuntimeError("`clip_grad_norm_()` should only be called on the root FSDP instance")
        spread, whole, groups = self._params_with_grads()
        norm_type = float(norm_type)
        total = _norm_of(spread, norm_type, self.compute_device)
        for group in groups:
            total = _reduced(total, norm_type, group)
        total = _joined([total, _norm_of(whole, norm_type, self.compute_device)], norm_type)
        factor = corten.clamp(max_norm / (total + 1e-6), max=1.0)
        for grad in (*spread, *whole):
            grad.mul_(factor.to(grad.device, grad.dtype))
        dtypes = {grad.dtype for grad in (*spread, *whole)}
        if not dtypes:
            warnings.warn(
                f"Called FSDP.clip_grad_norm_() on rank {self.rank} with no gradients -- returning the total norm in "
                f"the default dtype {total.dtype}", stacklevel=2
            )
            return total
        dtype = dtypes.pop()
        for other in dtypes:
            dtype = corten.promote_types(dtype, other)
        return total.to(dtype)

    def _params_with_grads(self):
        """Gradients of which this process has parts, those that it has in whole, and the groups to add up over."""
        parts, groups = {}, {}
        for one in self.fsdp_modules(self):
            state = one._fsdp_state
            if one._has_params and not state.is_replicated:
                for param in state.handle.pieces or [state.handle.flat_param]:
                    parts[id(param)] = param
                groups[one.process_group.group_name] = one.process_group
        spread, whole = [], []
        for param in self.parameters():
            if param.grad is not None:
                (spread if id(param) in parts else whole).append(param.grad)
        return spread, whole, list(groups.values())[:1]

    def register_comm_hook(self, state, hook):
        """Lets a function reduce gradients: of ``state`` and the gradients where they are not sharded, of those and of
        where this process's part goes where they are.

        Raises:
            AssertionError: This is not the outermost wrapped module, or the strategy is a hybrid one.
        """
        if not self.check_is_root():
            raise AssertionError("register_comm_hook can only be called on a root instance.")
        modules = self.fsdp_modules(self)
        if any(one.sharding_strategy in _init_utils.HYBRID_SHARDING_STRATEGIES for one in modules):
            raise AssertionError(f"Communication hook is not supported for hybrid strategies: {self.sharding_strategy}")
        for one in modules:
            if one._has_params:
                if one._fsdp_state.group.comm_hook is not None:
                    raise AssertionError("A communication hook is already registered")
                one._fsdp_state.group.set_comm_hook(state, hook)

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None):
        """The dictionary of an optimizer of a wrapped model, with states under the names of the parameters: whole, or
        of the kind that :meth:`set_state_dict_type` says. All processes call it.

        Args:
            optim_state_dict: What ``optim.state_dict()`` gave, if it is not to be asked.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        config = settings.optim_state_dict_config or FullOptimStateDictConfig()
        full = settings.state_dict_type in (None, StateDictType.FULL_STATE_DICT)
        return _optim_utils.optim_state_dict(
            model, optim, optim_state_dict, full, getattr(config, "rank0_only", False), config.offload_to_cpu
        )

    @staticmethod
    def optim_state_dict_to_load(
        model, optim, optim_state_dict, is_named_optimizer=False, load_directly=False, group=None,
    ):
        """What ``optim.load_state_dict`` takes, from what :meth:`optim_state_dict` gave, perhaps with another number
        of processes.

        Args:
            is_named_optimizer: Keys are to be names.
            load_directly: Let the optimizer load it, too.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        rank0_only = getattr(settings.optim_state_dict_config, "rank0_only", False)
        made = _optim_utils.optim_state_dict_to_load(
            model, optim, optim_state_dict, rank0_only, is_named_optimizer, group
        )
        if load_directly:
            optim.load_state_dict(made)
        return made

    @staticmethod
    def full_optim_state_dict(model, optim, optim_input=None, rank0_only=True, group=None):
        """The whole dictionary of an optimizer, in the first process or in all; see :meth:`optim_state_dict`."""
        return _optim_utils.optim_state_dict(model, optim, None, True, rank0_only, True)

    @staticmethod
    def sharded_optim_state_dict(model, optim, group=None):
        """The dictionary of an optimizer, in parts; see :meth:`optim_state_dict`."""
        return _optim_utils.optim_state_dict(model, optim, None, False, False, False)

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None):
        """What ``optim.load_state_dict`` takes, from a whole dictionary that all processes have."""
        return _optim_utils.optim_state_dict_to_load(model, optim, full_optim_state_dict)

    @staticmethod
    def flatten_sharded_optim_state_dict(sharded_optim_state_dict, model, optim):
        """What ``optim.load_state_dict`` takes, from a dictionary in parts."""
        return _optim_utils.optim_state_dict_to_load(model, optim, sharded_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None, group=None):
        """What ``optim.load_state_dict`` takes, from a whole dictionary that the first process has."""
        return _optim_utils.optim_state_dict_to_load(model, optim, full_optim_state_dict, True, group=group)

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict, optim_state_key_type, model, optim_input=None, optim=None):
        """A whole dictionary of an optimizer under names, or under numbers, instead of the other.

        Raises:
            AssertionError: ``optim_state_key_type`` is neither.
        """
        if optim_state_key_type not in (OptimStateKeyType.PARAM_NAME, OptimStateKeyType.PARAM_ID):
            raise AssertionError(
                f"Expected optim_state_key_type to be PARAM_NAME or PARAM_ID, got {optim_state_key_type}"
            )
        names = {id(param): clean_tensor_name(name) for name, param in model.named_parameters()}
        if optim is None:
            order = [names[id(param)] for param in optim_input or model.parameters()]
        else:
            order = [names[id(param)] for group in optim.param_groups for param in group["params"]]
        keys = dict(enumerate(order))
        if optim_state_key_type == OptimStateKeyType.PARAM_ID:
            keys = {name: number for number, name in keys.items()}
        return {
            **optim_state_dict,
            "state": {keys.get(key, key): value for key, value in optim_state_dict["state"].items()},
            "param_groups": [
                {**group, "params": [keys.get(key, key) for key in group["params"]]}
                for group in optim_state_dict["param_groups"]
            ],
        }


def _norm_of(grads, norm_type, device):
    if not grads:
        return corten.zeros((), device=device)
    norms = [corten.linalg.vector_norm(grad, norm_type, dtype=corten.promote_types(grad.dtype, corten.float32))
             .to(device) for grad in grads]
    return _joined(norms, norm_type)


def _joined(norms, norm_type):
    return corten.linalg.vector_norm(corten.stack([norm.to(norms[0].device) for norm in norms]), norm_type)


def _reduced(norm, norm_type, group):
    """The norm over the parts of all processes."""
    if norm_type == math.inf:
        dist.all_reduce(norm, op=dist.ReduceOp.MAX, group=group)
        return norm
    power = norm ** norm_type
    dist.all_reduce(power, group=group)
    return power ** (1.0 / norm_type)
