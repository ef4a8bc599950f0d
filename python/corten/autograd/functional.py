"""Products and matrices of derivatives: `vjp`, `jvp`, `vhp`, `hvp`, `jacobian`, `hessian`."""

from __future__ import annotations

import corten
from corten import _C
from corten.autograd._recording import recorded

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]

_OUTPUTS = "outputs of the user-provided function"


def _tensors(value, what, function):
    """The tensors of an argument as a tuple, and whether it was one."""
    if isinstance(value, tuple):
        for place, item in enumerate(value):
            if not isinstance(item, corten.Tensor):
                raise TypeError(
                    f"The {what} given to {function} must be either a Tensor or a tuple of Tensors "
                    f"but the value at index {place} has type {type(item)}."
                )
        return value, True
    if not isinstance(value, corten.Tensor):
        raise TypeError(
            f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the "
            f"given {what} has type {type(value)}."
        )
    return (value,), False


def _untupled(values, is_tuple):
    return values if is_tuple else values[0]


def _prepared(tensors, create_graph, requires_grad=True):
    """Inputs of their own: part of the caller's graph only if one is to be created."""
    if _C._is_transform_active():
        tensors = tuple(_C._recordable(tensor) for tensor in tensors)
    return tuple(
        # The identity, so that gradients with respect to the copy can be asked for.
        tensor.view_as(tensor) if create_graph and tensor.requires_grad
        else tensor.detach().requires_grad_(requires_grad)
        for tensor in tensors
    )


def _finished(values, create_graph):
    """Values as they are returned: out of the graph unless one was to be created."""
    if isinstance(values[0], corten.Tensor):
        return values if create_graph else tuple(value.detach() for value in values)
    return tuple(_finished(row, create_graph) for row in values)


def _check_vector(vector, reference, is_tuple):
    if len(vector) != len(reference):
        if is_tuple:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(reference)} but got {len(vector)}."
            )
        raise RuntimeError("The given v should contain a single Tensor.")
    for place, (part, wanted) in enumerate(zip(vector, reference)):
        if part.size() != wanted.size():
            entry = f"Entry {place} in " if is_tuple else ""
            raise RuntimeError(
                f"{entry}v has invalid size: should be {wanted.size()} but got {part.size()}."
            )


def _check_depends(tensors, kind, strict):
    """In strict mode everything must depend on the inputs."""
    if not strict:
        return
    if kind not in ("outputs", "grad_inputs", "jacobian", "hessian"):
        raise RuntimeError("Invalid input_type to _check_requires_grad")
    for place, tensor in enumerate(tensors):
        if tensor is None:
            # Only when some outputs have no gradient at all.
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {place}. This "
                "is not allowed in strict mode."
            )
        if tensor.requires_grad:
            continue
        if kind == "hessian":
            raise RuntimeError(
                f"The hessian of the user-provided function with respect to input {place} is "
                "independent of the input. This is not allowed in strict mode. You should ensure "
                "that your function is thrice differentiable and that the hessian depends on the "
                "inputs."
            )
        if kind == "jacobian":
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided "
                f"function with respect to input {place} is independent of the input. This is not "
                "allowed in strict mode. You should ensure that your function is twice "
                "differentiable and that the jacobian depends on the inputs (this would be "
                "violated by a linear function for example)."
            )
        if kind == "grad_inputs":
            raise RuntimeError(
                f"The gradient with respect to input {place} is independent of the inputs of the "
                "user-provided function. This is not allowed in strict mode."
            )
        raise RuntimeError(
            f"Output {place} of the user-provided function does not require gradients. The "
            "outputs must be computed in a differentiable manner from the input when running in "
            "strict mode."
        )


def _gradients(outputs, inputs, vectors=None, create_graph=False):
    """One gradient per input, `None` where there is none; also of outputs without history."""
    pairs = [
        (output, None if vectors is None else vectors[place])
        for place, output in enumerate(outputs)
        if output is not None and output.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    return corten.autograd.grad(
        [output for output, _ in pairs], inputs, [vector for _, vector in pairs],
        allow_unused=True, create_graph=create_graph, retain_graph=True,
    )


_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {}. This is not "
            "allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {} in the "
                  "grad_outputs when using the double backward trick to compute forward mode "
                  "gradients. This is not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {}. This "
                   "is not allowed in strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {} in "
                         "the grad_jacobian. This is not allowed in strict mode as it prevents "
                         "from using the double backward trick to replace forward mode AD.",
}


def _filled(gradients, references, strict, create_graph, stage):
    """The gradients with zeros where there are none."""
    result = []
    for place, gradient in enumerate(gradients):
        if gradient is None:
            if strict:
                raise RuntimeError(_INDEPENDENT[stage].format(place))
            gradient = corten.zeros_like(references[place])
        elif strict and create_graph and not gradient.requires_grad:
            if "double" in stage:
                raise RuntimeError(
                    "The hessian of the user-provided function is independent of input "
                    f"{place}. This is not allowed in strict mode when create_graph=True."
                )
            raise RuntimeError(
                f"The jacobian of the user-provided function is independent of input {place}. "
                "This is not allowed in strict mode when create_graph=True."
            )
        result.append(gradient)
    return tuple(result)


