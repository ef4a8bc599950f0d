"""Derivatives of functions of trees of tensors.

A transform calls the function on inputs of its own, which are part of the graph around them, so
that transforms can be applied to what transforms return.
"""

from __future__ import annotations

import functools

import corten
from corten import _C
from corten.autograd import forward_ad
from corten.autograd._recording import recording
from corten._functorch.vmap import vmap
from corten.utils._python_dispatch import hidden_alias
from corten.utils._pytree import (
    tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten,
)

_Tensor = corten.Tensor


def _own(tensor):
    """An input that gradients can be asked for with respect to."""
    # Every item of a batch around has a gradient of its own.
    tensor = _C._recordable(_C._vmap_everywhere(tensor))
    if tensor.requires_grad:
        return hidden_alias(tensor, lambda one: one.view_as(one))
    return _detached(tensor).requires_grad_()


def _detached(tensor):
    """The tensor without its graph. Its tangent, which belongs to a derivative around, stays."""
    primal, tangent = forward_ad.unpack_dual(tensor)
    primal = hidden_alias(primal, _Tensor.detach)
    return primal if tangent is None else forward_ad.make_dual(primal, tangent)


def _own_tree(tree):
    def one(leaf):
        if not isinstance(leaf, _Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        if not (leaf.is_floating_point() or leaf.is_complex()):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        return _own(leaf)

    return tree_map(one, tree)


def _is_tracked(trees):
    return any(isinstance(leaf, _Tensor) and leaf.requires_grad for leaf in tree_leaves(trees))


def _outside(tree, tracked):
    """Results as they are returned: without a graph unless the inputs were part of one."""
    if tracked:
        return tree
    return tree_map(lambda leaf: _detached(leaf) if isinstance(leaf, _Tensor) else leaf, tree)


def _gradients(outputs, inputs, vectors=None):
    """One gradient per input, zeros where there is none, differentiable themselves."""
    chosen = [
        (output, None if vectors is None else vector)
        for output, vector in zip(outputs, outputs if vectors is None else vectors)
        if output.requires_grad
    ]
    if not chosen or not inputs:
        return [corten.zeros_like(tensor) for tensor in inputs]
    found = corten.autograd.grad(
        [pair[0] for pair in chosen], inputs, [pair[1] for pair in chosen], create_graph=True,
        allow_unused=True,
    )
    return [
        corten.zeros_like(tensor) if gradient is None else gradient
        for tensor, gradient in zip(inputs, found)
    ]


def _places(argnums, count):
    """The positions of the chosen arguments."""
    chosen = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(chosen, tuple) or not all(isinstance(place, int) for place in chosen):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not chosen:
        raise RuntimeError("argnums must be non-empty")
    wrapped = []
    for place in chosen:
        if not -count <= place < count:
            raise RuntimeError(
                f"Got argnum={place}, but only {count} positional inputs"
            )
        wrapped.append(place % count)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(
            f"argnums elements must be unique, got {argnums}"
        )
    return wrapped


def _split_aux(result, has_aux, name):
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns the gradient of ``func`` and its value, one element."""
    name = "grad_and_value(f)(*args)"

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        tracked = corten.is_grad_enabled() and _is_tracked((args, kwargs))
        with recording():
            places = _places(argnums, len(args))
            args = list(args)
            for place in places:
                args[place] = _own_tree(args[place])
            output, aux = _split_aux(func(*args, **kwargs), has_aux, name)
            if not isinstance(output, _Tensor):
                raise RuntimeError(
                    f"{name}: Expected f(*args) to return a Tensor, got {type(output)}"
                )
            if output.dim() != 0:
                raise RuntimeError(
                    f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with "
                    f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            chosen = args[places[0]] if isinstance(argnums, int) else tuple(
                args[place] for place in places
            )
            leaves, spec = tree_flatten(chosen)
            gradient = tree_unflatten(_gradients([output], leaves), spec)
        gradient, output, aux = _outside((gradient, output, aux), tracked)
        return (gradient, (output, aux)) if has_aux else (gradient, output)

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of ``func``, which has one output element."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def _tensor_leaves(tree, name):
    leaves, spec = tree_flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, _Tensor):
            raise RuntimeError(
                f"{name}: Expected f(*primals) to return only tensors, got unsupported type "
                f"{type(leaf)}"
            )
    return leaves, spec


def vjp(func, *primals, has_aux=False):
    """The value of ``func``, and a function from a tree like that value to its product with the
    Jacobian."""
    tracked = corten.is_grad_enabled() and _is_tracked(primals)
    with recording():
        own = _own_tree(primals)
        result, aux = _split_aux(func(*own), has_aux, "vjp(f, *primals)")
        outputs, spec = _tensor_leaves(result, "vjp(f, *primals)")
    inputs, inputs_spec = tree_flatten(own)

    def product(*cotangents, retain_graph=True, create_graph=None):
        """The product of a tree like the value with the Jacobian."""
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        vectors, given_spec = tree_flatten(given)
        if given_spec != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {given_spec}, primal output: {spec}"
            )
        keeps = tracked or (corten.is_grad_enabled() and _is_tracked(given))
        with recording():
            found = _gradients(outputs, inputs, vectors)
        found = _outside(tree_unflatten(found, inputs_spec), keeps)
        return found

    result, aux = _outside((result, aux), tracked)
    return (result, product, aux) if has_aux else (result, product)


class _Call:
    """A function that is called again with the same random numbers, and whether recording was
    turned off while it ran.

    Derivatives in forward mode pass through what runs then, and those of a recorded graph do not.
    """

    def __init__(self, func):
        self.func = func
        self.turned_off = False
        self._state = corten.random.get_rng_state()

    def __call__(self, *args):
        before = _C._times_turned_off()
        result = self.func(*args)
        self.turned_off = _C._times_turned_off() != before
        return result

    def again(self, *args):
        """The result for other arguments."""
        after = corten.random.get_rng_state()
        corten.random.set_rng_state(self._state)
        try:
            return self.func(*args)
        finally:
            corten.random.set_rng_state(after)


def _forward(call, primals, tangents, has_aux):
    """What `jvp` returns, in forward mode."""
    def moved(leaf):
        if not isinstance(leaf, _Tensor):
            return leaf, None
        primal, tangent = forward_ad.unpack_dual(leaf)
        return primal, corten.zeros_like(primal) if tangent is None else tangent

    leaves, spec = tree_flatten(primals)
    with recording(), forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(leaves, tree_leaves(tangents))]
        result, aux = _split_aux(call.again(*tree_unflatten(duals, spec)), has_aux, "jvp")
        outputs, result_spec = tree_flatten(result)
        pairs = [moved(output) for output in outputs]
        aux = tree_map(lambda leaf: moved(leaf)[0], aux)
    values, products = zip(*pairs) if pairs else ((), ())
    return tree_unflatten(values, result_spec), tree_unflatten(products, result_spec), aux


def _forward_columns(call, inputs, spec, place, has_aux):
    """The columns that belong to one input, in forward mode: one call of the function for each."""
    zeros = [corten.zeros_like(tensor) for tensor in inputs]
    columns = []
    for element in range(inputs[place].numel()):
        unit = zeros[place].clone()
        unit.view(-1)[element] = 1
        tangents = zeros[:place] + [unit] + zeros[place + 1:]
        product = _forward(
            call, (tree_unflatten(inputs, spec),), (tree_unflatten(tangents, spec),), has_aux,
        )[1]
        columns.append(tree_leaves(product))
    return [corten.stack(column, -1) for column in zip(*columns)] if columns else None


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The value of ``func`` and the product of its Jacobian with ``tangents``.

    Computed backward twice: the product of a vector with the Jacobian is linear in the vector, and
    its derivative with respect to that is the transposed product.
    """
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple):
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected {name} to be a tuple. E.g. it should be "
                "valid to call f(*primals)."
            )
    if tree_structure(primals) != tree_structure(tangents):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            f"structure. For example, if primals is a tuple of 3 tensors, tangents also must be. "
            f"Got primals with structure {tree_structure(primals)} and tangents with structure "
            f"{tree_structure(tangents)}"
        )
    tracked = corten.is_grad_enabled() and _is_tracked((primals, tangents))
    with recording():
        own = _own_tree(primals)
        call = _Call(func)
        result, aux = _split_aux(call(*own), has_aux, "jvp(f, primals, tangents)")
        outputs, spec = _tensor_leaves(result, "jvp(f, primals, tangents)")
        inputs, directions = tree_leaves(own), tree_leaves(tangents)
    if call.turned_off:
        found = _outside(_forward(call, own, tangents, has_aux), tracked)
        return found if has_aux else found[:2]
    with recording():
        weights = [_own(corten.ones_like(output)) for output in outputs]
        back = _gradients(outputs, inputs, weights)
        moved = _gradients(back, weights, directions)
        product = tree_unflatten(moved, spec)
    result, product, aux = _outside((result, product, aux), tracked)
    return (result, product, aux) if has_aux else (result, product)


