"""Muon."""

from __future__ import annotations

import math

import corten

from ._steps import ElementwiseOptimizer, check_lr, check_not_negative, zeros_like

__all__ = ["Muon"]


def _orthogonalized(matrix, coefficients, steps, eps):
    """The nearest orthogonal matrix, by Newton–Schulz iteration in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = matrix.to(dtype=corten.bfloat16, copy=True)
    tall = x.size(0) > x.size(1)
    if tall:
        x = x.T
    x.div_(x.norm().clamp(min=eps))
    for _ in range(steps):
        gram = x @ x.T
        gram = corten.addmm(gram, gram, gram, beta=b, alpha=c)
        x = corten.addmm(x, gram, x, beta=a)
    return x.T if tall else x


def _adjusted(lr, how, shape):
    """The rate for a matrix of this shape."""
    rows, cols = shape[:2]
    if how is None or how == "original":
        return lr * math.sqrt(max(1, rows / cols))
    if how == "spectral_unclamped":
        return lr * math.sqrt(rows / cols)
    return lr * 0.2 * math.sqrt(max(rows, cols))  # match_rms_adamw


class Muon(ElementwiseOptimizer):
    """Momentum whose update, a matrix, is made orthogonal (Jordan and others)."""

    def __init__(
        self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
        ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None,
    ):
        check_lr(lr)
        if isinstance(lr, corten.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        check_not_negative("momentum", momentum)
        check_not_negative("weight decay", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw", "spectral_unclamped"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        })
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.size()}"
                    )

    def _step_one(self, param, group):
        if param.grad.is_sparse:
            raise RuntimeError("Muon does not support sparse gradients")
        state = self.state[param]
        if not state:
            state["momentum_buffer"] = zeros_like(param.grad)
        self._update(param, param.grad, state, group)

    def _update(self, param, grad, state, group):
        # A learning rate that is a tensor computes in its own dtype.
        lr, momentum = group["lr"], group["momentum"]
        if isinstance(lr, corten.Tensor) and lr.dim() != 0:
            lr = lr.squeeze()
        buffer = state["momentum_buffer"]
        buffer.lerp_(grad, 1 - momentum)
        update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        update = _orthogonalized(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(update, alpha=-_adjusted(lr, group["adjust_lr_fn"], param.shape))
