"""What every schedule of learning rates shares."""

from __future__ import annotations

import math
import warnings
import weakref

import corten

from ..optimizer import Optimizer


def copied(value):
    return value.clone() if isinstance(value, corten.Tensor) else value


def set_setting(group, name, value):
    """Sets a setting; a tensor keeps its identity."""
    if isinstance(group[name], corten.Tensor):
        if isinstance(value, corten.Tensor):
            group[name].copy_(value)
        else:
            group[name].fill_(value)
    else:
        group[name] = value


def spread(name, value, optimizer):
    """One value per group; tensors are copied, as their owner may change them."""
    if isinstance(value, (list, tuple)):
        if len(value) != len(optimizer.param_groups):
            raise ValueError(
                f"{name} must have the same length as optimizer.param_groups. {name} has "
                f"{len(value)} values, param_groups has {len(optimizer.param_groups)}."
            )
        return [copied(one) for one in value]
    return [copied(value) for _ in optimizer.param_groups]


def close(a, b):
    """Whether two rates are the same but for rounding."""
    return math.isclose(float(a), float(b), rel_tol=1e-6)


def check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. The closed form of the schedule "
    "is used where an epoch is given."
)


class LRScheduler:
    """Sets the learning rates of all groups after each call of :meth:`step`.

    A schedule defines ``get_lr``, from ``self.last_epoch``, ``self.base_lrs`` and the rates the
    optimizer has now; so schedules can be chained.
    """

    _get_lr_called_within_step = False

    def __init__(self, optimizer, last_epoch=-1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", copied(group["lr"]))
        else:
            for i, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                        "an optimizer"
                    )
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        _count_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        """To the values of epoch 0."""
        self._step_count = 0
        self._is_initial = True
        try:
            if self.last_epoch < 0 or not self._resume():
                self.step()
        finally:
            self._is_initial = False

    def _rates_of_epoch(self):
        """The rates of ``self.last_epoch`` from the base rates alone; None where no formula is known."""
        owner = next(kind for kind in type(self).__mro__ if "get_lr" in vars(kind))
        return self._get_closed_form_lr() if "_get_closed_form_lr" in vars(owner) else None

    def _resume(self):
        """Goes on behind ``last_epoch``, wherever the optimizer's rates are from; false without a formula.

        The rates may be the initial ones, or those of this or of the next epoch from a file. Rates that are
        neither belong to several schedules together, and are taken to be the next epoch's.
        """
        before = self._rates_of_epoch()
        if before is None:
            return False
        self._step_count += 1
        self.last_epoch += 1
        now, rates = self._rates_of_epoch(), self._rates()
        # Another schedule may have begun behind the same epoch, from the initial rates.
        started = self.optimizer.__dict__.setdefault("_rates_begun_anew", {})
        for i, (rate, base) in enumerate(zip(self._rates(), self.base_lrs)):
            if i in started and close(rate, started[i]):
                rates[i] = rate * (now[i] / base) if float(base) else now[i]
            elif any(close(rate, known) for known in (base, before[i], now[i])):
                rates[i] = now[i]
            else:
                continue
            if i in started or close(rate, base):
                started[i] = copied(rates[i])
        self._apply(rates)
        return True

    def state_dict(self):
        """All fields but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict):
        """Takes back what :meth:`state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self):
        """The rates last set."""
        return self._last_lr

    def get_lr(self):
        """The rates of ``self.last_epoch``."""
        raise NotImplementedError

    def _rates(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch=None):
        """Goes on by one epoch (or to ``epoch``) and sets the rates."""
        self._step_count += 1
        self._warn_of_order()
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = self.get_lr() if closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        self._apply(values)

    def _apply(self, values):
        for group, lr in zip(self.optimizer.param_groups, values):
            set_setting(group, "lr", lr)
        self._last_lr = [copied(rate) for rate in self._rates()]

    def _warn_of_order(self):
        if self._step_count != 2:
            return
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            message = (
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                "`lr_scheduler.step()`."
            )
        elif not getattr(self.optimizer, "_opt_called", True):
            message = (
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: `optimizer.step()` "
                "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping "
                "the first value of the learning rate schedule."
            )
        else:
            return
        where = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
        warnings.warn(f"{message} See more details at {where}", UserWarning, stacklevel=3)

    def _warn_outside_step(self):
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                stacklevel=3,
            )


def _count_steps(optimizer):
    """Makes `optimizer.step` note that it was called, to warn of a wrong order."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    step = optimizer.step.__func__
    ref = weakref.ref(optimizer)

    def noted_step(*args, **kwargs):
        owner = ref()
        owner._opt_called = True
        return step.__get__(owner, type(owner))(*args, **kwargs)

    noted_step._wrapped_by_lr_sched = True
    noted_step.__func__ = step
    optimizer._opt_called = False
    optimizer.step = noted_step
