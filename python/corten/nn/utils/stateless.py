"""Calling a module with other parameters and buffers than its own."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

from corten import Tensor

__all__ = ["functional_call"]

_MISSING = object()


def _check_tensor(value):
    if value is not _MISSING and value is not None and not isinstance(value, Tensor):
        raise TypeError(f"{value} is not an instance of torch.Tensor")


def _submodule(module, path):
    """The submodule of a dotted path.

    Raises:
        AttributeError: There is none of that name.
        TypeError: It is no module.
    """
    from corten import nn

    owner = module
    for name in path.split(".") if path else ():
        found = getattr(owner, name, _MISSING)
        if found is _MISSING:
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        if not isinstance(found, nn.Module):
            raise TypeError(f"submodule `{name}`: {found} is not an instance of torch.nn.Module")
        owner = found
    return owner


def _swap(module, path, tensor):
    """Puts a tensor into a module, ``_MISSING`` to take one out, and returns what was there."""
    prefix, _, name = path.rpartition(".")
    owner = _submodule(module, prefix)
    _check_tensor(tensor)
    if not name:
        raise KeyError('tensor name can\'t be empty string ""')
    for table in (owner._parameters, owner._buffers):
        if name in table:
            before = table[name]
            if tensor is _MISSING:
                del table[name]
            else:
                table[name] = tensor
            return before
    before = getattr(owner, name, _MISSING)
    if before is not _MISSING and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(owner, name, tensor)
    elif before is not _MISSING:
        delattr(owner, name)
    return before


def _swap_all(module, tensors):
    """Swaps several tensors, or none: where one is refused, those before it are put back."""
    before = {}
    try:
        for path, tensor in tensors.items():
            before[path] = _swap(module, path, tensor)
    except Exception:
        for path, tensor in before.items():
            _swap(module, path, tensor)
        raise
    return before


def _named_tensors(module):
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _with_tied(module, given):
    """The tensors that are given, also under the other names of what they replace.

    Raises:
        ValueError: Names of one tensor are given several tensors.
    """
    groups = {}
    for name, tensor in _named_tensors(module):
        groups.setdefault(id(tensor), []).append(name)
    result = dict(given)
    for names in groups.values():
        tensors = [given[name] for name in names if name in given]
        if len({id(tensor) for tensor in tensors}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                "Consider using tie_weights=False"
            )
        if tensors and len(names) > 1:
            result.update(dict.fromkeys(names, tensors[0]))
    return result


def _check_names(module, given):
    """That the names are those of the module's tensors.

    Raises:
        RuntimeError: Some are missing or unknown.
    """
    own = dict.fromkeys(name for name, _ in _named_tensors(module))
    unexpected = sorted(repr(name) for name in given if name not in own)
    missing = sorted(repr(name) for name in own if name not in given)
    problems = []
    if unexpected:
        problems.append(f"Unexpected key(s): {', '.join(unexpected)}.")
    if missing:
        problems.append(f"Missing key(s): {', '.join(missing)}.")
    if problems:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(problems)
        )


@contextmanager
def _reparametrize_module(module, given, tie_weights=False, strict=False):
    tensors = _with_tied(module, given) if tie_weights else dict(given)
    if strict:
        _check_names(module, tensors)
    before = _swap_all(module, tensors)
    try:
        yield
    finally:
        after = _swap_all(module, before)
        # Buffers may have been assigned in the call: the caller sees the new ones.
        given.update({name: after[name] for name in given if after.get(name) is not _MISSING})


def _functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    if not isinstance(parameters_and_buffers, dict):
        raise TypeError(
            "Expected parameters_and_buffers to be a dict, but got "
            f"{type(parameters_and_buffers).__name__}"
        )
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """Calls ``module`` as if its parameters and buffers were those given by name.

    Deprecated in favour of ``torch.func.functional_call``.
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
