"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

import corten

from ._steps import (
    ElementwiseOptimizer, addcdiv_scaled_, addcmul_scaled_, as_float, as_real, as_setting,
    check_betas, check_lr, check_not_negative, decayed, new_step,
    zeros_like,
)

__all__ = ["Adam", "AdamW"]


class Adam(ElementwiseOptimizer):
    """Steps scaled by running means of gradients and of their squares (Kingma and Ba).

    With ``decoupled_weight_decay`` parameters shrink by ``lr * weight_decay`` instead of adding
    the decay to the gradient (Loshchilov and Hutter).
    """

    _no_sparse = "Adam does not support sparse gradients, please consider SparseAdam instead"

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *,
        foreach=None, maximize=False, capturable=False, differentiable=False, fused=None,
        decoupled_weight_decay=False,
    ):
        check_lr(lr, foreach, capturable)
        check_not_negative("epsilon", eps)
        check_betas(betas)
        check_not_negative("weight_decay", weight_decay)
        _check_beta_kinds(betas, foreach, capturable)
        if fused and (differentiable or foreach):
            other = "differentiable" if differentiable else "foreach"
            raise RuntimeError(f"`fused` and `{other}` cannot be `True` together.")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        })

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("amsgrad", False)
            group.setdefault("fused", None)
            group.setdefault("decoupled_weight_decay", False)

    def _init_state(self, state, param, group):
        state["step"] = new_step(param)
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)

    def _is_fused(self, group, params):
        return group["fused"] or super()._is_fused(group, params)

    def _step_together(self, group, params):
        grads = [param.grad for param in params]
        for grad in grads:
            self._check(grad)
        states = [self._state_of(param, group) for param in params]
        names = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"][: 3 if group["amsgrad"] else 2]
        kept = [[state[name] for state in states] for name in names] + [[]] * (3 - len(names))
        steps = [state["step"] for state in states]
        corten._foreach_add_(steps, 1)
        decoupled = group["decoupled_weight_decay"]
        move = corten._fused_adamw_ if decoupled else corten._fused_adam_
        beta1, beta2 = map(as_float, group["betas"])
        move(
            *(as_real(*tensors) for tensors in (params, grads, *kept)), steps,
            lr=as_float(group["lr"]), beta1=beta1, beta2=beta2,
            weight_decay=group["weight_decay"], eps=group["eps"], amsgrad=group["amsgrad"],
            maximize=group["maximize"],
        )

    def _update(self, param, grad, state, group):
        lr, (beta1, beta2) = as_setting(group["lr"]), map(as_setting, group["betas"])
        state["step"] += 1
        step = state["step"].item()
        if group["decoupled_weight_decay"] and group["weight_decay"] != 0:
            param.mul_(1 - lr * as_setting(group["weight_decay"]))
        else:
            grad = decayed(grad, param, group["weight_decay"])
        param, grad, mean, square, largest = as_real(
            param, grad, state["exp_avg"], state["exp_avg_sq"], state.get("max_exp_avg_sq")
        )
        mean.lerp_(grad, 1 - beta1)
        addcmul_scaled_(square.mul_(beta2), grad, grad, 1 - beta2)
        if largest is not None:
            before = largest.clone() if group["differentiable"] else largest
            largest.copy_(corten.maximum(before, square))
            square = largest
        if group["differentiable"]:
            mean, square = mean.clone(), square.clone()
        root = square.sqrt() / (1 - beta2**step) ** 0.5
        addcdiv_scaled_(param, mean, root.add(group["eps"]), -lr / (1 - beta1**step))


def _check_beta_kinds(betas, foreach, capturable):
    kinds = [isinstance(beta, corten.Tensor) for beta in betas]
    if any(kinds) and not all(kinds):
        raise ValueError("betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if kinds[i]:
            if foreach and not capturable:
                raise ValueError(
                    f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
                )
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{i}] must be 1-element")


class AdamW(Adam):
    """:class:`Adam` with decoupled weight decay."""

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
        maximize=False, foreach=None, capturable=False, differentiable=False, fused=None,
    ):
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
