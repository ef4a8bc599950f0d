"""Gradients: ``backward``, ``grad``, functions with gradients of their own, and modes."""

from __future__ import annotations

import importlib as _importlib
import operator
import sys as _sys

from corten import _C
from corten._C import Tensor
from corten.autograd.function import Function
from corten.autograd.grad_mode import (
    enable_grad, enforce_grad_layout_policy, inference_mode, no_grad, set_grad_enabled,
    set_multithreading_enabled,
)

__all__ = [
    "Function", "Variable", "backward", "detect_anomaly", "enable_grad",
    "enforce_grad_layout_policy", "forward_ad",
    "functional", "grad", "grad_mode", "gradcheck", "gradgradcheck", "graph", "inference_mode",
    "no_grad", "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled", "variable",
]

_SUBMODULES = (
    "anomaly_mode", "forward_ad", "function", "functional", "grad_mode", "gradcheck", "graph",
    "profiler", "profiler_util",
)
_LAZY = {
    "detect_anomaly": "anomaly_mode", "set_detect_anomaly": "anomaly_mode",
    "gradcheck": "gradcheck", "gradgradcheck": "gradcheck",
    "kineto_available": "profiler", "_profiler_enabled": "profiler", "is_multithreading_enabled": "grad_mode",
    "_force_original_view_tracking": "grad_mode",
}


class _Package(type(_sys)):
    """Keeps functions whose modules have the same name: importing a submodule binds it here."""

    def __setattr__(self, name, value):
        if name not in ("gradcheck", "variable") or not isinstance(value, type(_sys)):
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package


def variable(*args, **kwargs):
    """Deprecated: raises.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(
        "torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead"
    )


def _tuple(tensors):
    # A gradient edge is a tuple itself.
    single = isinstance(tensors, Tensor) or hasattr(tensors, "output_nr") or not hasattr(tensors, "__iter__")
    return (tensors,) if single else tuple(tensors)


def _nodes_to_tensors(tensors):
    """Tensors, and for gradient edges and nodes stand-ins that have the edge."""
    from corten.autograd.graph import GradientEdge, Node

    def tensor(one):
        if isinstance(one, Node):
            one = GradientEdge(one, 0)
        if not isinstance(one, GradientEdge):
            return one
        return _C._edge_tensor(one.node, one.output_nr)

    return tuple(map(tensor, tensors))


def backward(
    tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None,
    inputs=None,
):
    """Accumulates the gradients of ``tensors`` into the leaves they depend on.

    ``grad_tensors`` has the gradient with respect to each tensor; scalars need none.
    """
    if grad_variables is not None:
        import warnings

        warnings.warn("'grad_variables' is deprecated. Use 'grad_tensors' instead.", FutureWarning,
                      stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "'grad_tensors' and 'grad_variables' (deprecated) arguments both passed to "
                "backward(). Please only use 'grad_tensors'."
            )
        grad_tensors = grad_variables
    if inputs is not None and not isinstance(inputs, Tensor) and not tuple(inputs):
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    tensors = _nodes_to_tensors(_tuple(tensors))
    if grad_tensors is not None:
        grad_tensors = _tuple(grad_tensors)
    if inputs is not None:
        # Gradients are accumulated into leaves, not into what stands for them.
        inputs = [getattr(getattr(one, "node", one), "variable", one) for one in _tuple(inputs)]
        inputs = _nodes_to_tensors(inputs)
    if _C.has_torch_function(tensors):
        from corten._parts_tensor import recorded

        tensors = tuple(map(recorded, tensors))
        grad_tensors = grad_tensors and tuple(map(recorded, grad_tensors))
        inputs = inputs and tuple(map(recorded, inputs))
    _C._autograd_backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


def grad(
    outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
    allow_unused=None, is_grads_batched=False, materialize_grads=False,
):
    """The gradients of ``outputs`` with respect to ``inputs``, one per input."""
    if not only_inputs:
        import warnings

        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning, stacklevel=2,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    outputs, inputs = _nodes_to_tensors(_tuple(outputs)), _tuple(inputs)
    given, inputs = inputs, _nodes_to_tensors(inputs)
    if grad_outputs is not None:
        grad_outputs = _tuple(grad_outputs)
    if is_grads_batched:
        return _batched_grad(outputs, inputs, grad_outputs, retain_graph, create_graph,
                             allow_unused, materialize_grads)
    overridden = (*outputs, *inputs)
    if _C.has_torch_function(overridden):
        from corten.overrides import handle_torch_function

        return handle_torch_function(
            grad, overridden, outputs, inputs, grad_outputs=grad_outputs,
            retain_graph=retain_graph, create_graph=create_graph, only_inputs=only_inputs,
            allow_unused=allow_unused, is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
    found = _C._autograd_grad(
        outputs, inputs, grad_outputs, retain_graph, create_graph, materialize_grads or allow_unused,
        materialize_grads and all(map(operator.is_, given, inputs)),
    )
    return tuple(map(_materialized, found, given)) if materialize_grads else found


def _materialized(found, given):
    """A gradient, or zeros like the tensor it is of."""
    if found is None and not isinstance(given, Tensor):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    return _C._functions.zeros_like(given).requires_grad_() if found is None else found


def _batched_grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, zeros):
    """One pass per row of the gradients; the results are stacked."""
    for place, (output, gradient) in enumerate(zip(outputs, grad_outputs)):
        if gradient is not None and gradient.shape[1:] != output.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                f"dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{place}] has a shape of {gradient.shape} and "
                f"output[{place}] has a shape of {output.shape}. If you only want some tensors in `grad_output` to be "
                "considered batched, consider using vmap."
            )
    count = next(grad.size(0) for grad in grad_outputs if grad is not None)
    rows = []
    for row in range(count):
        given = tuple(None if grad is None else grad[row] for grad in grad_outputs)
        keep = retain_graph or create_graph or row + 1 < count
        rows.append(_C._autograd_grad(
            outputs, inputs, given, keep, create_graph, allow_unused, zeros
        ))
    stack = _C._functions.stack
    return tuple(
        None if any(grad is None for grad in column) else stack(list(column))
        for column in zip(*rows)
    )


def __getattr__(name):
    if name in _LAZY:
        module = _importlib.import_module(f"corten.autograd.{_LAZY[name]}")
        value = getattr(module, name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return _importlib.import_module(f"corten.autograd.{name}")
    if name == "Variable":
        from corten.autograd.variable import Variable

        return Variable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_SUBMODULES, *_LAZY, "Variable"})
