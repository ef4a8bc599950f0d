"""What runs before and after a module, in forward and in backward."""

from __future__ import annotations

import functools

import corten
from corten.autograd import Variable
from corten.distributed._composable_state import _get_module_state, _insert_module_state, _State
from corten.utils import _pytree as pytree

from ._fsdp_common import SharedContext, TrainingState, _cast_fp_tensor, map_tensors


class FSDPState(_State):
    """The state of a module, or of several that are one group."""

    #: Whether backward gathers the parameters of the module that ran before, while it goes through one.
    prefetches_backward = True

    def __init__(self):
        super().__init__()
        self._fsdp_param_groups = []
        self._is_root = None  # known when the first module runs
        self._context = SharedContext()
        self._training_state = TrainingState.IDLE
        self._states_to_forward_prefetch = []
        self._states_to_backward_prefetch = []
        self._modules_to_run_forward = set()
        self._auto_reshard_after_forward = False

    @property
    def _fsdp_param_group(self):
        """The one group of parameters, or nothing."""
        if len(self._fsdp_param_groups) > 1:
            raise AssertionError(
                f"Expected at most 1 param group but got {len(self._fsdp_param_groups)}; "
                "use `_fsdp_param_groups`"
            )
        return self._fsdp_param_groups[0] if self._fsdp_param_groups else None

    def init(self, modules, device, mp_policy, auto_reshard_after_forward):
        """Registers what runs before and after the modules."""
        for module in modules:
            _insert_module_state(module, self)
        self._modules, self._device, self._mp_policy = modules, device, mp_policy
        self._auto_reshard_after_forward = auto_reshard_after_forward
        for module in modules:
            module.register_forward_pre_hook(self._pre_forward, prepend=True, with_kwargs=True)
            module.register_forward_hook(
                self._post_forward, prepend=False, always_call=len(modules) > 1
            )

    def _lazy_init(self):
        """The first module that runs is the root: those inside share its context."""
        if self._is_root is not None:
            return
        if len(self._modules) > 1:
            raise RuntimeError(f"FSDP requires a single root module but got {self._modules}")
        root = self._modules[0]
        states = []
        for name, module in root.named_modules():
            state = _get_module_fsdp_state(module)
            if state is None or state in states:
                continue
            if state is not self:
                if state._is_root is not None:
                    raise RuntimeError(
                        f"FSDP state has already been lazily initialized for {name}\n"
                        "FSDP requires running forward through the root module first"
                    )
                state._is_root = False
            states.append(state)
        self._is_root = True
        if self._auto_reshard_after_forward:
            for group in self._fsdp_param_groups:
                group.post_forward_mesh_info = None
        self._context.all_states = states
        for state in states:
            state._context = self._context
            for group in state._fsdp_param_groups:
                group.context = self._context
                group.lazy_init()
        self._init_fqns(root)

    def _init_fqns(self, root):
        """Names of groups and parameters, for messages; a parameter is in one group."""
        params = {}
        for state in self._context.all_states:
            for group in state._fsdp_param_groups:
                names = [name for name, module in root.named_modules() if module in group.modules]
                group._module_fqn = ", ".join(names)
                params.update({param.sharded_param: param for param in group.fsdp_params})
        for name, param in root.named_parameters():
            if param in params:
                params[param]._param_fqn = name

    def _pre_forward(self, module, args, kwargs):
        if self._training_state == TrainingState.PRE_BACKWARD:
            # The module is run again, for what backward needs.
            for group in self._fsdp_param_groups:
                group.unshard()
                group.wait_for_unshard()
            return self._cast_forward_inputs(args, kwargs)
        if self._context.is_reduction_pending:
            raise RuntimeError("The previous gradient reduction must be waited on before forward")
        if len(self._modules) > 1 and not self._modules_to_run_forward:
            self._modules_to_run_forward.update(self._modules)
        first = self._training_state != TrainingState.FORWARD
        self._training_state = TrainingState.FORWARD
        if first:
            args, kwargs = self._root_pre_forward(args, kwargs)
        args, kwargs = self._cast_forward_inputs(args, kwargs)
        for group in self._fsdp_param_groups:
            args, kwargs = group.pre_forward(module, args, kwargs)
        if first:
            for state in self._states_to_forward_prefetch:
                for group in state._fsdp_param_groups:
                    group.prefetch(TrainingState.FORWARD)
        return args, kwargs

    def _root_pre_forward(self, args, kwargs):
        self._lazy_init()
        context = self._context
        if context.forward_root is not None:
            return args, kwargs
        context.forward_root = self
        if context.post_optim_event is not None:
            context.post_optim_event.wait()
            context.post_optim_event = None
        if self._device.type != "cpu":
            args, kwargs = map_tensors(lambda tensor: tensor.to(self._device), (args, kwargs))
        return args, kwargs

    def _post_forward(self, module, input, output):
        if self._training_state == TrainingState.PRE_BACKWARD:
            return self._cast_output_dtype(output)
        if len(self._modules) > 1:
            self._modules_to_run_forward.discard(module)
            if self._modules_to_run_forward:
                # What one module of a group gives may be all that backward comes through.
                return self._cast_output_dtype(self._register_pre_backward_hook(output))
        output = self._end_forward(output)
        if self._context.forward_root is self:
            for state in reversed(self._context.all_states):
                if state is not self and state._modules_to_run_forward:
                    output = state._end_forward(output)
                    state._modules_to_run_forward.clear()
            self._context.forward_root = None
        return self._cast_output_dtype(output)

    def _end_forward(self, output):
        for group in self._fsdp_param_groups:
            output = group.post_forward(None, None, output)
        output = self._register_pre_backward_hook(output)
        self._training_state = TrainingState.IDLE
        return output

    def _cast_forward_inputs(self, args, kwargs):
        dtype = self._mp_policy.param_dtype
        if not self._mp_policy.cast_forward_inputs or dtype is None:
            return args, kwargs
        return map_tensors(functools.partial(_cast_fp_tensor, dtype), (args, kwargs))

    def _cast_output_dtype(self, output):
        if self._mp_policy.output_dtype is None:
            return output
        return map_tensors(functools.partial(_cast_fp_tensor, self._mp_policy.output_dtype), output)

    def _register_pre_backward_hook(self, output):
        if corten.is_grad_enabled():
            for value in pytree.tree_leaves(output):
                if isinstance(value, corten.Tensor) and value.requires_grad:
                    value.register_hook(self._pre_backward)
        return output

    def _pre_backward(self, grad):
        self._training_state = TrainingState.PRE_BACKWARD
        if not self._context.callback_queued:
            self._context.callback_queued = True
            Variable._execution_engine.queue_callback(self._root_post_backward_final_callback)
        for group in self._fsdp_param_groups:
            group.pre_backward(self.prefetches_backward and not self._states_to_backward_prefetch)
        for state in self._states_to_backward_prefetch:
            for group in reversed(state._fsdp_param_groups):
                group.prefetch(TrainingState.PRE_BACKWARD)
        return grad

    def _root_post_backward_final_callback(self):
        """Ends backward: groups none of whose inputs had a gradient are reduced now."""
        context = self._context
        context.callback_queued = False
        context.forward_root = None
        by_hand = context.is_finalized_by_hand
        for state in context.all_states:
            state._modules_to_run_forward.clear()
            for group in reversed(state._fsdp_param_groups):
                if group._training_state != TrainingState.POST_BACKWARD and not by_hand:
                    group.post_backward()
            state._training_state = TrainingState.IDLE
        if not by_hand:
            self.end_reductions()

    def finalize_backward(self, async_op):
        """Reduces what backward left."""
        context = self._context
        if self._is_root is False:
            raise RuntimeError("finalize_backward must be called on the root FSDP module")
        if not context.is_finalized_by_hand:
            raise RuntimeError(
                "FSDP finalize_backward requires manual backward finalization. Call "
                "set_manual_backward_finalization(True) before forward"
            )
        if context.callback_queued:
            raise RuntimeError("FSDP finalize_backward must be called after backward completes")
        if context.is_reduction_pending:
            raise RuntimeError(
                "The previous gradient reduction must be waited on before finalizing backward again"
            )
        for state in reversed(context.all_states):
            for group in reversed(state._fsdp_param_groups):
                if group._training_state != TrainingState.POST_BACKWARD:
                    group.post_backward()
        context.is_reduction_pending = async_op
        if not async_op:
            self.end_reductions()

    def end_reductions(self):
        """Waits until all gradients are reduced."""
        context = self._context
        context.is_reduction_pending = False
        with corten.no_grad():
            while context.reducing:
                context.reducing.pop(0).finish()
        for state in context.all_states:
            for group in state._fsdp_param_groups:
                group.finalize_backward()
        context.post_forward_order.clear()

    def reset_iter_state(self):
        """Forgets a pass that failed."""
        if self._is_root is False:
            raise RuntimeError("reset_iter_state must be called on the root FSDP module")
        context = self._context
        while context.reducing:
            reduction = context.reducing.pop(0)
            if reduction.work is not None:
                reduction.work.wait()
        for state in context.all_states or [self]:
            state._modules_to_run_forward.clear()
            state._training_state = TrainingState.IDLE
            for group in state._fsdp_param_groups:
                group.reset_iter_state()
        context.forward_root, context.callback_queued = None, False
        context.is_reduction_pending = False
        context.post_forward_order.clear()


def _get_module_fsdp_state(module):
    """The state of a module that :func:`fully_shard` was applied to, or nothing."""
    state = _get_module_state(module)
    return state if isinstance(state, FSDPState) else None
