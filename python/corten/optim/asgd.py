"""Averaged stochastic gradient descent."""

from __future__ import annotations

import corten

from ._steps import (
    ElementwiseOptimizer, as_float, as_real, check_lr, check_not_negative, new_step, zeros_like,
)

__all__ = ["ASGD"]


class ASGD(ElementwiseOptimizer):
    """Gradient descent that also keeps the average of its iterates (Polyak and Juditsky)."""

    def __init__(
        self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None,
        maximize=False, differentiable=False, capturable=False,
    ):
        check_lr(lr)
        check_not_negative("weight_decay", weight_decay)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })

    def _init_state(self, state, param, group):
        state["step"] = new_step(param)
        state["eta"] = corten.tensor(as_float(group["lr"]), dtype=corten.float32)
        state["mu"] = corten.ones((), dtype=corten.float32)
        state["ax"] = zeros_like(param)

    def _update(self, param, grad, state, group):
        if group["foreach"]:
            self._update_in_tensors(param, grad, state, group)
            return
        lr = as_float(group["lr"])
        param, grad, average = as_real(param, grad, state["ax"])
        state["step"] += 1
        step = state["step"].item()
        eta, mu = state["eta"].item(), state["mu"].item()
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        param.mul_(1 - group["lambd"] * eta)
        param.add_(grad, alpha=-eta)
        if mu != 1:
            average.add_(param.sub(average).mul_(mu))
        else:
            average.copy_(param)
        state["eta"].fill_(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
        state["mu"].fill_(1 / max(1, step - group["t0"]))

    def _update_in_tensors(self, param, grad, state, group):
        """The update as ``foreach`` does it: the rate stays a tensor and is rounded as one."""
        lr, lambd = as_float(group["lr"]), group["lambd"]
        param, grad, average = as_real(param, grad, state["ax"])
        state["step"] += 1
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        param.addcmul_(grad.add(param, alpha=lambd), state["eta"], value=-1)
        average.addcmul_(param.sub(average), state["mu"])
        state["eta"].copy_(lr / (1 + lambd * lr * state["step"]) ** group["alpha"])
        state["mu"].fill_(1 / max(1, state["step"].item() - group["t0"]))
