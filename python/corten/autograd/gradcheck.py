"""Gradients checked against finite differences."""

from __future__ import annotations

import warnings

from corten import _C
from corten._C import Tensor

from ._jacobians import (
    Numerical, analytical, as_tuple, forward, is_dense, outputs_of, random_direction, unit,
)

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """The gradient that was computed is not the one that finite differences show."""


class _Mismatch(GradcheckError):
    """Two Jacobians differ."""


def _wanted(inputs):
    """The places and the tensors of inputs that gradients are checked of."""
    return [
        (place, value) for place, value in enumerate(inputs)
        if isinstance(value, Tensor) and value.requires_grad
    ]


def _check_inputs(inputs, check_forward_ad):
    if not _wanted(inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the "
            "them have requires_grad=True."
        )
    for place, tensor in _wanted(inputs):
        if tensor.dtype not in (_C.float64, _C.complex128):
            warnings.warn(
                f"Input #{place} requires gradient and is not a double precision floating point or complex. "
                "This check will likely fail if all the inputs are not of double precision floating point or "
                "complex. ", stacklevel=3,
            )
        if tensor.layout is _C._mkldnn:
            if check_forward_ad:
                raise ValueError("MKLDNN inputs are not support for forward AD gradcheck.")
        elif any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.size())):
            raise RuntimeError(
                f"The {place}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )


def _check_outputs(outputs):
    for value in outputs:
        if isinstance(value, Tensor) and value.layout is not _C.strided:
            kind = "MKLDNN" if value.layout is _C._mkldnn else "Sparse"
            raise ValueError(
                f"{kind} output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the "
                "output of fn for gradcheck."
            )


class _Check:
    """One function at given inputs."""

    def __init__(self, function, inputs, eps, atol, rtol, nondet_tol, check_dtypes):
        self.function, self.inputs, self.eps = function, inputs, eps
        self.atol, self.rtol, self.nondet_tol, self.check_dtypes = atol, rtol, nondet_tol, check_dtypes
        result = as_tuple(function(*inputs))
        _check_outputs(result)
        self.outputs = outputs_of(result)
        self.wanted = _wanted(inputs)
        self.tensors = [tensor for _, tensor in self.wanted]

    def close(self, a, b, scale=1.0):
        return bool(((a - b).abs() <= self.atol * scale + self.rtol * b.abs()).all())

    def mismatch(self, o, place, numerical, found, forward_mode=False, part=None):
        prefix = ""
        if part is not None:
            element = "inputs" if forward_mode else "outputs"
            prefix = f"While considering the {part} part of complex {element} only, "
        mode = "computed with forward mode " if forward_mode else ""
        return _Mismatch(
            f"{prefix}Jacobian {mode}mismatch for output {o} with respect to input {place},\n"
            f"numerical:{numerical}\nanalytical:{found}\n"
        )

    # ------------------------------------------------------------- backward mode
    def constant(self):
        """That a function without gradients does not change."""
        for _, tensor in self.wanted:
            for row in Numerical(self.function, self.inputs, tensor, self.eps).rows():
                for values in (part for part in row if part is not None):
                    if any(bool((value != 0).any()) for value in values):
                        raise GradcheckError("Numerical gradient for function expected to be zero")

    def gradients(self, output, seed):
        """The gradients of an output, zeros where there is none, computed twice."""
        from corten import zeros_like

        first, again = (analytical(output, self.tensors, seed) for _ in range(2))
        for one, other, tensor in zip(first, again, self.tensors):
            if one is None:
                continue
            if one.shape != tensor.shape:
                raise GradcheckError("Analytical gradient has incorrect size")
            if self.check_dtypes and one.dtype != tensor.dtype:
                raise GradcheckError("Gradient has dtype mismatch")
            if one.numel() and not bool(((one - other).abs() <= self.nondet_tol).all()):
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                    "times gives different values, although analytical gradient matches numerical gradient. "
                    f"The tolerance for nondeterminism was {self.nondet_tol}."
                )
        return [zeros_like(t) if one is None else one for one, t in zip(first, self.tensors)]

    def parts(self, output):
        """The seeds' factors with which the gradients of a real function come: the output, or its imaginary and
        real part."""
        return ((1j, "imaginary"), (1, "real")) if output.is_complex() else ((1, None),)

    def slow(self):
        rows = [list(Numerical(self.function, self.inputs, t, self.eps).rows()) for t in self.tensors]
        for o, output in enumerate(self.outputs):
            if not output.requires_grad:
                continue
            for factor, part in self.parts(output):
                for index in range(output.numel()):
                    found = self.gradients(output, unit(output, index, factor))
                    for (place, tensor), table, gradient in zip(self.wanted, rows, found):
                        if not tensor.numel():
                            continue
                        numerical = _column(table, o, index, part)
                        if not self.close(gradient.reshape(-1), numerical):
                            raise self.mismatch(o, place, numerical, gradient, part=part)

    def fast(self):
        try:
            self._fast()
        except _Mismatch as raised:
            # Elements say more than directions do.
            self.slow()
            raise _Mismatch(
                f"{raised}\nThe above quantities are products with random directions: the check in fast mode "
                "failed, the slow one passes."
            ) from None

    def _fast(self):
        seeds = [random_direction(output) for output in self.outputs]
        gradients = {}
        for o, output in enumerate(self.outputs):
            if output.requires_grad:
                for factor, part in self.parts(output):
                    seed = (factor * seeds[o]).to(output.dtype).reshape(output.shape)
                    gradients[o, part] = self.gradients(output, seed)
        for t, (place, tensor) in enumerate(self.wanted):
            numerical = Numerical(self.function, self.inputs, tensor, self.eps)
            for axis in (1, 1j) if tensor.is_complex() else (1,):
                direction = random_direction(tensor)
                changes = numerical.along(axis * direction)
                for (o, part), found in gradients.items():
                    gradient = found[t].reshape(-1)
                    gradient = gradient.imag if axis == 1j else gradient.real if gradient.is_complex() else gradient
                    change = changes[o]
                    if change.is_complex():
                        change = change.imag if part == "imaginary" else change.real
                    expected, given = (change * seeds[o]).sum(), (gradient * direction).sum()
                    scale = float(direction.sum() * seeds[o].sum())
                    if not self.close(given, expected, max(scale, 1.0)):
                        raise self.mismatch(o, place, expected, given, part=part)

    def proportional(self):
        """That zero gradients of the outputs give zero ones of the inputs."""
        from corten import zeros_like
        from corten.autograd import grad

        outputs = [output for output in self.outputs if output.requires_grad]
        seeds = [zeros_like(output) for output in outputs]
        for found in grad(outputs, self.tensors, seeds, retain_graph=True, allow_unused=True):
            if found is not None and not bool((found == 0).all()):
                raise GradcheckError("backward not multiplied by grad_output")

    def undefined(self):
        """That the backward pass copes with gradients that are absent."""
        from corten import zeros_like
        from corten.autograd import grad

        outputs = [_without_gradient(value) for value in outputs_of(self.function(*self.inputs)) if value.requires_grad]
        message = "Expected backward function to handle undefined output grads."
        try:
            found = grad(outputs, self.tensors, [zeros_like(output) for output in outputs], allow_unused=True)
        except RuntimeError as raised:
            _warn_of_undefined()
            raise GradcheckError(f"{message} {raised}") from raised
        if any(one is not None and not bool((one == 0).all()) for one in found):
            _warn_of_undefined()
            raise GradcheckError(f"{message} Expected all input grads to be undefined or zero.")

    def batched_backward(self):
        """That gradients of a batch are those of its parts."""
        from corten import randn_like, stack
        from corten.autograd import grad

        for output in self.outputs:
            if not output.requires_grad:
                continue
            seeds = [randn_like(output) for _ in range(2)]
            expected = [analytical(output, self.tensors, seed) for seed in seeds]
            found = grad([output], self.tensors, [stack(seeds)], retain_graph=True, allow_unused=True,
                         is_grads_batched=True)
            self._compare_batches(expected, found)

    def _compare_batches(self, expected, found):
        from corten import allclose, stack

        for column, batch in zip(zip(*expected), found):
            if batch is None and column[0] is None:
                continue
            if batch is None or not allclose(stack(list(column)), batch):
                raise GradcheckError(
                    "gradcheck or gradgradcheck failed while testing batched gradient computation: a batch gave "
                    f"{batch}, its parts {column}"
                )

    # -------------------------------------------------------------- forward mode
    def _forward(self, place, tangent, alone=False):
        """The tangents of the outputs for that of one input; other inputs have zeros, or none."""
        from corten import zeros_like

        tangents = [None] * len(self.inputs)
        for other, value in () if alone else self.wanted:
            tangents[other] = zeros_like(value)
        tangents[place] = tangent
        return forward(self.function, self.inputs, tangents)

    def forward_mode(self, fast):
        for place, tensor in self.wanted:
            numerical = Numerical(self.function, self.inputs, tensor, self.eps)
            for axis, part in ((1j, "imaginary"), (1, "real")) if tensor.is_complex() else ((1, None),):
                if fast:
                    direction = random_direction(tensor)
                    pairs = [((axis * direction).to(tensor.dtype), numerical.along(axis * direction))]
                else:
                    pairs = [
                        (unit(tensor, index, axis), row[1] if axis == 1j else row[0])
                        for index, row in enumerate(numerical.rows())
                    ]
                for tangent, changes in pairs:
                    found = self._forward(place, tangent.reshape(tensor.shape))
                    for o, (change, one) in enumerate(zip(changes, found)):
                        if not self.close(one.reshape(-1), change):
                            raise self.mismatch(o, place, change, one, forward_mode=True, part=part)

    def undefined_forward(self):
        """That inputs without a tangent count as ones with a zero tangent."""
        from corten import allclose, randn_like

        for place, tensor in self.wanted:
            tangent = randn_like(tensor)
            found = self._forward(place, tangent, alone=True)
            if len(self.wanted) == 1:
                continue
            for one, other in zip(found, self._forward(place, tangent)):
                if not allclose(one, other):
                    raise GradcheckError("Expected outputs of forward mode to be the same for absent and zero tangents")

    def batched_forward(self):
        """That tangents of a batch give those of its parts."""
        from corten import func, randn_like, stack

        for place, tensor in self.wanted:
            tangents = [randn_like(tensor) for _ in range(2)]
            expected = [self._forward(place, tangent) for tangent in tangents]

            def batch(tangent, place=place):
                return tuple(self._forward(place, tangent))

            try:
                found = func.vmap(batch, randomness="same")(stack(tangents))
            except RuntimeError as raised:
                raise GradcheckError(
                    "While computing batched gradients, got: "
                    f"{raised}\n\ngradcheck or gradgradcheck failed while testing batched gradient computation."
                ) from raised
            self._compare_batches(expected, found)