def _single_output(output, function):
    if function in ("vhp", "hvp"):
        text = f"The function given to {function} should return a single Tensor"
    else:
        text = "The function given to hessian should return a single Tensor"
    (outputs, is_tuple) = _tensors(output, _OUTPUTS, function)
    if is_tuple:
        raise RuntimeError(text)
    if outputs[0].nelement() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {function} should contain a single "
            "element"
        )
    return outputs


@recorded
def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs of ``func`` and the product of ``v`` with its Jacobian."""
    with corten.enable_grad():
        inputs, is_tuple = _tensors(inputs, "inputs", "vjp")
        inputs = _prepared(inputs, create_graph)
        outputs, outputs_tuple = _tensors(func(*inputs), _OUTPUTS, "vjp")
        _check_depends(outputs, "outputs", strict)
        if v is not None:
            v, _ = _tensors(v, "v", "vjp")
            v = _prepared(v, create_graph, requires_grad=False)
            _check_vector(v, outputs, outputs_tuple)
        elif len(outputs) != 1 or outputs[0].nelement() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single "
                "Tensor with a single element."
            )
    with corten.set_grad_enabled(create_graph or corten.is_grad_enabled()):
        found = _gradients(outputs, inputs, v, create_graph)
        product = _filled(found, inputs, strict, create_graph, "back")
    outputs, product = _finished(outputs, create_graph), _finished(product, create_graph)
    return _untupled(outputs, outputs_tuple), _untupled(product, is_tuple)


@recorded
def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs of ``func`` and the product of its Jacobian with ``v``.

    Computed backward twice: the product with a vector is linear in that vector, and its
    derivative with respect to it is the transposed product.
    """
    with corten.enable_grad():
        inputs, is_tuple = _tensors(inputs, "inputs", "jvp")
        inputs = _prepared(inputs, create_graph)
        if v is not None:
            v, _ = _tensors(v, "v", "jvp")
            v = _prepared(v, create_graph, requires_grad=False)
            _check_vector(v, inputs, is_tuple)
        elif len(inputs) != 1 or inputs[0].nelement() != 1:
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a "
                "single Tensor with a single element."
            )
        outputs, outputs_tuple = _tensors(func(*inputs), _OUTPUTS, "jvp")
        _check_depends(outputs, "outputs", strict)
        weights = tuple(corten.ones_like(output, requires_grad=True) for output in outputs)
        back = _gradients(outputs, inputs, weights, create_graph=True)
        _check_depends(back, "grad_inputs", strict)
    with corten.set_grad_enabled(create_graph or corten.is_grad_enabled()):
        found = _gradients(back, weights, v, create_graph)
        product = _filled(found, outputs, strict, create_graph, "back_trick")
    outputs, product = _finished(outputs, create_graph), _finished(product, create_graph)
    return _untupled(outputs, outputs_tuple), _untupled(product, outputs_tuple)


def _rows(output, inputs, create_graph, strict, number):
    """For each input the gradients of the output's elements, one after another."""
    rows = tuple([] for _ in inputs)
    for element in range(output.nelement()):
        found = _gradients((output.reshape(-1)[element],), inputs, create_graph=create_graph)
        for place, (row, gradient) in enumerate(zip(rows, found)):
            if gradient is not None:
                if strict and create_graph and not gradient.requires_grad:
                    raise RuntimeError(
                        "The jacobian of the user-provided function is independent of input "
                        f"{place}. This is not allowed in strict mode when create_graph=True."
                    )
                row.append(gradient)
                continue
            if strict:
                raise RuntimeError(
                    f"Output {number} of the user-provided function is independent of input "
                    f"{place}. This is not allowed in strict mode."
                )
            row.append(corten.zeros_like(inputs[place]))
    return tuple(
        corten.stack(row).view(output.size() + tensor.size()) if row
        else corten.zeros(output.size() + tensor.size(), dtype=tensor.dtype, device=tensor.device)
        for row, tensor in zip(rows, inputs)
    )


def _columns(func, inputs, is_tuple, create_graph):
    """The Jacobian one column at a time, as products with unit vectors."""
    columns = [[] for _ in inputs]
    outputs_tuple = False
    for place, tensor in enumerate(inputs):
        for element in range(tensor.nelement()):
            unit = [corten.zeros_like(other) for other in inputs]
            unit[place].view(-1)[element] = 1
            _, product = jvp(
                func, _untupled(inputs, is_tuple), _untupled(tuple(unit), is_tuple), create_graph,
            )
            product, outputs_tuple = _tensors(product, _OUTPUTS, "jacobian")
            columns[place].append(product)
    count = len(columns[0][0])
    result = tuple(
        tuple(
            corten.stack([column[number] for column in columns[place]], -1).view(
                columns[place][0][number].size() + tensor.size()
            )
            for place, tensor in enumerate(inputs)
        )
        for number in range(count)
    )
    return result, outputs_tuple


