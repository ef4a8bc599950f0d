"""L-BFGS."""

from __future__ import annotations

import corten

from ._steps import as_float, check_lr
from .optimizer import Optimizer

__all__ = ["LBFGS"]


def _cubic_minimum(x1, f1, g1, x2, f2, g2, bounds=None):
    """Where the cubic through two points with their slopes is least, within the bounds."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if not square >= 0:  # also when it is not a number
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        position = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        position = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(position, low), high)


class _Point:
    """A step length with the loss, gradient and slope there."""

    __slots__ = ("t", "loss", "grad", "slope")

    def __init__(self, t, loss, grad, slope):
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope


def _strong_wolfe(evaluate, t, d, loss, grad, slope, most, c1=1e-4, c2=0.9, tolerance=1e-9):
    """A step along `d` that satisfies the strong Wolfe conditions: (loss, grad, t, evaluations).

    It is looked for in at most ``most`` rounds.
    """
    d_norm = d.abs().max()
    start = _Point(0, loss, grad.clone(memory_format=corten.contiguous_format), slope)

    def at(t):
        loss_t, grad_t = evaluate(t)
        return _Point(t, loss_t, grad_t.clone(memory_format=corten.contiguous_format), grad_t.dot(d))

    def too_high(point):
        return point.loss > start.loss + c1 * point.t * start.slope

    previous, current = start, at(t)
    evaluations, bracket = 1, None
    for i in range(most):
        if too_high(current) or (i > 1 and current.loss >= previous.loss):
            bracket = [previous, current]
            break
        if abs(current.slope) <= -c2 * start.slope:
            return current.loss, current.grad, current.t, evaluations
        if current.slope >= 0:
            bracket = [previous, current]
            break
        low = current.t + 0.01 * (current.t - previous.t)
        t = _cubic_minimum(
            previous.t, previous.loss, previous.slope, current.t, current.loss, current.slope,
            bounds=(low, current.t * 10),
        )
        previous, current = current, at(t)
        evaluations += 1
    else:
        bracket = [start, current]
        i = most
    best, more = _zoom(at, bracket, too_high, start, c2, d_norm, tolerance, most - i)
    return best.loss, best.grad, best.t, evaluations + more


def _zoom(at, bracket, too_high, start, c2, d_norm, tolerance, most):
    """Narrows a bracket until a point of it satisfies the conditions; returns it and the cost."""
    # The lower end is the first one where both are equally low.
    lower = 0 if bracket[0].loss <= bracket[1].loss else 1
    evaluations, stalled = 0, False
    while evaluations < most:
        low, high = bracket[lower], bracket[1 - lower]
        if abs(high.t - low.t) * d_norm < tolerance:
            break
        first, second = bracket
        t = _cubic_minimum(
            first.t, first.loss, first.slope, second.t, second.loss, second.slope
        )
        left, right = min(low.t, high.t), max(low.t, high.t)
        margin = 0.1 * (right - left)
        near_end = min(right - t, t - left) < margin
        if near_end and (stalled or t >= right or t <= left):
            # Near an end twice in a row, or at it: move in by a tenth.
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            near_end = False
        stalled = near_end
        point = at(t)
        evaluations += 1
        if too_high(point) or point.loss >= low.loss:
            bracket[1 - lower] = point
            lower = 0 if bracket[0].loss <= bracket[1].loss else 1
            continue
        if abs(point.slope) <= -c2 * start.slope:
            return point, evaluations
        if point.slope * (high.t - low.t) >= 0:
            bracket[1 - lower] = low
        bracket[lower] = point
    return bracket[lower], evaluations


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last ``history_size`` changes of the gradient.

    ``step`` needs a closure that recomputes the loss. One parameter group only.
    """

    def __init__(
        self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
        history_size=100, line_search_fn=None, *, maximize=False,
    ):
        check_lr(lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn, "maximize": maximize,
        })
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("maximize", False)

    def _flat_grad(self):
        pieces = []
        for param in self._params:
            grad = param.grad
            if grad is None:
                grad = corten.zeros_like(param)
            elif grad.is_sparse:
                grad = grad.to_dense()
            pieces.append((corten.view_as_real(grad) if grad.is_complex() else grad).reshape(-1))
        return corten.cat(pieces)

    def _move(self, t, direction):
        offset = 0
        for param in self._params:
            own = corten.view_as_real(param) if param.is_complex() else param
            own.add_(direction[offset:offset + own.numel()].view_as(own), alpha=as_float(t))
            offset += own.numel()

    def _evaluate(self, closure, start, t, direction):
        """Loss and gradient at a distance, leaving the parameters where they were."""
        self._move(t, direction)
        loss = float(closure())
        grad = self._gradient()
        for param, value in zip(self._params, start):
            param.copy_(value)
        return loss, grad

    def _gradient(self):
        grad = self._flat_grad()
        return -grad if self.param_groups[0]["maximize"] else grad

    @corten.no_grad()
    def step(self, closure):
        """Up to ``max_iter`` iterations; returns the loss of the first evaluation."""
        with_grad = corten.enable_grad()(closure)
        if not self._params:
            return with_grad()
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = with_grad()
        loss = float(first_loss)
        if group["maximize"]:
            loss = -loss
        state["func_evals"] += 1
        grad = self._gradient()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        sign = -1 if group["maximize"] else 1
        _Run(self, group, state, lambda: sign * float(with_grad())).iterate(loss, grad)
        return first_loss


