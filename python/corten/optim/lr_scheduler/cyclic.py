"""Schedules that rise and fall."""

from __future__ import annotations

import math
import types

from .base import LRScheduler, check_optimizer, copied, set_setting, spread


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines, each ``T_mult`` times as long as the one before, the first ``T_0``."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0, self.T_i, self.T_mult = T_0, T_0, T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        factor = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]

    def step(self, epoch=None):
        """Goes on by one epoch, or to ``epoch``, which may be a fraction."""
        if epoch is None and (self.last_epoch < 0 or self._is_initial):
            epoch = max(self.last_epoch + 1, 0)
            self._locate(epoch)
        elif epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            self._locate(epoch)
        self._step_count += 1
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            self._apply(self.get_lr())
        finally:
            self._get_lr_called_within_step = False

    def _locate(self, epoch):
        """The period that `epoch` is in, and how far."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
            return
        self.T_i, self.T_cur = self.T_0, epoch
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult


def _keep(_gamma, _x):
    return 1.0


def _halve(_gamma, x):
    return 1 / (2.0 ** (x - 1))


def _decay(gamma, x):
    return gamma**x


#: The heights of cycles, by mode.
_SCALES = {"triangular": _keep, "triangular2": _halve, "exp_range": _decay}


class CyclicLR(LRScheduler):
    """Triangles between ``base_lr`` and ``max_lr`` (Smith)."""

    def __init__(
        self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None,
        mode="triangular", gamma=1.0, scale_fn=None, scale_mode="cycle", cycle_momentum=True,
        base_momentum=0.8, max_momentum=0.9, last_epoch=-1,
    ):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        bases = spread("base_lr", base_lr, optimizer)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, bases):
                set_setting(group, "lr", lr)
        self.max_lrs = spread("max_lr", max_lr, optimizer)
        up = float(step_size_up)
        down = float(step_size_down) if step_size_down is not None else up
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in _SCALES and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom, self._scale_fn_ref = scale_fn, None
        self._choose_scale()
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_up_momentum(base_momentum, max_momentum, last_epoch)
        self._bases = bases
        super().__init__(optimizer, last_epoch)
        del self._bases

    def _initial_step(self):
        self.base_lrs = getattr(self, "_bases", self.base_lrs)
        super()._initial_step()

    def _set_up_momentum(self, base, largest, last_epoch):
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        self.base_momentums = spread("base_momentum", base, optimizer)
        self.max_momentums = spread("max_momentum", largest, optimizer)
        if last_epoch == -1:
            for group, high, low in zip(
                optimizer.param_groups, self.max_momentums, self.base_momentums
            ):
                _set_momentum(group, copied(high), self.use_beta1)
                group["max_momentum"], group["base_momentum"] = high, low

    def scale_fn(self, x):
        """How far towards the maximum a cycle or iteration goes."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return self._scale_fn_ref(self.gamma, x)

    def _choose_scale(self):
        if self._scale_fn_custom is None:
            self._scale_fn_ref = _SCALES[self.mode]

    def get_lr(self):
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums
            ):
                _set_momentum(group, high - (high - low) * height * scale, self.use_beta1)
        return [
            low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs)
        ]

    def state_dict(self):
        """All fields but the optimizer; of a custom scale only the state of callable objects."""
        state = super().state_dict()
        # Follows from the mode.
        state.pop("_scale_fn_ref")
        fn = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None
        if fn is not None and not isinstance(fn, types.FunctionType):
            state["_scale_fn_custom"] = fn.__dict__.copy()
        return state

    def load_state_dict(self, state_dict):
        """Takes back what :meth:`state_dict` gave."""
        state = dict(state_dict)
        saved = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)
        self._choose_scale()


def _set_momentum(group, value, use_beta1):
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class OneCycleLR(LRScheduler):
    """One rise to ``max_lr`` and one long fall far below the start (Smith and Topin)."""

    def __init__(
        self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None,
        pct_start=0.3, anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85,
        max_momentum=0.95, div_factor=25.0, final_div_factor=1e4, three_phase=False,
        last_epoch=-1,
    ):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = self._total(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = self._phases(float(pct_start * self.total_steps), three_phase)
        for group, high in zip(optimizer.param_groups, spread("max_lr", max_lr, optimizer)):
            if last_epoch == -1:
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
            elif "initial_lr" in group:
                group.setdefault("max_lr", high)
                group.setdefault("min_lr", group["initial_lr"] / final_div_factor)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_up_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _total(total_steps, epochs, steps_per_epoch):
        if total_steps is not None:
            if total_steps <= 0 or not isinstance(total_steps, int):
                raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
            return total_steps
        if epochs is None or steps_per_epoch is None:
            raise ValueError(
                "You must define either total_steps OR (epochs AND steps_per_epoch)"
            )
        for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
            if not isinstance(value, int) or value <= 0:
                raise ValueError(f"Expected positive integer {name}, but got {value}")
        return epochs * steps_per_epoch

    def _phases(self, rise, three_phase):
        """End step, and the names of first and last values of rate and momentum, per phase."""
        def phase(end, lr, momentum):
            return {
                "end_step": end, "start_lr": lr[0], "end_lr": lr[1],
                "start_momentum": momentum[0], "end_momentum": momentum[1],
            }

        up, down = ("initial_lr", "max_lr"), ("max_momentum", "base_momentum")
        last = float(self.total_steps - 1)
        if three_phase:
            return [
                phase(rise - 1, up, down),
                phase(2 * rise - 2, up[::-1], down[::-1]),
                phase(last, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
            ]
        return [phase(rise - 1, up, down), phase(last, ("max_lr", "min_lr"), down[::-1])]

    def _set_up_momentum(self, base, largest, last_epoch):
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        lows = spread("base_momentum", base, optimizer)
        highs = spread("max_momentum", largest, optimizer)
        for group, low, high in zip(optimizer.param_groups, lows, highs):
            if last_epoch == -1:
                _set_momentum(group, copied(high), self.use_beta1)
                group["max_momentum"], group["base_momentum"] = high, low
            group.setdefault("max_momentum", high)
            group.setdefault("base_momentum", low)

    @staticmethod
    def _annealing_cos(start, end, pct):
        return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)

    @staticmethod
    def _annealing_linear(start, end, pct):
        return (end - start) * pct + start

    def _anneal_func(self, start, end, done):
        kind = getattr(self, "_anneal_func_type", None)
        if kind is None:
            # Older versions saved the function.
            return self.anneal_func(start, end, done)
        return (self._annealing_cos if kind == "cos" else self._annealing_linear)(start, end, done)

    def get_lr(self):
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The total number of steps is {self.total_steps}"
            )
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, phase in enumerate(self._schedule_phases):
                end = phase["end_step"]
                if step <= end or i == len(self._schedule_phases) - 1:
                    # A phase may have no step but its last.
                    done = (step - start) / (end - start) if end != start else 1.0
                    break
                start = end
            rates.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self._anneal_func(*ends, done), self.use_beta1)
        return rates
