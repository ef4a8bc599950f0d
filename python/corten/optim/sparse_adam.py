"""Adam for sparse gradients."""

from __future__ import annotations

import corten

from ._steps import ElementwiseOptimizer, check_betas, zeros_like

__all__ = ["SparseAdam"]


class SparseAdam(ElementwiseOptimizer):
    """Adam that moves only rows with a gradient, and their means."""

    _sparse = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        if isinstance(lr, corten.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        params = [param for group in self.param_groups for param in group["params"]]
        if any(param.is_complex() for param in params):
            raise ValueError("SparseAdam does not support complex parameters")
        dense_only = [
            (i, j) for i, group in enumerate(self.param_groups)
            for j, param in enumerate(group["params"]) if param.is_sparse
        ]
        if dense_only:
            raise ValueError(
                f"Sparse params at indices {dense_only}: SparseAdam requires dense parameter tensors"
            )

    def _init_state(self, state, param, group):
        state["step"] = 0
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)

    def __setstate__(self, state):
        super(ElementwiseOptimizer, self).__setstate__(state)
        for group in self.param_groups:
            group.setdefault("maximize", False)

    def _update(self, param, grad, state, group):
        if not grad.is_sparse:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        state["step"] += 1
        step, (beta1, beta2) = state["step"], group["betas"]
        grad = grad.coalesce()
        values = grad._values()
        if values.numel() == 0:
            return
        index, size = grad._indices(), grad.size()
        make = lambda data: corten.sparse_coo_tensor(index, data, size)  # noqa: E731
        old_mean = state["exp_avg"].sparse_mask(grad)._values()
        mean_update = values.sub(old_mean).mul_(1 - beta1)
        state["exp_avg"].add_(make(mean_update))
        old_square = state["exp_avg_sq"].sparse_mask(grad)._values()
        square_update = values.pow(2).sub_(old_square).mul_(1 - beta2)
        state["exp_avg_sq"].add_(make(square_update))
        mean = mean_update.add_(old_mean)
        root = square_update.add_(old_square).sqrt_().add_(group["eps"])
        rate = group["lr"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        param.add_(make(-rate * mean.div_(root)))
