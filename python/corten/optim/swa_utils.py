"""Averages of weights over training."""

from __future__ import annotations

import itertools
import math
from copy import deepcopy

import corten
from corten.nn import Module

from .lr_scheduler import LRScheduler
from .lr_scheduler.base import close, spread

__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]


def get_ema_avg_fn(decay=0.999):
    """An exponential mean of one tensor."""
    _check_decay(decay)

    @corten.no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay=0.999):
    """An exponential mean of lists of tensors, in place."""
    _check_decay(decay)

    @corten.no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        for mean, current in zip(ema_param_list, current_param_list):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(current, 1 - decay)
            else:
                mean.copy_(mean * decay + current * (1 - decay))

    return ema_update


def get_swa_avg_fn():
    """A plain mean of one tensor."""

    @corten.no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_swa_multi_avg_fn():
    """A plain mean of lists of tensors, in place."""

    @corten.no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        for mean, current in zip(averaged_param_list, current_param_list):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(current, 1 / (int(num_averaged) + 1))
            else:
                mean.add_((current - mean) // (int(num_averaged) + 1))

    return swa_update


class AveragedModel(Module):
    """A copy of a model that holds the average of its parameters."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", corten.tensor(0, dtype=corten.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _tensors(self, model):
        buffers = model.buffers() if self.use_buffers else ()
        return [tensor.detach() for tensor in itertools.chain(model.parameters(), buffers)]

    def update_parameters(self, model):
        """Takes the model's parameters into the average."""
        means, currents = self._tensors(self.module), self._tensors(model)
        count = int(self.n_averaged)
        if count == 0:
            for mean, current in zip(means, currents):
                mean.copy_(current)
        elif self.multi_avg_fn is not None or self.avg_fn is None:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            update(means, [c.to(m.device) for c, m in zip(currents, means)], self.n_averaged)
        else:
            for mean, current in zip(means, currents):
                mean.copy_(self.avg_fn(mean, current.to(mean.device), self.n_averaged))
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers()):
                own.detach().copy_(other.detach())
        self.n_averaged += 1


@corten.no_grad()
def update_bn(loader, model, device=None):
    """Recomputes the running statistics of batch normalisation over a loader."""
    from corten.nn.modules.batchnorm import _BatchNorm

    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals each group's rate to ``swa_lr`` and keeps it there."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        # An optimizer that has made steps and knows nothing of averages begins with them now, whatever the
        # number of the epoch is: trainers turn to averages in the middle of a run.
        stepped = bool(optimizer.state) or getattr(optimizer, "_opt_called", False)
        self._begins_now = stepped and not any("swa_lr" in group for group in optimizer.param_groups)
        for group, lr in zip(optimizer.param_groups, spread("swa_lr", swa_lr, optimizer)):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(
                f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}"
            )
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _done(self, step):
        done = max(0, min(1, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * done)) / 2 if self._anneal_strategy == "cos" else done

    def get_lr(self):
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._done(step - 1), self._done(step)
        rates = []
        for group in self.optimizer.param_groups:
            target, lr = group["swa_lr"], group["lr"]
            start = target if before == 1 else (lr - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates

    def _rates_of_epoch(self):
        done = self._done(max(1, self.last_epoch) if self.anneal_epochs == 0 else self.last_epoch)
        swa = [group["swa_lr"] for group in self.optimizer.param_groups]
        return [target * done + base * (1 - done) for target, base in zip(swa, self.base_lrs)]

    def _initial_step(self):
        super()._initial_step()
        del self._begins_now

    def _goes_on(self):
        """Whether the optimizer's rates are initial ones, or those of this or of the next epoch."""
        known = [self.base_lrs]
        for _ in range(2):
            known.append(self._rates_of_epoch())
            self.last_epoch += 1
        self.last_epoch -= 2
        return all(any(close(rate, one) for one in of_group) for rate, of_group in zip(self._rates(), zip(*known)))

    def _resume(self):
        if self._begins_now or not self._goes_on():
            return False
        resumed = super()._resume()
        self._step_count = self.last_epoch + 1
        return resumed
