"""What a proxy mode does with one call of an operator."""

from __future__ import annotations

import corten
from corten import ops
from corten._decomp._tables import Composite
from corten._subclasses._fake_rules import GEOMETRY_CHANGES
from corten._subclasses._hint_checks import Floats
from corten._tags import takes_numbers
from corten.utils import _pytree as pytree

from ._proxy_slots import _ProxyTensor, get_proxy_slot, py_sym_types, track_tensor_tree

#: Values of constants are known up to this many elements.
CONSTANT_NUMEL_LIMIT = 1


def proxy_call(mode, func, args, kwargs):
    """The result of a call, which becomes a node; or of what stands for it in the table of the mode."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    if not all(_is_known_class(mode, leaf) for leaf in leaves):
        return NotImplemented
    made = decomposed(mode, func, args, kwargs)
    if made is not NotImplemented:
        return made
    if _takes_number(func) and not mode.pre_dispatch:
        with mode:
            return _with_number(func, *args, **kwargs)
    if not mode.pre_dispatch and _is_made_of_others(func):
        with mode:
            return func.decompose(*args, **kwargs)
    slots = [_slot(mode.tracer, leaf) for leaf in leaves]
    constant = _are_constant(slots, leaves)
    if corten.Tag.data_dependent_output in func.tags:
        if constant:
            args, kwargs = pytree.tree_unflatten(list(map(_constant, slots)), spec)
            with _real():
                return func(*args, **kwargs)
        _refuse_value(mode, func, leaves)
    if GEOMETRY_CHANGES.fullmatch(func.overloadpacket.__name__):
        # Nodes of the sizes that the tensor has now must come before what changes them.
        for size in args[0].shape:
            mode.tracer.unwrap_proxy(size)
    node_args, node_kwargs = pytree.tree_unflatten([_argument(mode.tracer, slot) for slot in slots], spec)
    if func._qualified == "aten::lift_fresh":
        func = ops.aten.lift_fresh_copy.default
    name = mode.tracer.graph._target_to_str(func.overloadpacket.__name__)
    proxy = mode.tracer.create_proxy("call_function", func, node_args, node_kwargs, name=name)
    result = func(*args, **kwargs)
    value = _value(func, slots, leaves, spec, args, result, constant)
    track_tensor_tree(result, proxy, constant=value, tracer=mode.tracer)
    return result


def _takes_number(func):
    """Whether an overload for a scalar is recorded as that for tensors, which takes the number."""
    packet, _, overload = func._qualified.partition(".")
    return overload == "Scalar" and takes_numbers(f"{packet}.Tensor")


def _with_number(func, self, other, alpha=None):
    named = {} if alpha is None else {"alpha": alpha}
    return func.overloadpacket.Tensor(self, other, **named)


def before_dispatch(name, args, kwargs):
    """A call above autograd in the form in which dispatch modes see those below."""
    from corten.utils._python_dispatch import _overload, _without_defaults

    func = _overload(name)
    args, kwargs = _without_defaults(name, func, args, kwargs)
    args = tuple(_as_given(one) for one in args)
    kwargs = {key: list(one) if isinstance(one, tuple) else one for key, one in kwargs.items()}
    if _takes_number(func):
        alpha = {"alpha": args[2]} if len(args) > 2 else {}
        return func.overloadpacket.Tensor, args[:2], {**kwargs, **alpha}
    if name == "aten::to.dtype_layout" and set(kwargs) == {"dtype"}:
        return func.overloadpacket.dtype, (*args, kwargs["dtype"]), {}
    return func, args, kwargs


def _as_given(value):
    """An argument as programs give it: lists, and numbers that became operands."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, corten.Tensor) and value._is_wrapped_number():
        return value.item()
    return value


def _is_made_of_others(func):
    """Whether an operator calls others. That for a scalar is recorded where programs call it with a number."""
    if not func._is_composite:
        return False
    overload = func.__name__.partition(".")[2]
    return overload != "Scalar" or "Tensor" not in func.overloadpacket.overloads()