def _column(table, o, index, part):
    """The derivatives of one element of an output, or of its imaginary or real part, as the gradient that a
    backward pass gives."""
    from corten import stack

    def value(change):
        one = change[o][index]
        return one.imag if part == "imaginary" else one.real if one.is_complex() else one

    return stack([value(row) if other is None else value(row) + 1j * value(other) for row, other in table])


def _warn_of_undefined():
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but "
        "it may break existing callers of this function. If this is true for you, you can call this function "
        'with "check_undefined_grad=False" to disable the feature', stacklevel=4,
    )


def _without_gradient(tensor):
    """The tensor, whose gradient is undefined."""
    from corten.autograd.function import Function

    class Undefined(Function):
        """Passes values on, and no gradients."""

        @staticmethod
        def forward(ctx, value):
            return value.view_as(value)

        @staticmethod
        def backward(ctx, _gradient):
            return None

    return Undefined.apply(tensor)


def _check_options(check_forward_ad, check_backward_ad, check_batched_grad, check_batched_forward_grad):
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad and check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")


def gradcheck(
    func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
    check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
    check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True,
    fast_mode=False, masked=None,
):
    """Compares gradients with finite differences; inputs should be of double precision. In fast mode Jacobians
    are compared along random directions, not element by element.

    Raises:
        GradcheckError: They differ, or a gradient has another fault; with ``raise_exception=False`` the result
            is false then.
    """
    _check_options(check_forward_ad, check_backward_ad, check_batched_grad, check_batched_forward_grad)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if any(isinstance(value, Tensor) and not is_dense(value) for value in inputs):
        from corten.sparse import as_sparse_gradcheck

        def checked(*args):
            result = func(*args)
            _check_outputs(as_tuple(result))
            return result

        return as_sparse_gradcheck(gradcheck)(
            checked, inputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
            check_undefined_grad=check_undefined_grad, check_batched_grad=check_batched_grad,
            check_backward_ad=check_backward_ad, fast_mode=fast_mode, masked=bool(masked),
        )
    _check_inputs(inputs, check_forward_ad)
    try:
        check = _Check(func, inputs, eps, atol, rtol, nondet_tol, check_grad_dtypes)
        if check_backward_ad:
            _check_backward(check, fast_mode, check_batched_grad, check_undefined_grad)
        if check_forward_ad:
            check.forward_mode(fast_mode)
            if check_undefined_grad:
                check.undefined_forward()
            if check_batched_forward_grad:
                check.batched_forward()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_backward(check, fast_mode, batched, undefined):
    if not any(output.requires_grad for output in check.outputs):
        check.constant()
        return
    check.fast() if fast_mode else check.slow()
    if batched:
        check.batched_backward()
    check.proportional()
    if undefined:
        check.undefined()


