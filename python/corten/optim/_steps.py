"""The loop of the optimizers that update each parameter by itself."""

from __future__ import annotations

import corten

from .optimizer import Optimizer


def as_float(value):
    """A setting as a number: learning rates and betas may be tensors."""
    return value.item() if isinstance(value, corten.Tensor) else value


def as_setting(value):
    """A setting as a number, or as the tensor that it is where gradients are recorded for it."""
    if isinstance(value, corten.Tensor) and value.requires_grad and corten.is_grad_enabled():
        return value
    return as_float(value)


def add_scaled_(target, source, scale):
    """``target += scale * source``, where the scale may be a tensor."""
    if isinstance(scale, corten.Tensor):
        return target.add_(source * scale)
    return target.add_(source, alpha=scale)


def addcmul_scaled_(target, a, b, scale):
    """``target += scale * a * b``, where the scale may be a tensor."""
    if isinstance(scale, corten.Tensor):
        return target.add_(a * b * scale)
    return target.addcmul_(a, b, value=scale)


def addcdiv_scaled_(target, a, b, scale):
    """``target += scale * a / b``, where the scale may be a tensor."""
    if isinstance(scale, corten.Tensor):
        return target.add_(a / b * scale)
    return target.addcdiv_(a, b, value=scale)


def decayed(grad, param, decay):
    """A gradient with that of the weight decay, which may be a tensor."""
    if isinstance(decay, corten.Tensor):
        return grad + param.clone() * as_setting(decay)
    return grad.add(param, alpha=decay) if decay != 0 else grad


def as_real(*tensors):
    """Complex tensors seen as pairs of reals; others as they are."""
    return tuple(
        corten.view_as_real(t) if t is not None and t.is_complex() else t for t in tensors
    )


def new_step(param):
    """A step count, kept as a tensor as files of optimizers have it."""
    return corten.tensor(0.0, dtype=corten.float32)


def check_lr(lr, foreach=None, capturable=False):
    """Refuses negative rates and tensors of several elements."""
    if isinstance(lr, corten.Tensor):
        if foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_betas(betas):
    """Refuses betas outside [0, 1)."""
    for i, beta in enumerate(betas[:2]):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_not_negative(what, value):
    """Refuses values below 0."""
    if not 0.0 <= value:
        raise ValueError(f"Invalid {what} value: {value}")


def _is_ordinary(param):
    """Whether a parameter and its gradient are dense numbers on the CPU, and no wrappers."""
    grad, dtype = param.grad, param.dtype
    return (
        (dtype is corten.float32 or dtype is corten.float64)
        and grad.dtype is dtype
        and param.layout is corten.strided
        and grad.layout is corten.strided
        and param.is_cpu
        and grad.is_cpu
        and type(grad) is corten.Tensor
        and (type(param) is corten.nn.Parameter or type(param) is corten.Tensor)
    )


def _check_fused(params):
    """That parameters can be moved by a fused kernel.

    Raises:
        RuntimeError: Some have no data, or no floating point numbers.
    """
    for param in params:
        if not param.is_floating_point() or param.device.type not in ("cpu", "cuda"):
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of supported "
                f"devices: ['cpu', 'cuda'], but got one of {param.dtype} on {param.device}"
            )


class ElementwiseOptimizer(Optimizer):
    """An optimizer that is one function of a parameter, its gradient, its state and the settings.

    A class defines ``_init_state(param, group)`` and ``_update(param, grad, state, group)``. With
    ``_step_together(group, params)`` it also says how to move ordinary parameters of a group in one
    pass over their memory, with the same roundings.
    """

    _step_together = None

    _sparse = False
    _no_sparse = "{} does not support sparse gradients"
    _group_defaults = {"maximize": False, "foreach": None, "differentiable": False,
                       "capturable": False}

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._group_defaults.items():
                if name in self.defaults:
                    group.setdefault(name, value)
            for param in group["params"]:
                own = self.state.get(param, {})
                if "step" in own and not isinstance(own["step"], corten.Tensor):
                    own["step"] = corten.tensor(float(own["step"]), dtype=corten.float32)

    def step(self, closure=None):
        """Updates the parameters; ``closure`` recomputes the loss, which is returned."""
        loss = None
        if closure is not None:
            with corten.enable_grad():
                loss = closure()
        with corten.set_grad_enabled(bool(self.defaults.get("differentiable"))):
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _step_group(self, group):
        """Moves the parameters of a group that have a gradient."""
        params = [param for param in group["params"] if param.grad is not None]
        if group.get("fused"):
            _check_fused(params)
        if self._step_together is not None and params and self._is_fused(group, params):
            self._step_together(group, params)
            return
        for param in params:
            self._step_one(param, group)

    def _is_fused(self, group, params):
        """Whether the parameters are moved together."""
        return not (group["differentiable"] or group.get("capturable")) and all(
            map(_is_ordinary, params)
        )

    def _step_one(self, param, group):
        grad = param.grad
        self._check(grad)
        state = self._state_of(param, group)
        if group["maximize"]:
            grad = -grad
        self._update(param, grad, state, group)

    def _check(self, grad):
        """Refuses a gradient of a layout that the steps do not take."""
        if grad.is_sparse and not self._sparse:
            raise RuntimeError(self._no_sparse.format(type(self).__name__))

    def _state_of(self, param, group):
        """The state of a parameter, filled where it is empty."""
        state = self.state.get(param)
        if not state:
            state = {}
            self._init_state(state, param, group)
            if state:
                self.state[param] = state
        return state

    def _init_state(self, state, param, group):
        """Fills the empty state of a parameter."""
        raise NotImplementedError

    def _update(self, param, grad, state, group):
        """Moves one parameter."""
        raise NotImplementedError


def zeros_like(param):
    """A zero tensor with the layout of ``param`` in memory."""
    return corten.zeros_like(param, memory_format=corten.preserve_format)
