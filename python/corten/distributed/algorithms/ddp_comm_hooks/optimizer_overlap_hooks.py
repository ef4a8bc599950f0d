"""Optimizers that step when the gradients of a bucket are there, while the backward pass goes on."""

from __future__ import annotations

import corten
from corten.autograd import Variable

__all__ = []

_FUNCTIONAL_OPTIM_STEP_METHOD_NAME = "step_param"


class _OptimizerHookState:
    """An optimizer with a method ``step_param(param, grad)``, and the parameters that it is for."""

    __slots__ = ["functional_optimizer", "params_to_optimize"]

    def __init__(self, functional_optim, params=None):
        if not hasattr(functional_optim, _FUNCTIONAL_OPTIM_STEP_METHOD_NAME):
            raise ValueError(
                f"Class {type(functional_optim)} must implement method {_FUNCTIONAL_OPTIM_STEP_METHOD_NAME}."
            )
        self.functional_optimizer = functional_optim
        self.params_to_optimize = None if params is None else set(params)


def _apply_optim_in_backward_hook(gradient_is_bucket_view):
    """The hook of a module whose parameters have optimizers of their own
    (:func:`corten.distributed.optim._apply_optimizer_in_backward`)."""
    queued = []

    def apply_optim_in_backward_hook(hook_state, bucket):
        ddp = hook_state()
        ddp.reducer._run_allreduce_hook(bucket).wait()
        buffer = bucket.buffer().div_(ddp.process_group.size())
        for param, grad in zip(bucket.parameters(), bucket.gradients()):
            if hasattr(param, "_in_backward_optimizers"):
                if not gradient_is_bucket_view:
                    param.grad = grad
                for optimizer in param._in_backward_optimizers:
                    optimizer.step()

        def forget_gradients():
            for param in ddp._get_data_parallel_params(ddp.module):
                if hasattr(param, "_in_backward_optimizers"):
                    param.grad = None
            queued.clear()

        if not queued:
            Variable._execution_engine.queue_callback(forget_gradients)
            queued.append(True)
        future = corten.futures.Future()
        future.set_result(buffer)
        return future

    return apply_optim_in_backward_hook


def _hook_then_optimizer(hook, optimizer_state):
    """``hook``, and then a step for each parameter of the bucket."""
    chosen = optimizer_state.params_to_optimize

    def hook_then_optimizer_wrapper(hook_state, bucket):
        def step(future):
            for grad, param in zip(bucket.gradients(), bucket.parameters()):
                if chosen is None or param in chosen:
                    optimizer_state.functional_optimizer.step_param(param, grad)
            return bucket.buffer()

        return hook(hook_state, bucket).then(step)

    return hook_then_optimizer_wrapper
