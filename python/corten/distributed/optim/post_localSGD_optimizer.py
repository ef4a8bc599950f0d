"""An optimizer whose parameters are averaged over processes now and then."""

from __future__ import annotations

import warnings

import corten

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(corten.optim.Optimizer):
    """Steps as ``optim`` does, then has ``averager`` average the parameters (post-local SGD,
    https://arxiv.org/abs/1808.07217)."""

    def __init__(self, optim, averager):
        self.optim = optim
        self.param_groups = optim.param_groups
        self.averager = averager

    @property
    def state(self):
        """The state of the optimizer."""
        return self.optim.state

    def __repr__(self):
        return repr(self.optim)

    def state_dict(self):
        """The state of the optimizer, and the steps of the averager as ``step``."""
        state = self.optim.state_dict()
        state["step"] = self.averager.step
        return state

    def load_state_dict(self, state_dict):
        """Takes a state of :meth:`state_dict`."""
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self):
        """Steps, then averages if it is time."""
        self.optim.step()
        self.averager.average_parameters(params=self.param_groups)

    def zero_grad(self, set_to_none=True):
        """Forgets gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        """Adds a group to the optimizer."""
        self.optim.add_param_group(param_group)
