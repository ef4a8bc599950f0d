"""Adadelta."""

from __future__ import annotations

import corten
from corten import _C

from ._steps import (
    ElementwiseOptimizer, add_scaled_, as_float, as_real, as_setting, check_lr, decayed, check_not_negative, new_step, zeros_like,
)

__all__ = ["Adadelta"]


class Adadelta(ElementwiseOptimizer):
    """Steps scaled by running means of squared updates over squared gradients (Zeiler)."""

    def __init__(
        self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *,
        capturable=False, maximize=False, differentiable=False,
    ):
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_not_negative("epsilon", eps)
        check_not_negative("weight_decay", weight_decay)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })

    def _init_state(self, state, param, group):
        state["step"] = new_step(param)
        state["square_avg"] = zeros_like(param)
        state["acc_delta"] = zeros_like(param)

    def _step_together(self, group, params):
        states = [self._state_of(param, group) for param in params]
        corten._foreach_add_([state["step"] for state in states], 1)
        _C._corten.adadelta_step_(
            params, [param.grad for param in params],
            [state["square_avg"] for state in states], [state["acc_delta"] for state in states],
            lr=as_float(group["lr"]), rho=group["rho"], eps=group["eps"],
            weight_decay=group["weight_decay"], maximize=group["maximize"],
        )

    def _update(self, param, grad, state, group):
        state["step"] += 1
        rho, eps = group["rho"], group["eps"]
        grad = decayed(grad, param, group["weight_decay"])
        param, grad, square, moved = as_real(param, grad, state["square_avg"], state["acc_delta"])
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        root = square.add(eps).sqrt_()
        delta = moved.add(eps).sqrt_()
        if group["differentiable"]:
            delta = delta.clone()
        delta.div_(root).mul_(grad)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        add_scaled_(param, delta, -as_setting(group["lr"]))