def gradgradcheck(
    func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3,
    gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0,
    check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
    check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False,
):
    """Compares second derivatives with finite differences of the first."""
    from corten.autograd import grad

    _check_options(check_fwd_over_rev, check_rev_over_rev, check_batched_grad, False)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None:
        outputs = [value for value in outputs_of(func(*inputs)) if value.requires_grad]
        grad_outputs = tuple(_random_gradient(output, gen_non_contig_grad_outputs) for output in outputs)
    grad_outputs = as_tuple(grad_outputs)
    count = len(grad_outputs)
    places = [place for place, _ in _wanted(inputs)]

    def first(*args):
        from corten import enable_grad

        values, seeds = list(args[:-count]), args[-count:]
        with enable_grad():
            for place in places:
                # Forward mode passes tensors that do not require gradients.
                if not values[place].requires_grad:
                    values[place] = values[place].view_as(values[place]).requires_grad_()
            outputs = [value for value in outputs_of(func(*values)) if value.requires_grad]
            found = grad(outputs, [values[place] for place in places], seeds, create_graph=True, allow_unused=True)
        return tuple(one for one in found if one is not None)

    return gradcheck(
        first, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )


def _random_gradient(output, spread):
    """Random numbers in the shape of an output, that are no block of memory if `spread`."""
    from corten import empty, float64, complex128, randn

    dtype = complex128 if output.is_complex() else float64
    dtype = dtype if output.dtype in (float64, complex128) else output.dtype
    made = randn(output.shape, dtype=dtype, device=output.device)
    if spread and made.dim():
        wide = empty((*made.shape[:-1], 2 * made.shape[-1]), dtype=dtype, device=output.device)
        made = wide[..., ::2].copy_(made)
    return made.requires_grad_()


