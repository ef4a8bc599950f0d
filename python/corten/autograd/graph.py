"""The recorded graph: nodes, edges, and hooks on what is saved."""

from __future__ import annotations

import abc
import contextlib
import functools
from typing import NamedTuple

from corten import _C
from corten._C import Tensor

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "queue_callback", "region_activation_memory_budget",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
    "set_override_stale_capture_stream", "set_warn_on_accumulate_grad_stream_mismatch",
]


class Node(abc.ABC):
    """A recorded operator, as ``tensor.grad_fn`` gives it."""

    @classmethod
    def __subclasshook__(cls, other):
        if cls is Node and issubclass(other, (_C._Node, _C._FunctionBase)):
            return True
        return NotImplemented


class GradientEdge(NamedTuple):
    """Where a gradient flows: an input of a node."""

    node: Node
    output_nr: int
    ownership_token: object = None


def get_gradient_edge(tensor):
    """The edge along which a tensor's gradient flows."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node = tensor.grad_fn
    return GradientEdge(_C._grad_accumulator(tensor) if node is None else node, tensor.output_nr)


def increment_version(tensor):
    """Tells autograd that a tensor was modified behind its back."""
    for one in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _C._increment_version(one)


def queue_callback(callback):
    """Calls a function when the backward pass that is running has ended without an error.

    Raises:
        RuntimeError: No backward pass is running.
    """
    if _C._current_graph_task_id() == -1:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    _C._queue_callback(callback)


@contextlib.contextmanager
def _refused_budget():
    raise RuntimeError(
        "torch.autograd.graph.region_activation_memory_budget can only be used inside a "
        "torch.compile region; it has no effect in eager mode."
    )
    yield


def region_activation_memory_budget(budget):
    """For regions that are compiled: outside of these, as here, it is refused when it is entered.

    Raises:
        ValueError: The budget is not between 0 and 1.
    """
    if not 0 <= budget <= 1:
        raise ValueError(
            "torch.autograd.graph.region_activation_memory_budget: must be in [0, 1], got "
            f"{budget}"
        )
    return _refused_budget()


def _check_switch(enabled):
    if not isinstance(enabled, bool):
        raise RuntimeError(f"enabled must be a bool, but got {type(enabled).__name__}")


def set_override_stale_capture_stream(enabled):
    """What happens with streams of GPUs that a capture left behind; the CPU has none."""
    _check_switch(enabled)


def set_warn_on_accumulate_grad_stream_mismatch(enabled):
    """Whether to warn of gradients from another stream of a GPU; the CPU has none."""
    _check_switch(enabled)


class saved_tensors_hooks:
    """Packs tensors as they are saved for the backward pass, and unpacks them when needed."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *args):
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps what is saved on the host."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            return tensor.device, tensor.cpu()

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """Makes the use of such hooks an error."""
    before = _C._set_saved_tensors_hooks_disabled(error_message)
    try:
        yield
    finally:
        _C._set_saved_tensors_hooks_disabled(before)


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """Lets tensors be modified in place after they were saved: what is saved is a copy."""
    def pack(tensor):
        return tensor.detach().clone()

    with saved_tensors_hooks(pack, lambda packed: packed):
        yield


class _MultiHandle:
    def __init__(self, handles):
        self.handles = handles

    def remove(self):
        """Removes the hooks."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls ``fn`` when the gradients of all tensors, or of the first one, are there."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = list(tensors)
    state = {}

    def hook(index, grad):
        task = _C._current_graph_task_id()
        if state.get("task") != task:
            state.update(task=task, grads=[None] * len(tensors), left=len(tensors), called=False)
        state["grads"][index] = grad
        state["left"] -= 1
        if mode == "any":
            if not state["called"]:
                state["called"] = True
                fn(grad)
        elif state["left"] == 0:
            fn(state["grads"])

    return _MultiHandle([
        tensor.register_hook(functools.partial(hook, index)) for index, tensor in enumerate(tensors)
    ])
