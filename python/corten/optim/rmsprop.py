"""RMSprop."""

from __future__ import annotations

from ._steps import (
    ElementwiseOptimizer, add_scaled_, addcdiv_scaled_, as_real, as_setting, check_lr, decayed, check_not_negative, new_step, zeros_like,
)

__all__ = ["RMSprop"]


class RMSprop(ElementwiseOptimizer):
    """Steps divided by the root of a running mean of squared gradients (Hinton)."""

    def __init__(
        self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
        capturable=False, foreach=None, maximize=False, differentiable=False,
    ):
        check_lr(lr)
        check_not_negative("epsilon", eps)
        check_not_negative("momentum", momentum)
        check_not_negative("weight_decay", weight_decay)
        check_not_negative("alpha", alpha)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable,
        })

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("momentum", 0)
            group.setdefault("centered", False)

    def _init_state(self, state, param, group):
        state["step"] = new_step(param)
        state["square_avg"] = zeros_like(param)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)

    def _update(self, param, grad, state, group):
        state["step"] += 1
        alpha, lr = group["alpha"], as_setting(group["lr"])
        grad = decayed(grad, param, group["weight_decay"])
        param, grad, square, mean, buffer = as_real(
            param, grad, state["square_avg"], state.get("grad_avg"), state.get("momentum_buffer")
        )
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if mean is not None:
            mean.lerp_(grad, 1 - alpha)
            root = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            root = square.sqrt()
        root = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
        if buffer is not None:
            buffer.mul_(group["momentum"]).addcdiv_(grad, root)
            add_scaled_(param, buffer, -lr)
        else:
            addcdiv_scaled_(param, grad, root, -lr)