@recorded
def jacobian(
    func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"
):
    """The derivatives of every output element with respect to every input element.

    Shapes are those of the output followed by those of the input; nested tuples where ``func``
    takes or returns several tensors, outputs first.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            "function has more outputs than inputs, \"forward-mode\" tends to be more performant. "
            'Otherwise, prefer to use "reverse-mode".'
        )
    inputs, is_tuple = _tensors(inputs, "inputs", "jacobian")
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="'
                'forward-mode"` are not supported together (yet). Please either set '
                '`create_graph=False` or `strategy="reverse-mode"`.'
            )
        if strict:
            raise RuntimeError(
                'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` '
                "are not supported together (yet). Please either set `strict=False` or "
                '`strategy="reverse-mode"`.'
            )
        if not vectorize:
            raise NotImplementedError(
                'Computing Jacobian using forward-AD or forward-over-reverse Hessian is only '
                "implemented for `vectorize=True`."
            )
        create_graph = corten.is_grad_enabled() and any(t.requires_grad for t in inputs)
        rows, outputs_tuple = _columns(func, inputs, is_tuple, create_graph)
    else:
        if vectorize and strict:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
                "supported together. Please either set `strict=False` or `vectorize=False`."
            )
        with corten.enable_grad():
            inputs = _prepared(inputs, create_graph)
            outputs, outputs_tuple = _tensors(func(*inputs), _OUTPUTS, "jacobian")
            _check_depends(outputs, "outputs", strict)
            rows = tuple(
                _rows(output, inputs, create_graph, strict, number)
                for number, output in enumerate(outputs)
            )
    rows = _finished(rows, create_graph)
    rows = tuple(_untupled(row, is_tuple) for row in rows)
    return _untupled(rows, outputs_tuple)


@recorded
def hessian(
    func, inputs, create_graph=False, strict=False, vectorize=False,
    outer_jacobian_strategy="reverse-mode",
):
    """The second derivatives of a function with one output element."""
    inputs, is_tuple = _tensors(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode".'
        )

    def gradient(*tensors):
        def checked(*args):
            return _single_output(func(*args), "hessian")[0]

        if outer_jacobian_strategy == "forward-mode":
            tensors = tuple(tensor.requires_grad_(True) for tensor in tensors)
        found = jacobian(checked, tensors, create_graph=True)
        _check_depends(found, "jacobian", strict)
        return found

    result = jacobian(
        gradient, inputs, create_graph=create_graph, strict=strict, vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return result if is_tuple else result[0][0]


def _vector_for(v, inputs, is_tuple, name, create_graph):
    if v is not None:
        v, _ = _tensors(v, "v", name)
        v = _prepared(v, create_graph, requires_grad=False)
        _check_vector(v, inputs, is_tuple)
    elif len(inputs) != 1 or inputs[0].nelement() != 1:
        raise RuntimeError(
            "The vector v can only be None if the input to the user-provided function is a single "
            "Tensor with a single element."
        )
    return v


@recorded
def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """The output of ``func`` and the product of ``v`` with its Hessian."""
    with corten.enable_grad():
        inputs, is_tuple = _tensors(inputs, "inputs", "vhp")
        inputs = _prepared(inputs, create_graph)
        v = _vector_for(v, inputs, is_tuple, "vhp", create_graph)
        outputs = _single_output(func(*inputs), "vhp")
        _check_depends(outputs, "outputs", strict)
        first = _gradients(outputs, inputs, create_graph=True)
        _check_depends(first, "jacobian", strict)
    with corten.set_grad_enabled(create_graph or corten.is_grad_enabled()):
        found = _gradients(first, inputs, v, create_graph)
        product = _filled(found, inputs, strict, create_graph, "double_back")
    outputs, product = _finished(outputs, create_graph), _finished(product, create_graph)
    return outputs[0], _untupled(product, is_tuple)


@recorded
def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """The output of ``func`` and the product of its Hessian with ``v``."""
    with corten.enable_grad():
        inputs, is_tuple = _tensors(inputs, "inputs", "hvp")
        inputs = _prepared(inputs, create_graph)
        v = _vector_for(v, inputs, is_tuple, "hvp", create_graph)
        outputs = _single_output(func(*inputs), "hvp")
        _check_depends(outputs, "outputs", strict)
        first = _gradients(outputs, inputs, create_graph=True)
        _check_depends(first, "jacobian", strict)
        weights = tuple(corten.ones_like(tensor, requires_grad=True) for tensor in inputs)
        second = _gradients(first, inputs, weights, create_graph=True)
        _check_depends(second, "hessian", strict)
    with corten.set_grad_enabled(create_graph or corten.is_grad_enabled()):
        found = _gradients(second, weights, v, create_graph)
        product = _filled(found, inputs, strict, create_graph, "double_back_trick")
    outputs, product = _finished(outputs, create_graph), _finished(product, create_graph)
    return outputs[0], _untupled(product, is_tuple)
