"""An optimizer whose state is spread over processes (ZeRO, stage 1: https://arxiv.org/abs/1910.02054)."""

from __future__ import annotations

import copy
import logging
from itertools import chain

import corten
import corten.distributed as dist
from corten.distributed.algorithms.join import Join, Joinable, JoinHook
from corten.optim import Optimizer
from corten.utils._pytree import tree_map

__all__ = ["ZeroRedundancyOptimizer"]

logger = logging.getLogger(__name__)


class _ZeROJoinHook(JoinHook):
    """A process without inputs goes on to update its part of the parameters."""

    def __init__(self, zero):
        self.zero = zero
        super().__init__()

    def main_hook(self):
        self.zero.step()


def _to_device(value, device):
    move = lambda item: item.to(device) if isinstance(item, corten.Tensor) else item  # noqa: E731
    return tree_map(move, value)


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Each process updates its part of the parameters and has the state of these only; then all get them.

    Parameters are given to processes whole, from the largest to the smallest, each to the process that has fewest
    elements.

    Args:
        params: Parameters, or groups of them.
        optimizer_class: The class of the optimizer that a process has for its part.
        process_group: The processes; None for all.
        parameters_as_bucket_view: The parameters of a process are parts of one tensor, which is sent at once.
        defaults: Arguments of the optimizer.

    Raises:
        TypeError: ``params`` are no parameters.
        ValueError: There are none, or they differ in dtype.
    """

    def __init__(
        self, params, optimizer_class, process_group=None, parameters_as_bucket_view=False,
        overlap_with_ddp=False, **defaults,
    ):
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp is not there; step() after the backward pass"
            )
        params = self._verify_and_init_params(params)
        self._verify_same_dense_param_type()
        self.initialized = False
        Optimizer.__init__(self, params, defaults)
        Joinable.__init__(self)
        self._clear_cache()
        self._is_trainable_mask = self._get_is_trainable_mask()
        self._default_device = self._all_params[0].device
        self.process_group = process_group if process_group is not None else dist.group.WORLD
        self.world_size = dist.get_world_size(self.process_group)
        self.rank = dist.get_rank(self.process_group)
        self.global_rank = dist.get_global_rank(self.process_group, self.rank)
        self._overlap_with_ddp = False
        self._optim_defaults = defaults
        self._optim_constructor = optimizer_class
        self.optim = optimizer_class(self._partition_parameters()[self.rank], **defaults)
        self._sync_param_groups(self.optim.param_groups, self.param_groups)
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._buckets = []
        self._build_param_buckets()
        self._all_state_dicts = []
        self.initialized = True

    def _clear_cache(self):
        self._partition_parameters_cache = []
        self._param_to_rank_cache = {}

    def add_param_group(self, param_group):
        """Adds a group on all processes."""
        super().add_param_group(param_group)
        if not self.initialized:
            return
        self._clear_cache()
        groups = self._partition_parameters()[self.rank]
        if len(groups) == len(self.optim.param_groups) + 1:
            self.optim.add_param_group(groups[-1])
        if self.parameters_as_bucket_view:
            self._build_param_buckets()

    def consolidate_state_dict(self, to=0):
        """Collects the states of all processes on one rank of the group, for :meth:`state_dict` there. Called by
        all processes."""
        self._sync_param_groups(self.param_groups, self.optim.param_groups)
        own = _to_device(self.optim.state_dict(), "cpu")
        states = [None] * self.world_size if self.rank == to else None
        dist.gather_object(
            own, states, dst=dist.get_global_rank(self.process_group, to), group=self.process_group
        )
        self._all_state_dicts = states if self.rank == to else []

    def _partition_parameters(self, params_per_rank=None):
        """The groups of each process; ``params_per_rank`` chooses for an optimizer of one group."""
        if params_per_rank is not None:
            return self._partition_as(params_per_rank)
        if self._partition_parameters_cache:
            return self._partition_parameters_cache
        parts = [[] for _ in range(self.world_size)]
        sizes = [0] * self.world_size
        for group in self.param_groups:
            members = [[] for _ in range(self.world_size)]
            for param in sorted(group["params"], key=lambda param: param.numel(), reverse=True):
                rank = sizes.index(min(sizes))
                members[rank].append(param)
                sizes[rank] += param.numel()
            self._add_group(parts, group, members)
        self._partition_parameters_cache = parts
        return parts

    @staticmethod
    def _add_group(parts, group, members):
        for part, own in zip(parts, members):
            own_group = copy.copy(group)
            own_group["params"] = own
            part.append(own_group)

    def _partition_as(self, params_per_rank):
        if self._partition_parameters_cache:
            raise AssertionError(
                "Specifying `params_per_rank` should only be done when the parameters have not been partitioned yet"
            )
        if len(self.param_groups) != 1:
            raise RuntimeError(
                "Specifying `params_per_rank` only supports a single parameter group"
            )
        if len(params_per_rank) != self.world_size:
            raise ValueError("`params_per_rank` must have length equal to the world size")
        known = set(self._all_params)
        if any(param not in known for param in chain.from_iterable(params_per_rank)):
            raise ValueError(
                "Passing a new parameter in `params_per_rank` that was not passed into the "
                "ZeroRedundancyOptimizer constructor"
            )
        parts = [[] for _ in range(self.world_size)]
        self._add_group(parts, self.param_groups[0], params_per_rank)
        self._partition_parameters_cache = parts
        return parts

    @property
    def _param_to_rank(self):
        """Which process updates each parameter."""
        if not self._param_to_rank_cache:
            for rank, groups in enumerate(self._partition_parameters()):
                for param in chain.from_iterable(group["params"] for group in groups):
                    self._param_to_rank_cache[param] = rank
        return self._param_to_rank_cache

    @property
    def _index_to_param(self):
        """The parameters in the order of a state."""
        return list(chain.from_iterable(group["params"] for group in self.param_groups))

    @property
    def _param_to_index(self):
        """The place of each parameter in a state."""
        return {param: index for index, param in enumerate(self._index_to_param)}

    def _tensors_of(self, rank):
        """What a process sends after a step: its parameters, or the tensors that they are parts of."""
        if self.parameters_as_bucket_view:
            return [buckets[rank] for buckets in self._buckets if buckets[rank].numel() > 0]
        groups = self._partition_parameters()[rank]
        return [param.data for param in chain.from_iterable(group["params"] for group in groups)]

    def _sync_params(self):
        """Every process sends its parameters."""
        works = []
        for rank in range(self.world_size):
            source = dist.get_global_rank(self.process_group, rank)
            works += [
                dist.broadcast(tensor, src=source, group=self.process_group, async_op=True)
                for tensor in self._tensors_of(rank)
            ]
        for work in works:
            work.wait()

    def _build_param_buckets(self):
        """Makes the parameters of each process and device parts of one tensor, if they are to be."""
        if not self.parameters_as_bucket_view:
            return
        self._buckets = []
        devices = list(dict.fromkeys(param.device for param in self._all_params))
        for device in devices:
            buckets = []
            for groups in self._partition_parameters():
                params = [
                    param for param in chain.from_iterable(group["params"] for group in groups)
                    if param.device == device
                ]
                buckets.append(self._bucket_of(params, device))
            self._buckets.append(buckets)

    def _bucket_of(self, params, device):
        trained = [param for param in params if param.requires_grad]
        # The others do not change; they only must not be parts of an older tensor.
        for param in params:
            if not param.requires_grad:
                param.data = param.data.detach().clone()
        dtype = self._all_params[0].dtype
        bucket = corten.empty(sum(param.numel() for param in trained), dtype=dtype, device=device)
        start = 0
        for param in trained:
            part = bucket[start:start + param.numel()]
            part.copy_(param.data.flatten())
            param.data = part.view_as(param.data)
            start += param.numel()
        return bucket

    def _local_step(self, gradients=None, closure=None, **kwargs):
        Join.notify_join_context(self)
        mask = self._get_is_trainable_mask()
        if mask != self._is_trainable_mask:
            logger.warning(
                "ZeroRedundancyOptimizer detected that the trainable parameters changed; rebuilding the parameter "
                "buckets if enabled"
            )
            self._build_param_buckets()
            self._is_trainable_mask = mask
        # Schedulers change the groups of this optimizer.
        self._sync_param_groups(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        self._sync_param_groups(self.optim.param_groups, self.param_groups)
        return loss

    def step(self, closure=None, **kwargs):
        """Updates this process's parameters, and gets the others' from them."""
        loss = self._local_step(closure=closure, **kwargs)
        self._sync_params()
        return loss

    def join_hook(self, **_kwargs):
        """What a process without inputs does: it goes on to step."""
        return _ZeROJoinHook(self)

    @property
    def join_device(self):
        """The device of the first parameter."""
        return self._default_device

    @property
    def join_process_group(self):
        """The processes."""
        return self.process_group

    def load_state_dict(self, state_dict):
        """Takes this process's part of a whole state, as :meth:`state_dict` gives it. The argument loses the
        rest."""
        for index, value in state_dict["state"].items():
            param = self._index_to_param[index]
            if self._param_to_rank[param] != self.rank:
                state_dict["state"][index] = None
                continue
            own = self.optim.state[param] = _to_device(value, param.device)
            for name, item in own.items():
                if isinstance(item, corten.Tensor) and item.dim() == 0:
                    own[name] = item.cpu()
        super().load_state_dict(state_dict)
        self._sync_param_groups(state_dict["param_groups"], self.param_groups)
        self._sync_param_groups(self.param_groups, self.optim.param_groups)

    def state_dict(self):
        """The whole state, as that of an optimizer of one process: on the rank that
        :meth:`consolidate_state_dict` has collected it on.

        Raises:
            RuntimeError: It was not collected here.
        """
        if not self._all_state_dicts:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global "
                "state."
            )
        whole = super().state_dict()
        places = self._param_to_index
        for part, groups in zip(self._all_state_dicts, self._partition_parameters()):
            for own, group in zip(part["param_groups"], groups):
                for index, param in zip(own["params"], group["params"]):
                    if index in part["state"]:
                        whole["state"][places[param]] = part["state"][index]
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole

    @staticmethod
    def _sync_param_groups(src_param_groups, dst_param_groups):
        """Copies what groups have besides parameters."""
        if len(src_param_groups) != len(dst_param_groups):
            raise AssertionError(
                "Mismatch between number of source and destination parameter groups"
            )
        for source, target in zip(src_param_groups, dst_param_groups):
            target.update((name, value) for name, value in source.items() if name != "params")

    def _verify_and_init_params(self, params):
        if isinstance(params, corten.Tensor):
            raise TypeError(
                f"`params` argument should be an iterable of Tensors, but got {corten.typename(params)}"
            )
        try:
            given = list(params)
        except TypeError as error:
            raise TypeError(
                f"`params` argument should be an iterable of Tensors or dicts, but got {corten.typename(params)}"
            ) from error
        if not given:
            raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
        if all(isinstance(each, corten.Tensor) for each in given):
            self._all_params = given
        elif all(isinstance(each, dict) for each in given):
            if any("params" not in group for group in given):
                raise ValueError(
                    "Each parameter group passed-in via `params` must have a 'params' key mapping to the "
                    "parameters in the group"
                )
            for group in given:
                members = group["params"]
                group["params"] = [members] if isinstance(members, corten.Tensor) else list(members)
            self._all_params = list(chain.from_iterable(group["params"] for group in given))
        else:
            raise TypeError("`params` argument should be an iterable of Tensors or dicts")
        return given

    def _verify_same_dense_param_type(self):
        first = self._all_params[0]
        if first.is_sparse:
            raise ValueError(
                "ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got "
                f"{corten.typename(first)}"
            )
        for param in self._all_params[1:]:
            if corten.typename(param) != corten.typename(first) or param.dtype != first.dtype:
                raise ValueError(
                    "ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got "
                    f"both {corten.typename(first)} and {corten.typename(param)}"
                )

    def _get_is_trainable_mask(self):
        return [param.requires_grad for param in self._all_params]
