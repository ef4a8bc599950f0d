"""Scaling of losses: gradients in short dtypes stay clear of zero and infinity."""

from __future__ import annotations

import enum
import inspect
import warnings
from collections import abc, defaultdict

import corten

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """How far an optimizer is in the current iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh():
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _any_not_finite(grads):
    """Whether an element of tensors of one device and dtype is infinite or NaN, as a tensor of rank 0."""
    filled = [grad for grad in grads if grad.numel()]
    if filled and filled[0].is_cuda and not filled[0].is_complex():
        # The largest magnitudes: two launches for all tensors.
        return ~corten.isfinite(corten.stack(corten._foreach_norm(filled, float("inf")))).all()
    return ~corten.stack([corten.isfinite(grad).all() for grad in grads]).all()


class GradScaler:
    """Multiplies losses by a scale that grows while gradients are finite and shrinks, the step
    being skipped, when they are not.

    ``scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()``. Disabled, it passes
    everything through.
    """

    def __init__(
        self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5,
        growth_interval=2000, enabled=True,
    ):
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not corten.cuda.is_available():
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker = None
        self._per_optimizer_states = defaultdict(_fresh)

    def _check_scale_growth_tracker(self, funcname):
        fix = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
        for name in ("_scale", "_growth_tracker"):
            if getattr(self, name) is None:
                raise AssertionError(f"Attempted {funcname} but {name} is None.  {fix}")
        return self._scale, self._growth_tracker

    def _lazy_init_scale_growth_tracker(self, dev):
        if self._growth_tracker is not None:
            raise AssertionError("_growth_tracker initialized before _scale")
        self._scale = corten.full((), self._init_scale, dtype=corten.float32, device=dev)
        self._growth_tracker = corten.full(
            (), self._init_growth_tracker, dtype=corten.int32, device=dev
        )

    def scale(self, outputs):
        """A tensor, or tensors in containers, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, corten.Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * self._scale.to(device=outputs.device, non_blocking=True)
        if isinstance(outputs, abc.Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        """Divides gradients in place; whether one is not finite, by device."""
        lists = {}
        for group in optimizer.param_groups:
            for param in group["params"]:
                if not isinstance(param, corten.Tensor):
                    raise AssertionError(f"expected Tensor, got {type(param)}")
                if param.grad is None:
                    continue
                if not allow_fp16 and param.grad.dtype == corten.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                grad = param.grad
                if grad.is_sparse:
                    if grad.dtype is corten.float16:
                        param.grad = grad = grad.coalesce()
                    grad = grad._values()
                lists.setdefault((grad.device, grad.dtype), []).append(grad)
        found = {}
        for (device, _), grads in lists.items():
            bad = _any_not_finite(grads)
            found[device] = (bad | found[device].bool()).float() if device in found else bad.float()
            corten._foreach_mul_(grads, inv_scale.to(device))
        return found

    def unscale_(self, optimizer):
        """Divides an optimizer's gradients by the scale, for clipping; :meth:`step` does it else."""
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = self._scale.double().reciprocal().float()
        found_inf = corten.full((), 0.0, dtype=corten.float32, device=self._scale.device)
        with corten.no_grad():
            found = self._unscale_grads_(optimizer, inverse, found_inf, False)
        state["found_inf_per_device"] = found
        state["stage"] = OptState.UNSCALED

    def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
        if sum(v.item() for v in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def step(self, optimizer, *args, **kwargs):
        """``optimizer.step(*args, **kwargs)`` if the gradients are finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_of_its_own(optimizer, state, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_of_its_own(self, optimizer, state, args, kwargs):
        """For optimizers that unscale and skip by themselves."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            kwargs["grad_scaler"] = self
        else:
            if state["stage"] is OptState.READY:
                self._check_inf_per_device(optimizer)
            optimizer.grad_scale = None if state["stage"] is OptState.UNSCALED else self._scale
            optimizer.found_inf = sum(state["found_inf_per_device"].values())
        result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        for name in ("grad_scale", "found_inf"):
            if hasattr(optimizer, name):
                delattr(optimizer, name)
        return result

    def update(self, new_scale=None):
        """Adapts the scale after the steps of an iteration, or sets it to ``new_scale``."""
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            self._set_scale(new_scale)
        else:
            found = [
                value for state in self._per_optimizer_states.values()
                for value in state["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(scale, tracker, any(value.item() for value in found))
        self._per_optimizer_states = defaultdict(_fresh)

    def _set_scale(self, new_scale):
        if isinstance(new_scale, float):
            self._scale.fill_(new_scale)
            return
        reason = (
            "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
            "torch.FloatTensor with requires_grad=False."
        )
        valid = isinstance(new_scale, corten.Tensor) and new_scale.dtype is corten.float32
        if not valid or new_scale.numel() != 1 or new_scale.requires_grad:
            raise AssertionError(reason)
        self._scale.copy_(new_scale)

    def _adapt(self, scale, tracker, overflowed):
        if overflowed:
            scale.mul_(self._backoff_factor)
            tracker.fill_(0)
            return
        tracker.add_(1)
        if tracker.item() == self._growth_interval:
            grown = scale * self._growth_factor
            if grown.isfinite().item():
                scale.copy_(grown)
            tracker.fill_(0)

    def _get_scale_async(self):
        return self._scale

    def get_scale(self):
        """The scale as a number, 1.0 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        """What the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """Sets what the scale grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """What the scale shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """Sets what the scale shrinks by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """How many iterations without overflow make the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """Sets how many iterations without overflow make the scale grow."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        if self._growth_tracker is None:
            return self._init_growth_tracker
        return int(self._growth_tracker.item())

    def is_enabled(self):
        """Whether losses are scaled."""
        return self._enabled

    def state_dict(self):
        """What :meth:`load_state_dict` takes; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict):
        """Continues from the state of another scaler."""
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self):
        state = self.__dict__.copy()
        if self._enabled:
            if len(self._per_optimizer_states) != 0:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or "
                    "at the end after scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)

    def _check_inf_per_device(self, optimizer):
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        one = corten.full((), 1.0, dtype=corten.float32, device=scale.device)
        found_inf = corten.full((), 0.0, dtype=corten.float32, device=scale.device)
        state = self._per_optimizer_states[id(optimizer)]
        with corten.no_grad():
            found = self._unscale_grads_(optimizer, one, found_inf, True)
        state["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer):
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