def decomposed(mode, func, args, kwargs):
    """The result of the function that the mode's table has for an operator, if it has one."""
    function = mode.decomposition_table.get(func)
    if function is None or type(function) is Composite:
        return NotImplemented
    kept, Floats.active = Floats.active, None
    if kept is not None:
        kept.see(args, kwargs)
    with mode:
        mode.decomp_layers += 1
        try:
            return function(*args, **kwargs)
        finally:
            mode.decomp_layers -= 1
            Floats.active = kept


def _is_known_class(mode, leaf):
    if not isinstance(leaf, corten.Tensor):
        return True
    kind = type(leaf)
    if kind.__torch_dispatch__ is corten._C._disabled_torch_dispatch_impl or kind.__name__ == "FakeTensor":
        return True
    return leaf in mode.tracer.tensor_tracker


def _slot(tracer, leaf):
    if isinstance(leaf, corten.Tensor):
        return get_proxy_slot(leaf, tracer, leaf)
    return leaf


def _are_constant(slots, leaves):
    """Whether all values among arguments are known."""
    if any(isinstance(leaf, py_sym_types) for leaf in leaves):
        return False
    return not any(isinstance(slot, _ProxyTensor) and slot.constant is None for slot in slots)


def _constant(slot):
    return slot.constant if isinstance(slot, _ProxyTensor) else slot


def _argument(tracer, slot):
    """What stands for a value in a node's arguments."""
    if isinstance(slot, _ProxyTensor):
        return slot.proxy
    if isinstance(slot, py_sym_types):
        from ._symbolic_proxies import argument

        return argument(tracer, slot)
    return slot


def _real():
    from corten._subclasses.fake_tensor import unset_fake_temporarily

    return unset_fake_temporarily()


def _refuse_value(mode, func, leaves):
    """Refuses to make a value of a tensor with data part of the program.

    Raises:
        RuntimeError: No tensor among the arguments is one without data.
    """
    from corten._subclasses.fake_tensor import is_fake

    tensors = [leaf for leaf in leaves if isinstance(leaf, corten.Tensor)]
    if mode._error_on_data_dependent_ops and not any(map(is_fake, tensors)):
        raise RuntimeError(
            f"It appears that you're trying to get value out of a tracing tensor with {func} - erroring out! "
            "It's likely that this is caused by data-dependent control flow or similar.  "
            "It may be possible to trace this with dynamic shapes; try setting tracing_mode='symbolic' "
            "in your make_fx call."
        )


def record_value(tracer, tensor, number):
    """Says of which node a number that is left open is the value: of the last one, which asked a tensor for it."""
    slot = get_proxy_slot(tensor, tracer, None)
    last = next(iter(reversed(tracer.graph.nodes)), None)
    if slot is None or last is None or last.args != (slot.proxy.node,):
        return
    if last.target is ops.aten._local_scalar_dense.default:
        track_tensor_tree(number, tracer.proxy(last), constant=None, tracer=tracer)


def _is_small(result):
    leaves = pytree.tree_leaves(result)
    return all(leaf.numel() <= CONSTANT_NUMEL_LIMIT for leaf in leaves if isinstance(leaf, corten.Tensor))


def _value(func, slots, leaves, spec, args, result, constant):
    """The value of a result, where those of the arguments are known: numbers that programs make stay known."""
    if func._qualified == "aten::lift_fresh_copy":
        if result.numel() > CONSTANT_NUMEL_LIMIT:
            return None
        with _real():
            return args[0].clone()
    known = any(isinstance(slot, _ProxyTensor) and slot.constant is not None for slot in slots)
    if not (constant and known and _is_small(result)) or corten.Tag.nondeterministic_seeded in func.tags:
        return None
    args, kwargs = pytree.tree_unflatten(list(map(_constant, slots)), spec)
    with _real():
        return func(*args, **kwargs)