def _deprecated(name, grad_out):
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are deprecating it and it will "
        "be removed in a future version of PyTorch. If you have a specific use for this or feature request for this "
        "to be a stable API, please file us an issue at https://github.com/pytorch/pytorch/issues/new",
        FutureWarning, stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError("Expected grad_out to be 1.0. get_numerical_jacobian no longer supports values of grad_out != 1.0.")


def get_numerical_jacobian(fn, inputs, target=None, eps=1e-3, grad_out=1.0):
    """Deprecated: the Jacobians of the first output of ``fn(inputs)`` by central differences, one per tensor, with a
    row per element of the tensor."""
    from corten import stack

    _deprecated("get_numerical_jacobian", grad_out)
    targets = as_tuple(inputs if target is None else target)
    return tuple(
        stack([row[0] for row, _ in Numerical(lambda *args: fn(args), as_tuple(inputs), tensor, eps).rows()])
        for tensor in targets if isinstance(tensor, Tensor) and tensor.requires_grad
    )


def get_analytical_jacobian(inputs, output, nondet_tol=0.0, grad_out=1.0):
    """Deprecated: the Jacobians of an output by backward passes, whether two passes agree, and whether sizes and
    dtypes are those of the inputs."""
    from corten import stack, zeros_like

    _deprecated("get_analytical_jacobian", grad_out)
    tensors = [tensor for _, tensor in _wanted(as_tuple(inputs))]
    passes = [
        [analytical(output, tensors, unit(output, index)) for index in range(output.numel())] for _ in range(2)
    ]
    pairs = [(one, tensor) for row in passes[0] for one, tensor in zip(row, tensors) if one is not None]
    reentrant = all(
        one is None or bool(((one - other).abs() <= nondet_tol).all())
        for row, again in zip(*passes) for one, other in zip(row, again)
    )
    jacobians = tuple(
        stack([(zeros_like(tensor) if one is None else one).reshape(-1) for one in column], 1)
        for column, tensor in zip(zip(*passes[0]), tensors)
    )
    sizes = all(one.shape == tensor.shape for one, tensor in pairs)
    dtypes = all(one.dtype == tensor.dtype for one, tensor in pairs)
    return jacobians, reentrant, sizes, dtypes
