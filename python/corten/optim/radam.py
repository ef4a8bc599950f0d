"""RAdam."""

from __future__ import annotations

from ._steps import (
    ElementwiseOptimizer, add_scaled_, as_real, as_setting, check_betas, decayed, check_lr, check_not_negative, new_step,
    zeros_like,
)

__all__ = ["RAdam"]


class RAdam(ElementwiseOptimizer):
    """Adam whose first steps, of uncertain scale, are corrected or left unscaled (Liu and others)."""

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
        decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
        differentiable=False,
    ):
        check_lr(lr)
        check_not_negative("epsilon", eps)
        check_betas(betas)
        check_not_negative("weight_decay", weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        })

    def _init_state(self, state, param, group):
        state["step"] = new_step(param)
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)

    def _update(self, param, grad, state, group):
        lr, (beta1, beta2) = as_setting(group["lr"]), group["betas"]
        state["step"] += 1
        step = state["step"].item()
        if group["decoupled_weight_decay"] and group["weight_decay"] != 0:
            param.mul_(1 - lr * as_setting(group["weight_decay"]))
        else:
            grad = decayed(grad, param, group["weight_decay"])
        param, grad, mean, square = as_real(param, grad, state["exp_avg"], state["exp_avg_sq"])
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        corrected = mean / (1 - beta1**step)
        correction2 = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction2
        if length <= 5.0:
            add_scaled_(param, corrected, -lr)
            return
        rectified = (
            (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        ) ** 0.5
        root = square.sqrt()
        root = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
        add_scaled_(param, corrected * (correction2**0.5 / root) * rectified, -lr)