class _Run:
    """The iterations of one step, continuing from those before."""

    def __init__(self, optimizer, group, state, closure):
        self.optimizer, self.group, self.state, self.closure = optimizer, group, state, closure
        self.evaluations = 1
        self.old_dirs = state.get("old_dirs", [])
        self.old_stps = state.get("old_stps", [])
        self.ro = state.get("ro", [])
        self.h_diag = state.get("H_diag")
        self.d, self.t = state.get("d"), state.get("t")
        self.previous_grad, self.previous_loss = state.get("prev_flat_grad"), state.get("prev_loss")

    def iterate(self, loss, grad):
        group, state = self.group, self.state
        lr = group["lr"]
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            self._update_direction(grad)
            self.previous_grad = grad.clone(memory_format=corten.contiguous_format)
            self.previous_loss = loss
            if state["n_iter"] == 1:
                self.t = min(1.0, 1.0 / grad.abs().sum()) * lr
            else:
                self.t = lr
            slope = grad.dot(self.d)
            if slope > -group["tolerance_change"]:
                break
            loss, grad, flat, used = self._advance(loss, grad, slope, iterations)
            self.evaluations += used
            state["func_evals"] += used
            if iterations == group["max_iter"] or self.evaluations >= group["max_eval"] or flat:
                break
            if self.d.mul(self.t).abs().max() <= group["tolerance_change"]:
                break
            if abs(loss - self.previous_loss) < group["tolerance_change"]:
                break
        self._save()

    def _advance(self, loss, grad, slope, iterations):
        """Moves along the direction: new loss and gradient, whether it is flat, evaluations."""
        optimizer, group = self.optimizer, self.group
        used = 0
        if group["line_search_fn"] is not None:
            if group["line_search_fn"] != "strong_wolfe":
                raise RuntimeError("only 'strong_wolfe' is supported")
            start = [p.clone(memory_format=corten.contiguous_format) for p in optimizer._params]
            evaluate = lambda t: optimizer._evaluate(self.closure, start, t, self.d)  # noqa: E731
            loss, grad, self.t, used = _strong_wolfe(
                evaluate, self.t, self.d, loss, grad, slope, group["max_eval"] - self.evaluations
            )
            optimizer._move(self.t, self.d)
            return loss, grad, grad.abs().max() <= group["tolerance_grad"], used
        optimizer._move(self.t, self.d)
        flat = False
        if iterations != group["max_iter"]:
            # The last evaluation is left to the next call.
            loss = self.closure()
            grad = optimizer._gradient()
            flat = grad.abs().max() <= group["tolerance_grad"]
            used = 1
        return loss, grad, flat, used

    def _update_direction(self, grad):
        if self.state["n_iter"] == 1:
            self.d, self.h_diag = grad.neg(), 1
            self.old_dirs, self.old_stps, self.ro = [], [], []
            return
        y, s = grad.sub(self.previous_grad), self.d.mul(self.t)
        ys = y.dot(s)
        if ys > 1e-10:
            if len(self.old_dirs) == self.group["history_size"]:
                for kept in (self.old_dirs, self.old_stps, self.ro):
                    kept.pop(0)
            self.old_dirs.append(y)
            self.old_stps.append(s)
            self.ro.append(1.0 / ys)
            self.h_diag = ys / y.dot(y)
        q = grad.neg()
        al = [None] * len(self.old_dirs)
        for i in reversed(range(len(al))):
            al[i] = self.old_stps[i].dot(q) * self.ro[i]
            q.add_(self.old_dirs[i], alpha=-al[i])
        self.d = q.mul(self.h_diag)
        for i in range(len(al)):
            self.d.add_(self.old_stps[i], alpha=al[i] - self.old_dirs[i].dot(self.d) * self.ro[i])
        self.state["al"] = al + [None] * (self.group["history_size"] - len(al))

    def _save(self):
        self.state.update(
            d=self.d, t=self.t, old_dirs=self.old_dirs, old_stps=self.old_stps, ro=self.ro,
            H_diag=self.h_diag, prev_flat_grad=self.previous_grad, prev_loss=self.previous_loss,
        )