def linearize(func, *primals):
    """The value of ``func``, and the linear function from tangents to their product with its
    Jacobian at ``primals``."""
    tracked = corten.is_grad_enabled() and _is_tracked(primals)
    with recording():
        own = _own_tree(primals)
        call = _Call(func)
        result = call(*own)
        outputs, spec = _tensor_leaves(result, "linearize")
        inputs = tree_leaves(own)
        weights = [_own(corten.ones_like(output)) for output in outputs]
        back = _gradients(outputs, inputs, weights)

    def product(*tangents):
        """The product of the Jacobian with tangents like the primals."""
        if tree_structure(tangents) != tree_structure(primals):
            raise RuntimeError(
                "Expected the tangents to linearize's function to have the structure of the "
                "primals."
            )
        keeps = tracked or (corten.is_grad_enabled() and _is_tracked(tangents))
        if call.turned_off:
            return _outside(_forward(call, own, tangents, False)[1], keeps)
        with recording():
            moved = _gradients(back, weights, tree_leaves(tangents))
        return _outside(tree_unflatten(moved, spec), keeps)

    return _outside(result, tracked), product


def _chosen_arguments(func, argnums, args, has_aux, kwargs):
    """The chosen arguments and the function of them alone."""
    places = _places(argnums, len(args))
    chosen = args[places[0]] if isinstance(argnums, int) else tuple(args[p] for p in places)

    def partial(value):
        values = (value,) if isinstance(argnums, int) else value
        full = list(args)
        for place, item in zip(places, values):
            full[place] = item
        return func(*full, **kwargs)

    return chosen, partial


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that returns the Jacobian of ``func``, row by row."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        tracked = corten.is_grad_enabled() and _is_tracked((args, kwargs))
        with recording():
            chosen, partial = _chosen_arguments(func, argnums, args, has_aux, kwargs)
            own = _own_tree(chosen)
            result, aux = _split_aux(partial(own), has_aux, "jacrev")
            outputs, spec = _tensor_leaves(result, "jacrev")
            inputs, inputs_spec = tree_flatten(own)
            blocks = [_rows(output, inputs, chunk_size) for output in outputs]
            jacobian = tree_unflatten([tree_unflatten(b, inputs_spec) for b in blocks], spec)
        jacobian, aux = _outside((jacobian, aux), tracked)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def _rows(output, inputs, chunk_size):
    """The Jacobian of one output with respect to each input: all its rows at once."""
    if output.numel() == 0:
        return [tensor.new_zeros(output.shape + tensor.shape) for tensor in inputs]
    rows = _along_units(output, lambda unit: _gradients([output], inputs, [unit]), chunk_size)
    return [
        row.reshape(output.shape + tensor.shape) for row, tensor in zip(rows, inputs)
    ]


