"""NAdam."""

from __future__ import annotations

import corten

from ._steps import (
    ElementwiseOptimizer, addcdiv_scaled_, addcmul_scaled_, as_real, as_setting, check_betas, decayed, check_lr, check_not_negative, new_step,
    zeros_like,
)

__all__ = ["NAdam"]


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov momentum (Dozat)."""

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
        decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
        differentiable=False,
    ):
        check_lr(lr)
        check_not_negative("epsilon", eps)
        check_betas(betas)
        check_not_negative("weight_decay", weight_decay)
        check_not_negative("momentum_decay", momentum_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        })

    def _init_state(self, state, param, group):
        state["step"] = new_step(param)
        state["mu_product"] = corten.ones((), dtype=corten.float32)
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)

    def _update(self, param, grad, state, group):
        lr, (beta1, beta2) = as_setting(group["lr"]), map(as_setting, group["betas"])
        state["step"] += 1
        step = state["step"].item()
        if group["decoupled_weight_decay"] and group["weight_decay"] != 0:
            param.mul_(1 - lr * as_setting(group["weight_decay"]))
        else:
            grad = decayed(grad, param, group["weight_decay"])
        param, grad, mean, square = as_real(param, grad, state["exp_avg"], state["exp_avg_sq"])
        decay = group["momentum_decay"]
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * decay))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * decay))
        state["mu_product"] *= mu
        product = as_setting(state["mu_product"])
        mean.lerp_(grad, 1 - beta1)
        addcmul_scaled_(square.mul_(beta2), grad, grad, 1 - beta2)
        root = square.div(1 - beta2**step).sqrt()
        root = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
        addcdiv_scaled_(param, grad, root, -lr * (1.0 - mu) / (1.0 - product))
        addcdiv_scaled_(param, mean, root, -lr * mu_next / (1.0 - product * mu_next))
