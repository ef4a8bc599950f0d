"""Adagrad."""

from __future__ import annotations

import corten

from ._steps import ElementwiseOptimizer, as_float, as_real, check_lr, check_not_negative

__all__ = ["Adagrad"]


class Adagrad(ElementwiseOptimizer):
    """Steps divided by the root of the sum of all squared gradients (Duchi and others)."""

    _sparse = True

    def __init__(
        self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
        foreach=None, *, maximize=False, differentiable=False, fused=None,
    ):
        check_lr(lr)
        check_not_negative("lr_decay", lr_decay)
        check_not_negative("weight_decay", weight_decay)
        check_not_negative("initial_accumulator_value", initial_accumulator_value)
        check_not_negative("epsilon", eps)
        if fused and (differentiable or foreach):
            other = "differentiable" if differentiable else "foreach"
            raise RuntimeError(f"`fused` and `{other}` cannot be `True` together.")
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        })
        for group in self.param_groups:
            for param in group["params"]:
                self._init_state(self.state[param], param, group)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("fused", None)

    def _init_state(self, state, param, group):
        start = group["initial_accumulator_value"]
        state["step"] = corten.tensor(0.0, dtype=corten.float32)
        start = complex(start, start) if param.is_complex() else start
        state["sum"] = corten.full_like(param, start, memory_format=corten.preserve_format)

    def share_memory(self):
        """Moves the sums to shared memory."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _update(self, param, grad, state, group):
        state["step"] += 1
        step = state["step"].item()
        if group["weight_decay"] != 0:
            if grad.is_sparse:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            grad = grad.add(param, alpha=group["weight_decay"])
        rate = as_float(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        if grad.is_sparse:
            self._update_sparse(param, grad.coalesce(), state["sum"], rate, group["eps"])
            return
        param, grad, total = as_real(param, grad, state["sum"])
        total.addcmul_(grad, grad, value=1)
        root = total.sqrt()
        root = root + group["eps"] if group["differentiable"] else root.add_(group["eps"])
        param.addcdiv_(grad, root, value=-rate)

    @staticmethod
    def _update_sparse(param, grad, total, rate, eps):
        index, values, size = grad._indices(), grad._values(), grad.size()
        make = lambda data: corten.sparse_coo_tensor(index, data, size)  # noqa: E731
        total.add_(make(values.pow(2)))
        root = total.sparse_mask(grad)._values().sqrt_().add_(eps)
        param.add_(make(values / root), alpha=-rate)
