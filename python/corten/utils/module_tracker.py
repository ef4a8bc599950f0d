"""Which modules are running, in the forward and in the backward pass."""

from __future__ import annotations

import weakref

import corten
from corten import _C

from ..autograd.graph import register_multi_grad_hook
from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ._pytree import tree_flatten

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A ``with`` block in which ``parents`` holds the names of the modules that are running,
    ``Global`` among them.

    A module that no other contains is named by its class. In the backward pass a module runs from
    the gradients of its results to those of its arguments.
    """

    def __init__(self):
        self._forward, self._backward = {"Global"}, {"Global"}
        self._task = -1
        self._names, self._seen = weakref.WeakKeyDictionary(), weakref.WeakSet()
        self._hooks = []

    @property
    def is_bw(self):
        """Whether a backward pass is running."""
        return _C._current_graph_task_id() != -1

    @property
    def parents(self):
        """The names of the modules that are running."""
        task = _C._current_graph_task_id()
        if task == -1:
            return self._forward
        if task != self._task:  # modules whose arguments need no gradient were never left
            self._task, self._backward = task, {"Global"}
        return self._backward

    def _name(self, module):
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._seen:
            self._seen.add(module)
            for child, submodule in module.named_children():
                self._names[submodule] = f"{name}.{child}"
                self._name(submodule)
        return name

    def _when_differentiated(self, values, change, name):
        leaves, _ = tree_flatten(values)
        tensors = [x for x in leaves if isinstance(x, corten.Tensor) and x.requires_grad]
        if tensors:
            hook = register_multi_grad_hook(tensors, lambda *_: getattr(self.parents, change)(name))
            self._hooks.append(hook)

    def _enter(self, module, arguments):
        name = self._name(module)
        self.parents.add(name)
        self._when_differentiated(arguments, "discard", name)

    def _leave(self, module, arguments, result):
        name = self._name(module)
        self.parents.discard(name)
        self._when_differentiated(result, "add", name)

    def __enter__(self):
        self._hooks += [
            register_module_forward_pre_hook(self._enter), register_module_forward_hook(self._leave),
        ]
        return self

    def __exit__(self, *exception):
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
