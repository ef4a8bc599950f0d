"""Rprop."""

from __future__ import annotations

import corten

from ._steps import ElementwiseOptimizer, as_float, as_real, check_lr, new_step, zeros_like

__all__ = ["Rprop"]


class Rprop(ElementwiseOptimizer):
    """Steps by the signs of gradients, longer while signs agree (Riedmiller and Braun)."""

    def __init__(
        self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False,
        foreach=None, maximize=False, differentiable=False,
    ):
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })

    def _init_state(self, state, param, group):
        lr = as_float(group["lr"])
        state["step"] = new_step(param)
        state["prev"] = zeros_like(param)
        fill = complex(lr, lr) if param.is_complex() else lr
        state["step_size"] = corten.full_like(param, fill)

    def _update(self, param, grad, state, group):
        state["step"] += 1
        param, grad, previous, size = as_real(param, grad, state["prev"], state["step_size"])
        shrink, grow = group["etas"]
        agreement = grad.mul(previous)
        turned = agreement < 0
        factor = corten.ones_like(agreement)
        factor = factor.masked_fill(agreement > 0, grow).masked_fill(turned, shrink)
        size.mul_(factor).clamp_(*group["step_sizes"])
        grad = grad.masked_fill(turned, 0)  # after a turn, wait one step
        param.addcmul_(grad.sign(), size, value=-1)
        previous.copy_(grad)
