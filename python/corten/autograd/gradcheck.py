"""Gradients checked against finite differences."""

from __future__ import annotations

import itertools

from corten import _C
from corten._C import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


#: Layouts whose elements are changed one by one.
_DENSE = (_C.strided, _C._mkldnn)


class GradcheckError(RuntimeError):
    """The gradient that was computed is not the one that finite differences show."""


def _tensors(values):
    return [value for value in values if isinstance(value, Tensor) and value.requires_grad]


def _outputs(result):
    result = result if isinstance(result, (tuple, list)) else (result,)
    return [value for value in result if isinstance(value, Tensor) and _differentiable(value)]


def _differentiable(value):
    return value.is_floating_point() or value.is_complex()


def _element_steps(tensor, eps):
    """Every element's directions: along the real axis and, where there is one, the imaginary."""
    data = tensor.data
    for place in itertools.product(*map(range, tensor.shape)):
        yield place, data, eps, 1.0
        if tensor.is_complex():
            yield place, data, eps * 1j, 1j


def _numerical(function, inputs, tensor, output_index, eps):
    """The rows of a Jacobian, one per element of ``tensor``, by central differences."""
    from corten import enable_grad, zeros

    rows = []
    # What the function returns may depend on what requires gradients.
    with enable_grad():
        for place, data, step, direction in _element_steps(tensor, eps):
            before = data[place].item()
            data[place] = before + step
            upper = _outputs(function(*inputs))[output_index].detach().clone()
            data[place] = before - step
            lower = _outputs(function(*inputs))[output_index].detach().clone()
            data[place] = before
            row = ((upper - lower) / (2 * eps)).reshape(-1)
            if direction == 1j:
                rows[-1] = (rows[-1], row)
            else:
                rows.append(row)
    return rows or [zeros(0)]


def _analytical(output, tensor, index, create_graph=False):
    """The gradient of one element of the output with respect to ``tensor``."""
    from corten import zeros, zeros_like
    from corten.autograd import grad

    seed = zeros(output.numel(), dtype=output.dtype, device=output.device)
    seed[index] = 1
    seed = seed.reshape(output.shape)
    found, = grad([output], [tensor], [seed], retain_graph=True, allow_unused=True,
                  create_graph=create_graph)
    return zeros_like(tensor) if found is None else found


def _compare(function, inputs, output_index, output, tensor_index, tensor, options):
    from corten import stack

    if not tensor.numel():
        return
    numerical = _numerical(function, inputs, tensor, output_index, options["eps"])
    for index in range(output.numel()):
        analytical = _analytical(output, tensor, index).reshape(-1)
        expected = []
        for row in numerical:
            if isinstance(row, tuple):
                real, imaginary = row[0][index], row[1][index]
                if not output.is_complex():
                    expected.append(real + 1j * imaginary)
                else:
                    expected.append(real.conj().real + 1j * imaginary.real)
            else:
                value = row[index]
                expected.append(value.real if value.is_complex() else value)
        expected = stack(expected) if expected else analytical
        if not _allclose(analytical, expected, options):
            raise GradcheckError(
                f"Jacobian mismatch for output {output_index} with respect to input "
                f"{tensor_index},\nnumerical:{expected}\nanalytical:{analytical}\n"
            )


def _allclose(a, b, options):
    return bool(((a - b).abs() <= options["atol"] + options["rtol"] * b.abs()).all())


def gradcheck(
    func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
    check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
    check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True,
    fast_mode=False, masked=None, is_forward_ad=False,
):
    """Compares gradients with finite differences; inputs should be of double precision."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if any(isinstance(value, Tensor) and value.layout not in _DENSE for value in inputs):
        from corten.sparse import as_sparse_gradcheck

        return as_sparse_gradcheck(gradcheck)(
            func, inputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
            nondet_tol=nondet_tol, check_backward_ad=check_backward_ad, masked=bool(masked),
        )
    options = {"eps": eps, "atol": atol, "rtol": rtol}
    try:
        if not _tensors(inputs):
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of the "
                "them have requires_grad=True."
            )
        if check_backward_ad:
            _check(func, inputs, options, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(func, inputs, options, nondet_tol):
    outputs = _outputs(func(*inputs))
    for output_index, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        for tensor_index, tensor in enumerate(inputs):
            if not (isinstance(tensor, Tensor) and tensor.requires_grad):
                continue
            _compare(func, inputs, output_index, output, tensor_index, tensor, options)
            if output.numel():
                first, again = (_analytical(output, tensor, 0) for _ in range(2))
                if not bool(((first - again).abs() <= nondet_tol).all()):
                    raise GradcheckError("Backward is not reentrant")


def gradgradcheck(
    func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3,
    gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0,
    check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
    check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False,
):
    """Compares second derivatives with finite differences of the first."""
    from corten import randn_like
    from corten.autograd import grad

    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None:
        outputs = _outputs(func(*inputs))
        grad_outputs = tuple(randn_like(output).requires_grad_() for output in outputs)
    elif isinstance(grad_outputs, Tensor):
        grad_outputs = (grad_outputs,)
    count = len(grad_outputs)

    def first(*args):
        values, seeds = args[:-count], args[-count:]
        outputs = _outputs(func(*values))
        wanted = _tensors(values)
        return tuple(
            found for found in
            grad(outputs, wanted, seeds, create_graph=True, allow_unused=True)
            if found is not None
        )

    def enabled(*args):
        from corten import enable_grad

        with enable_grad():
            return first(*args)

    return gradcheck(
        enabled, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol,
    )
