"""The steps of the optimizers as functions of lists: parameters, gradients, state.

They write to the parameters and to the state, and need ``no_grad`` where parameters require
gradients. ``state_steps`` are counted up, but those of ``sparse_adam``, which are numbers, are the
caller's to count.
"""

from __future__ import annotations

import inspect
from typing import NamedTuple

from .adadelta import Adadelta
from .adafactor import Adafactor
from .adagrad import Adagrad
from .adam import Adam, AdamW
from .adamax import Adamax
from .asgd import ASGD
from .muon import Muon
from .nadam import NAdam
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD
from .sparse_adam import SparseAdam


class _Step(NamedTuple):
    """How a function is called, and what its optimizer calls the parts of the state."""

    optimizer: type
    grads: str
    lists: dict
    options: str
    settings: str


_SWITCHES = "capturable=False differentiable=False has_complex=False"
_SCALED = "fused=None grad_scale=None found_inf=None"
_MOMENTS = {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq"}
_LARGEST = {**_MOMENTS, "max_exp_avg_sqs": "max_exp_avg_sq", "state_steps": "step"}
_ADAM = f"foreach=None capturable=False differentiable=False {_SCALED} has_complex=False"
_ADAM_SETTINGS = "amsgrad beta1 beta2 lr weight_decay eps maximize"
_STEPS = {
    "adadelta": _Step(
        Adadelta, "grads", {"square_avgs": "square_avg", "acc_deltas": "acc_delta",
                            "state_steps": "step"},
        "capturable=False foreach=None differentiable=False has_complex=False",
        "lr rho eps weight_decay maximize"),
    "adafactor": _Step(
        Adafactor, "grads", {"row_vars": "row_var", "col_vars": "col_var", "variances": "variance",
                             "state_steps": "step"},
        "foreach=None grad_scale=None found_inf=None has_complex=False",
        "d lr beta2_decay weight_decay eps1 eps2 maximize"),
    "adagrad": _Step(
        Adagrad, "grads", {"state_sums": "sum", "state_steps": "step"},
        f"{_SCALED} has_sparse_grad=False foreach=None differentiable=False has_complex=False",
        "lr weight_decay lr_decay eps maximize"),
    "adam": _Step(Adam, "grads", _LARGEST, f"{_ADAM} decoupled_weight_decay=False", _ADAM_SETTINGS),
    "adamax": _Step(
        Adamax, "grads", {"exp_avgs": "exp_avg", "exp_infs": "exp_inf", "state_steps": "step"},
        "foreach=None maximize=False differentiable=False capturable=False has_complex=False",
        "eps beta1 beta2 lr weight_decay"),
    "adamw": _Step(AdamW, "grads", _LARGEST, _ADAM, _ADAM_SETTINGS),
    "asgd": _Step(
        ASGD, "grads", {"axs": "ax", "mus": "mu", "etas": "eta", "state_steps": "step"},
        "foreach=None maximize=False differentiable=False capturable=False has_complex=False",
        "lambd lr t0 alpha weight_decay"),
    "muon": _Step(
        Muon, "grads", {"muon_momentum_bufs": "momentum_buffer"}, "",
        "foreach=None lr weight_decay momentum nesterov ns_coefficients ns_steps eps adjust_lr_fn "
        "has_complex"),
    "nadam": _Step(
        NAdam, "grads", {**_MOMENTS, "mu_products": "mu_product", "state_steps": "step"},
        f"decoupled_weight_decay=False foreach=None {_SWITCHES} maximize=False",
        "beta1 beta2 lr weight_decay momentum_decay eps"),
    "radam": _Step(
        RAdam, "grads", {**_MOMENTS, "state_steps": "step"},
        "decoupled_weight_decay=False foreach=None differentiable=False capturable=False "
        "has_complex=False maximize=False", "beta1 beta2 lr weight_decay eps"),
    "rmsprop": _Step(
        RMSprop, "grads", {"square_avgs": "square_avg", "grad_avgs": "grad_avg",
                           "momentum_buffer_list": "momentum_buffer", "state_steps": "step"},
        "foreach=None maximize=False differentiable=False capturable=False has_complex=False",
        "lr alpha eps weight_decay momentum centered"),
    "rprop": _Step(
        Rprop, "grads", {"prevs": "prev", "step_sizes": "step_size", "state_steps": "step"},
        "foreach=None capturable=False maximize=False differentiable=False has_complex=False",
        "step_size_min step_size_max etaminus etaplus"),
    "sgd": _Step(
        SGD, "d_p_list", {"momentum_buffer_list": "momentum_buffer"},
        f"has_sparse_grad=False foreach=None {_SCALED}",
        "weight_decay momentum lr dampening nesterov maximize"),
    "sparse_adam": _Step(
        SparseAdam, "grads", {**_MOMENTS, "state_steps": "step"}, "",
        "eps beta1 beta2 lr maximize"),
}
__all__ = sorted(_STEPS)

#: Settings that optimizers keep in pairs.
_PAIRS = {"betas": ("beta1", "beta2"), "eps": ("eps1", "eps2"), "etas": ("etaminus", "etaplus"),
          "step_sizes": ("step_size_min", "step_size_max")}
_DEFAULTS = {"None": None, "False": False}


def _signature(step):
    kinds = inspect.Parameter
    names = ("params", step.grads, *step.lists, *step.options.split())
    found = [_parameter(name, kinds.POSITIONAL_OR_KEYWORD) for name in names]
    found += [_parameter(name, kinds.KEYWORD_ONLY) for name in step.settings.split()]
    return inspect.Signature(found)


def _parameter(text, kind):
    name, given, default = text.partition("=")
    options = {"default": _DEFAULTS[default]} if given else {}
    return inspect.Parameter(name, kind, **options)


def _group(step, arguments):
    """The arguments as the settings of a group."""
    group = {"maximize": False, "differentiable": False, "foreach": None, **arguments}
    for name, pair in _PAIRS.items():
        if pair[0] in arguments:
            group[name] = tuple(arguments[one] for one in pair)
    group.setdefault("decoupled_weight_decay", step.optimizer is AdamW)
    return group


def _function(name, step):
    signature = _signature(step)

    def function(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        if arguments.get("grad_scale") is not None or arguments.get("found_inf") is not None:
            raise RuntimeError(
                "grad_scale and found_inf are for fused kernels, which move whole lists: see "
                "Adam(..., fused=True)"
            )
        group = _group(step, arguments)
        # Without a list of parameters: only what moves one of them is asked for.
        optimizer = step.optimizer.__new__(step.optimizer)
        for place, (param, grad) in enumerate(zip(arguments["params"], arguments[step.grads])):
            _move(optimizer, step, group, param, grad, arguments, place)

    function.__name__ = function.__qualname__ = name
    function.__signature__ = signature
    function.__doc__ = f"One step of :class:`corten.optim.{step.optimizer.__name__}`, in place."
    return function


def _move(optimizer, step, group, param, grad, arguments, place):
    state = {}
    for argument, key in step.lists.items():
        values = arguments[argument]
        if place < len(values) and values[place] is not None:
            state[key] = values[place]
    counted = isinstance(state.get("step"), int)
    if counted:
        state["step"] -= 1  # the caller has counted this step
    optimizer._update(param, -grad if group["maximize"] else grad, state, group)
    for argument, key in step.lists.items():
        values = arguments[argument]
        if place < len(values) and not (counted and key == "step"):
            values[place] = state.get(key, values[place])


globals().update((name, _function(name, step)) for name, step in _STEPS.items())
