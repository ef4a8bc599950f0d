"""Collectives of modules over several processes around their passes: buffers, uneven inputs, delayed averages."""

from __future__ import annotations

import corten
import corten.distributed as dist
from corten._C import _distributed_c10d as native
from corten.distributed.algorithms.join import Join
from corten.distributed.utils import _sync_module_states

from ._distributed_parts import _BufferCommHook, _BufferCommHookLocation, _DDPJoinHook


class _Synchronized:
    """The part of a module that talks to the other processes."""

    def join(
        self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False
    ):
        """A context in which processes may run out of inputs one after another.

        Args:
            divide_by_initial_world_size: Divides gradients by the number of all processes; without it by the
                number of those that have inputs.
            enable: Without it the context does nothing.
            throw_on_early_termination: All processes fail as soon as one has no inputs left.
        """
        return Join(
            [self], enable, throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs):
        """What a process without inputs does; see :meth:`join`."""
        return _DDPJoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self):
        """The device of the parameters."""
        return self.device

    @property
    def join_process_group(self):
        """The group of the module."""
        return self.process_group

    @property
    def _distributed_rank(self):
        return dist.get_rank(self.process_group)

    def _check_global_requires_backward_grad_sync(self, is_joined_rank):
        """Whether any process averages gradients in this pass. Only a process without inputs waits."""
        wants = not is_joined_rank and self.require_backward_grad_sync
        flag = corten.full((1,), float(wants), device=self.device)
        work = dist.all_reduce(flag, group=self.process_group, async_op=True)
        if not is_joined_rank:
            return None
        work.wait()
        return flag.item() != 0

    def _check_and_sync_module_buffers(self):
        if self._check_sync_bufs_pre_fwd():
            self._sync_module_buffers(self._find_common_rank(self._distributed_rank, False))

    def _sync_final_model(self, is_last_joiner):
        """Makes the model of a process that had inputs longest everybody's."""
        self._authoritative_rank = self._find_common_rank(self._distributed_rank, is_last_joiner)
        _sync_module_states(
            module=self.module,
            process_group=self.process_group,
            broadcast_bucket_size=self.broadcast_bucket_size,
            src=self._authoritative_rank,
            params_and_buffers_to_ignore=self.parameters_to_ignore,
            broadcast_buffers=self.forward_sync_buffers,
        )

    def _match_all_reduce_for_bwd_pass(self):
        works = [
            self.reducer._run_comm_hook(bucket)
            for bucket in self.reducer._get_zeros_like_grad_buckets()
        ]
        for work in works:
            work.wait()

    def _match_unused_params_allreduce(self):
        used = self.reducer._get_local_used_map().to(self.device)
        dist.all_reduce(used, group=self.process_group)

    def _find_common_rank(self, input_rank, rank_cond):
        """The highest rank among those for which the condition holds."""
        rank = corten.tensor([input_rank if rank_cond else -1], device=self.device)
        dist.all_reduce(rank, op=dist.ReduceOp.MAX, group=self.process_group)
        if rank.item() == -1:
            self._log_and_throw(
                ValueError,
                "BUG! Expected rank_cond to be true for at least one process."
                " This indicates a bug in PyTorch, please report an issue.",
            )
        return rank.item()

    def _register_buffer_comm_hook(
        self, state, hook, comm_hook_location=_BufferCommHookLocation.POST_FORWARD
    ):
        """Has ``hook(state, {name: buffer})`` make buffers equal, in place of the broadcast from rank 0. Futures
        that it returns are waited for at the end of the backward pass."""
        if not callable(hook):
            raise AssertionError(f"hook must be callable, got {type(hook).__name__}")
        self.buffer_hook = _BufferCommHook(hook, state, comm_hook_location)

    def _hooks_buffers(self, location):
        hook = getattr(self, "buffer_hook", None)
        return hook is not None and hook.buffer_comm_hook_location == location

    def _check_sync_bufs_post_fwd(self):
        return self.will_sync_module_buffers() and self._hooks_buffers(_BufferCommHookLocation.POST_FORWARD)

    def _check_sync_bufs_pre_fwd(self):
        usual = not hasattr(self, "buffer_hook")
        return self.will_sync_module_buffers() and (
            usual or self._hooks_buffers(_BufferCommHookLocation.PRE_FORWARD)
        )

    def will_sync_module_buffers(self):
        """Whether the next forward pass makes buffers equal."""
        return (
            self.require_forward_param_sync
            and self.forward_sync_buffers
            and len(self.modules_buffers) > 0
        )

    def _sync_buffers(self):
        with corten.no_grad():
            rank = 0
            if self._join_config.enable:
                rank = self._find_common_rank(self._distributed_rank, True)
            # A program may have replaced buffers.
            self._assign_modules_buffers()
            self._sync_module_buffers(rank)

    def _sync_module_buffers(self, authoritative_rank):
        if not hasattr(self, "buffer_hook"):
            self._default_broadcast_coalesced(authoritative_rank=authoritative_rank)
            return
        futures = self.buffer_hook.buffer_comm_hook(
            self.buffer_hook.buffer_comm_hook_state, self.named_module_buffers
        )
        if futures is not None:
            self.reducer._install_post_backward_futures(futures)

    def _default_broadcast_coalesced(self, bufs=None, bucket_size=None, authoritative_rank=0):
        bufs = self.modules_buffers if bufs is None else bufs
        self._distributed_broadcast_coalesced(
            # Passes that are recorded and not walked yet do not learn of this write.
            [buffer.data for buffer in bufs],
            self.broadcast_bucket_size if bucket_size is None else bucket_size,
            authoritative_rank,
        )

    def _distributed_broadcast_coalesced(self, tensors, buffer_size, authoritative_rank=0):
        native._broadcast_coalesced(self.process_group, tensors, buffer_size, authoritative_rank)

    def _register_delay_all_reduce_hook(self, bucket_cap_mb, param_to_hook_all_reduce, device_ids):
        """Averages the gradients of some parameters together, when that of one parameter is there."""
        device = corten.device("cpu") if device_ids is None else device_ids[0]
        params = self._delay_all_reduce_params
        self._delay_grad_buffer = corten.zeros(sum(param.numel() for param in params), device=device)
        native._broadcast_coalesced(
            self.process_group, [param.detach() for param in params], bucket_cap_mb, 0
        )
        param_to_hook_all_reduce.register_hook(self._delayed_all_reduce_hook)
        start = 0
        for param in params:
            part = self._delay_grad_buffer[start:start + param.numel()]
            self._delay_grad_views.append(part.view(param.shape))
            start += param.numel()
        self._delay_all_reduce_all_params = not any(
            param.requires_grad and name not in self.parameters_to_ignore
            for name, param in self.module.named_parameters()
        )

    def _delayed_all_reduce_hook(self, grad):
        self._delay_grad_buffer.div_(dist.get_world_size(self.process_group))
        dist.all_reduce(self._delay_grad_buffer, group=self.process_group, async_op=True)
        return grad

    def _clear_grad_buffer(self):
        """Makes the gradients of delayed parameters zeros in their common buffer again."""
        if self._delay_grad_buffer is None:
            return
        missing = [param.grad is None for param in self._delay_all_reduce_params]
        for absent, param, view in zip(missing, self._delay_all_reduce_params, self._delay_grad_views):
            if absent:
                param.grad = view
                if not all(missing):
                    param.grad.zero_()
        if all(missing):
            self._delay_grad_buffer.zero_()
