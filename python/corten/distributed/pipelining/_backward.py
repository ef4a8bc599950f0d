"""Backward in two parts: the gradients of a stage's inputs, which another stage waits for, and those of its weights.

The *path* are the nodes that lead to an input. A node of it that leads to weights beside the path, such as that of a
matrix product, runs once for its inputs; the gradients that it gets then are kept, and it runs again for its weights.
"""

from __future__ import annotations

import corten
from corten.autograd.graph import GradientEdge

__all__: list = []


def nodes_below(roots):
    """The nodes that roots lead to, themselves too; every node comes before those that it leads to."""
    order, state = [], {}
    stack = [(root, False) for root in roots if root is not None]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
            continue
        if node in state:
            continue
        state[node] = True
        stack.append((node, True))
        stack += [(child, False) for child, _ in node.next_functions if child is not None and child not in state]
    order.reverse()
    return order


def _variable(node):
    return getattr(node, "variable", None)


class _Weights:
    """The nodes at which weights meet the path, and which weights are met there alone."""

    def __init__(self, roots, inputs):
        order = nodes_below(roots)
        wanted = {id(value) for value in inputs}
        self.path, below = set(), {}
        for node in reversed(order):
            children = [child for child, _ in node.next_functions if child is not None]
            variable = _variable(node)
            if variable is not None and id(variable) in wanted or any(child in self.path for child in children):
                self.path.add(node)
                continue
            own = {} if variable is None else {id(variable): variable}
            for child in children:
                own.update(below[child])
            below[node] = own
        self.met = {}
        for node in order:
            if node in self.path:
                found = {}
                for child, _ in node.next_functions:
                    found.update(below.get(child, {}))
                if found:
                    self.met[node] = found
            elif node in roots:
                self.met[node] = below[node]
        counts: dict = {}
        for found in self.met.values():
            for key in found:
                counts[key] = counts.get(key, 0) + 1
        #: Weights that are met in several places: what leads to them is more than one node.
        self.several = {
            key: value for found in self.met.values() for key, value in found.items() if counts[key] > 1
        }


class SplitBackward:
    """Runs backward for the inputs at once, and for the weights when it is asked for.

    Args:
        outputs: Tensors that need a gradient.
        grads: Their gradients.
        inputs: Leaves.

    Attributes:
        input_grads: For each input the gradient, or nothing where it was not used.
    """

    def __init__(self, outputs, grads, inputs):
        self._outputs, self._grads = list(outputs), list(grads)
        roots = [output.grad_fn for output in outputs if output.grad_fn is not None]
        self._weights = _Weights(roots, inputs)
        self._kept = {}
        for output, grad in zip(self._outputs, self._grads):
            if output.grad_fn is not None and output.grad_fn not in self._weights.path:
                edges = self._kept.setdefault(output.grad_fn, {})
                place = output.output_nr
                edges[place] = grad if place not in edges else edges[place] + grad
        hooks = [
            node.register_prehook(self._keep(node)) for node in self._weights.met if node in self._weights.path
        ]
        try:
            self.input_grads = corten.autograd.grad(
                self._outputs, inputs, self._grads, retain_graph=True, allow_unused=True
            ) if inputs else ()
        finally:
            for hook in hooks:
                hook.remove()

    def _keep(self, node):
        def hook(grads):
            self._kept[node] = {i: grad for i, grad in enumerate(grads) if grad is not None}

        return hook

    def finish(self):
        """Adds up the gradients of the weights."""
        several = self._weights.several
        if several:
            corten.autograd.backward(
                self._outputs, self._grads, inputs=list(several.values()), retain_graph=True
            )
        for node, found in self._weights.met.items():
            alone = [value for key, value in found.items() if key not in several]
            kept = self._kept.pop(node, None)
            if alone and kept:
                corten.autograd.backward(
                    [GradientEdge(node, i) for i in kept], list(kept.values()), inputs=alone
                )
        self._outputs = self._grads = self._weights = None
