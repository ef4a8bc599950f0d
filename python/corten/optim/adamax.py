"""Adamax."""

from __future__ import annotations

import corten

from ._steps import (
    ElementwiseOptimizer, addcdiv_scaled_, as_real, as_setting, check_betas, decayed, check_lr, check_not_negative, new_step,
    zeros_like,
)

__all__ = ["Adamax"]


class Adamax(ElementwiseOptimizer):
    """Adam with the largest recent gradient in place of the mean square (Kingma and Ba)."""

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *,
        maximize=False, differentiable=False, capturable=False,
    ):
        check_lr(lr)
        check_not_negative("epsilon", eps)
        check_betas(betas)
        check_not_negative("weight_decay", weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })

    def _init_state(self, state, param, group):
        state["step"] = new_step(param)
        state["exp_avg"] = zeros_like(param)
        state["exp_inf"] = zeros_like(param)

    def _update(self, param, grad, state, group):
        state["step"] += 1
        beta1, beta2 = group["betas"]
        grad = decayed(grad, param, group["weight_decay"])
        param, grad, mean, largest = as_real(param, grad, state["exp_avg"], state["exp_inf"])
        mean.lerp_(grad, 1 - beta1)
        largest.copy_(corten.maximum(largest.mul(beta2), grad.abs().add(group["eps"])))
        rate = as_setting(group["lr"]) / (1 - beta1 ** state["step"].item())
        divisor = largest.clone() if group["differentiable"] else largest
        addcdiv_scaled_(param, mean, divisor, -rate)
