"""Stochastic gradient descent."""

from __future__ import annotations

import corten

from ._steps import ElementwiseOptimizer, add_scaled_, as_float, as_setting, check_lr, check_not_negative, decayed

__all__ = ["SGD"]


class SGD(ElementwiseOptimizer):
    """``p -= lr * g``, with momentum, weight decay and Nesterov's look-ahead if asked for."""

    _sparse = True

    def __init__(
        self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *,
        maximize=False, foreach=None, differentiable=False, fused=None,
    ):
        check_lr(lr)
        check_not_negative("momentum", momentum)
        check_not_negative("weight_decay", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        if fused and (foreach or differentiable):
            other = "foreach" if foreach else "differentiable"
            raise RuntimeError(f"`fused` and `{other}` cannot be `True` together.")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        })

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)
            group.setdefault("fused", None)

    def _init_state(self, state, param, group):
        if group["momentum"] != 0:
            state["momentum_buffer"] = None

    def _step_together(self, group, params):
        buffers = []
        if group["momentum"] != 0:
            # The first step of a parameter makes its buffer.
            states = [self._state_of(param, group) for param in params]
            for param, state in zip(params, states):
                if state.get("momentum_buffer") is None:
                    self._step_one(param, group)
                else:
                    buffers.append((param, state["momentum_buffer"]))
            params = [param for param, _ in buffers]
        if not params:
            return
        corten._fused_sgd_(
            params, [param.grad for param in params], [buffer for _, buffer in buffers],
            weight_decay=group["weight_decay"], momentum=group["momentum"],
            lr=as_float(group["lr"]), dampening=group["dampening"], nesterov=group["nesterov"],
            maximize=group["maximize"], is_first_step=False,
        )

    def _update(self, param, grad, state, group):
        momentum = group["momentum"]
        grad = decayed(grad, param, group["weight_decay"])
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                # The first step takes the gradient undamped.
                buffer = grad.clone() if group["differentiable"] else grad.detach().clone()
                state["momentum_buffer"] = buffer
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        add_scaled_(param, grad, -as_setting(group["lr"]))