def _along_units(tensor, function, chunk_size, out_dims=0):
    """The results of a function for every tensor that is 1 at one element and 0 elsewhere."""
    count = tensor.numel()
    units = corten.eye(count, dtype=tensor.dtype, device=tensor.device)
    units = units.view((count,) + tensor.shape)
    return vmap(function, out_dims=out_dims, randomness="same", chunk_size=chunk_size)(units)


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """A function that returns the Jacobian of ``func``, column by column."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        tracked = corten.is_grad_enabled() and _is_tracked((args, kwargs))
        with recording():
            chosen, partial = _chosen_arguments(func, argnums, args, has_aux, kwargs)
            own = _own_tree(chosen)
            call = _Call(partial)
            result, aux = _split_aux(call(own), has_aux, "jacfwd")
            outputs, spec = _tensor_leaves(result, "jacfwd")
            inputs, inputs_spec = tree_flatten(own)
            columns = _all_columns(call, own, outputs, has_aux)
            blocks = [
                tree_unflatten(
                    [_side_by_side(columns[place], number, output, tensor)
                     for place, tensor in enumerate(inputs)],
                    inputs_spec,
                )
                for number, output in enumerate(outputs)
            ]
            jacobian = tree_unflatten(blocks, spec)
        jacobian, aux = _outside((jacobian, aux), tracked)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def _all_columns(call, own, outputs, has_aux):
    """The Jacobian of every output with respect to each input."""
    inputs, spec = tree_flatten(own)
    if call.turned_off:
        return [_forward_columns(call, inputs, spec, place, has_aux) for place in range(len(inputs))]
    weights = [_own(corten.ones_like(output)) for output in outputs]
    back = _gradients(outputs, inputs, weights)
    return [_columns(back[place], tensor, weights) for place, tensor in enumerate(inputs)]


def _columns(back, tensor, weights):
    """The Jacobian of every output with respect to one input: all its columns at once."""
    if tensor.numel() == 0:
        return None
    return _along_units(tensor, lambda unit: _gradients([back], weights, [unit]), None, -1)


def _side_by_side(columns, number, output, tensor):
    if columns is None:
        return output.new_zeros(output.shape + tensor.shape)
    return columns[number].reshape(output.shape + tensor.shape)


def hessian(func, argnums=0):
    """A function that returns the second derivatives of ``func``."""
    return jacfwd(jacrev(func, argnums), argnums)
