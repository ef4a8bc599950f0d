"""Optimizers and schedules of their settings."""

from __future__ import annotations

from . import lr_scheduler, swa_utils  # noqa: F401
from ._swapping import swap_in_optimizer_params_and_state
from .adadelta import Adadelta
from .adafactor import Adafactor
from .adagrad import Adagrad
from .adam import Adam, AdamW
from .adamax import Adamax
from .asgd import ASGD
from .lbfgs import LBFGS
from .muon import Muon
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD
from .sparse_adam import SparseAdam

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam",
    "swap_in_optimizer_params_and_state",
]


def __getattr__(name):
    if name in ("functional", "_functional"):
        import importlib

        return importlib.import_module(f"corten.optim.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
