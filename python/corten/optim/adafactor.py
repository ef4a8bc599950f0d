"""Adafactor."""

from __future__ import annotations

import corten

from ._steps import ElementwiseOptimizer, as_float, check_lr, check_not_negative, new_step

__all__ = ["Adafactor"]


class Adafactor(ElementwiseOptimizer):
    """Adam's scaling with row and column means in place of full matrices (Shazeer and Stern)."""

    def __init__(
        self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *,
        foreach=None, maximize=False,
    ):
        check_lr(lr)
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0, but got {beta2_decay}")
        if eps[0] is not None and eps[0] < 0:
            raise ValueError(f"epsilon1 should be >= 0, but got {eps[0]}")
        check_not_negative("epsilon2", eps[1])
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1, but got {d}")
        check_not_negative("weight_decay", weight_decay)
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
            "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
        })

    def _init_state(self, state, param, group):
        grad = param.grad
        state["step"] = new_step(param)
        if grad.dim() > 1:
            rows, cols = list(grad.shape), list(grad.shape)
            rows[-1], cols[-2] = 1, 1
            state["row_var"] = grad.new_zeros(rows)
            state["col_var"] = grad.new_zeros(cols)
        else:
            state["variance"] = corten.zeros_like(grad, memory_format=corten.preserve_format)

    def _update(self, param, grad, state, group):
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        eps1, eps2 = group["eps"]
        eps1 = corten.finfo(param.dtype).eps if eps1 is None else eps1
        state["step"] += 1
        step, lr = state["step"].item(), as_float(group["lr"])
        weight = step ** group["beta2_decay"]
        size = param.norm(2).item() / param.numel() ** 0.5
        rate = max(eps2, size) * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        variance = self._variance(grad, state, weight, eps1)
        update = variance.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        length = update.norm(2).item() / (update.numel() ** 0.5 * group["d"])
        param.add_(update, alpha=-rate / max(1.0, length))

    @staticmethod
    def _variance(grad, state, weight, eps1):
        """The running mean of squared gradients; for matrices the product of its marginals."""
        if grad.dim() <= 1:
            state["variance"].lerp_(grad.square(), weight)
            return state["variance"].clone()
        rows, cols = state["row_var"], state["col_var"]
        rows.lerp_(grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1)), weight)
        cols.lerp_(grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2)), weight)
        return (rows @ cols).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=eps1))
