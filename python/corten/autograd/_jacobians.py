"""Jacobians by central differences, by backward passes and by forward mode, and their products with directions."""

from __future__ import annotations

import itertools

from corten import _C
from corten._C import Tensor


def differentiable(value):
    """Whether an argument has derivatives."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def as_tuple(result):
    """What a function returned, as a tuple."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def outputs_of(result):
    """The outputs of floating or complex dtypes."""
    return [value for value in as_tuple(result) if differentiable(value)]


def random_direction(tensor):
    """A direction of length 1 without negative elements, flat and real."""
    from corten import float64, rand

    made = rand(tensor.numel(), dtype=float64, device=tensor.device)
    return made / made.norm() if tensor.numel() else made


class Numerical:
    """Central differences of a function of `inputs`, with respect to one of them. The input itself is
    changed, as functions may keep it."""

    def __init__(self, function, inputs, tensor, eps):
        self.function, self.inputs, self.eps = function, inputs, eps
        self.data = tensor.data
        self.is_complex = tensor.is_complex()

    def _values(self):
        from corten import enable_grad

        # What the function returns may depend on what requires gradients.
        with enable_grad():
            return [value.detach().clone() for value in outputs_of(self.function(*self.inputs))]

    def _difference(self, lower, upper):
        for a, b in zip(lower, upper):
            for what in ("shape", "dtype"):
                if getattr(a, what) != getattr(b, what):
                    raise AssertionError(
                        f"Expected `func` to return outputs with the same {what} when inputs are perturbed on "
                        f"index 0 by {self.eps}, but got {getattr(a, what)} and {getattr(b, what)}."
                    )
        return [((b - a) / (2 * self.eps)).reshape(-1) for a, b in zip(lower, upper)]

    def _at(self, place, step):
        before = self.data[place].item()
        try:
            self.data[place] = before - step
            lower = self._values()
            self.data[place] = before + step
            upper = self._values()
        finally:
            self.data[place] = before
        return self._difference(lower, upper)

    def rows(self):
        """Per element of the input, derivatives of all outputs: along the real axis, and along the imaginary one
        or None."""
        for place in itertools.product(*map(range, self.data.shape)):
            yield self._at(place, self.eps), self._at(place, self.eps * 1j) if self.is_complex else None

    def along(self, direction):
        """Derivatives of all outputs along a direction, a flat tensor."""
        before = self.data.clone()
        step = (self.eps * direction).to(before.dtype).reshape(before.shape)
        try:
            self.data.copy_(before - step)
            lower = self._values()
            self.data.copy_(before + step)
            upper = self._values()
        finally:
            self.data.copy_(before)
        return self._difference(lower, upper)


def unit(tensor, index, value=1):
    """A tensor like `tensor` that is zero but for one element."""
    from corten import zeros

    made = zeros(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
    made[index] = value
    return made.reshape(tensor.shape)


def analytical(output, tensors, seed):
    """The gradients of an output with respect to tensors, None where there is none."""
    from corten.autograd import grad

    return grad([output], tensors, [seed], retain_graph=True, allow_unused=True)


def forward(function, inputs, tangents):
    """The tangents of the outputs, zeros where there is none; `tangents` has None for inputs without one. Inputs
    do not require gradients meanwhile."""
    from corten import zeros_like
    from corten.autograd import forward_ad

    with forward_ad.dual_level():
        duals = []
        for value, tangent in zip(inputs, tangents):
            if isinstance(value, Tensor) and value.requires_grad:
                value = value.detach()
            duals.append(value if tangent is None else forward_ad.make_dual(value, tangent))
        found = []
        for value in outputs_of(function(*duals)):
            primal, tangent = forward_ad.unpack_dual(value)
            found.append(zeros_like(primal) if tangent is None else tangent)
        return found


def is_dense(tensor):
    """Whether elements can be changed one by one."""
    return tensor.layout in (_C.strided, _C._mkldnn)
