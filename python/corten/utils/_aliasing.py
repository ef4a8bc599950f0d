"""Results of operators of tensors that wrap others: which of them are arguments, and which share their memory."""

from __future__ import annotations

import dataclasses

from corten import _C
from corten._schemas import parse_schema

__all__ = ["get_alias_info", "return_and_correct_aliasing"]


@dataclasses.dataclass
class AliasInfo:
    """The sets of aliases of an argument or result, whether it is written to, and its name."""

    alias_set: set
    is_write: bool
    name: str


@dataclasses.dataclass
class SchemaInfo:
    """What is known of the arguments and results of an overload."""

    args: list
    outs: list
    is_inplace_view_op: bool
    outs_write_aliases: list


def get_alias_info(func):
    """Which arguments and results of an overload share memory."""
    schema = parse_schema(str(func._schema))

    def info(one):
        alias = one.alias_info
        return AliasInfo(set() if alias is None else alias.before_set, alias is not None and alias.is_write, one.name)

    args, outs = [info(one) for one in schema.arguments], [info(one) for one in schema.returns]
    tags = getattr(func, "tags", ())
    written = [next(iter(one.alias_set)) if one.is_write else None for one in outs]
    return SchemaInfo(
        args, outs, any(getattr(tag, "name", tag) == "inplace_view" for tag in tags),
        written if any(one is not None for one in written) else None,
    )


def _has_storage(tensor):
    if not isinstance(tensor, _C.Tensor):
        return False
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return False
    return True


def _share(func, schema, args, kwargs, results):
    """Lets results show the memory of the arguments that the schema says they are views of."""
    results = results if isinstance(results, (list, tuple)) else [results]
    declared = schema.arguments
    for place, one in enumerate(declared):
        if one.alias_info is None or one.alias_info.is_write:
            continue
        given = kwargs.get(one.name) if one.kwarg_only or place >= len(args) else args[place]
        for result, returned in zip(flat(results), schema.returns * max(len(flat(results)), 1)):
            if returned.alias_info is None or not isinstance(result, _C.Tensor):
                continue
            if type(result) is not type(given):
                raise AssertionError(
                    f"Called {func} with input of type {type(given)} and output of type {type(result)}. But expected "
                    "types to match."
                )
            if _has_storage(given) and _has_storage(result):
                sizes, strides, offset = result.size(), result.stride(), result.storage_offset()
                with _C._DisableTorchDispatch():
                    result.set_(given.untyped_storage(), offset, sizes, strides)


def flat(values):
    """The values, with those in place of each list or tuple that it holds."""
    found = []
    for value in values:
        found.extend(value if isinstance(value, (list, tuple)) else [value])
    return found


def return_and_correct_aliasing(func, args, kwargs, out):
    """``out``, or the arguments that an operator writes to and returns. Results that are views share the memory of
    what they are views of, where there is memory."""
    kwargs = kwargs or {}
    schema = parse_schema(str(func._schema))
    _share(func, schema, args, kwargs, out)
    if schema.is_mutable and not any(one.is_out for one in schema.arguments):
        _follow(args, out)
    if not any(one.alias_info is not None and one.alias_info.is_write for one in schema.returns):
        return out
    results = out if len(schema.returns) > 1 else [out]
    found = []
    for declared, result in zip(schema.returns, results):
        if declared.alias_info is None or not declared.alias_info.is_write:
            found.append(result)
            continue
        for place, one in enumerate(schema.arguments):
            if one.alias_info is not None and one.alias_info.before_set == declared.alias_info.before_set:
                given = kwargs.get(one.name) if one.kwarg_only or place >= len(args) else args[place]
                found.append(given)
                break
    return found[0] if len(found) == 1 else type(out)(found)


def _follow(args, out):
    """Gives an argument the sizes and strides that an operator gave its result in place."""
    target = args[0] if args else None
    if not isinstance(target, _C.Tensor) or not isinstance(out, _C.Tensor) or target is out:
        return
    if target.size() != out.size() or target.stride() != out.stride():
        _C._set_geometry(target, out.size(), out.stride(), out.storage_offset())
