"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

import contextlib

import corten
from corten import nn


def _owner(module, path):
    """The submodule that holds a parameter or buffer, and its name there."""
    prefix, _, name = path.rpartition(".")
    return module.get_submodule(prefix), name


def _tied_names(module):
    """For every name all names of the same tensor."""
    groups = {}
    for name, tensor in (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ):
        groups.setdefault(id(tensor), []).append(name)
    return {name: names for names in groups.values() for name in names}


def _with_tied(module, tensors):
    """The tensors, also under the other names of what they replace."""
    tied = _tied_names(module)
    result = {}
    for name, tensor in tensors.items():
        for other in tied.get(name, [name]):
            if other in tensors and tensors[other] is not tensor:
                raise ValueError(
                    f"functional_call got multiple values for keys {sorted((name, other))}, which "
                    "are tied. Consider using tie_weights=False"
                )
            result[other] = tensor
    return result


def _check_names(module, names, strict):
    if not strict:
        return
    own = set(dict(module.named_parameters(remove_duplicate=False)))
    own |= set(dict(module.named_buffers(remove_duplicate=False)))
    unexpected = [name for name in names if name not in own]
    missing = [name for name in own if name not in names]
    lines = []
    if unexpected:
        keys = ", ".join(repr(name) for name in unexpected)
        lines.append(f"Unexpected key(s): {keys}.")
    if missing:
        keys = ", ".join(repr(name) for name in sorted(missing))
        lines.append(f"Missing key(s): {keys}.")
    if lines:
        kind = type(module).__name__
        raise RuntimeError(
            f"Error(s) in reparametrizing for {kind}:\n\t" + "\n\t".join(lines)
        )


@contextlib.contextmanager
def _replaced(module, tensors, tie_weights, strict):
    """The module with other parameters and buffers, which it forgets at the end."""
    if tie_weights:
        tensors = _with_tied(module, tensors)
    _check_names(module, tensors, strict)
    before = []
    try:
        for path, tensor in tensors.items():
            owner, name = _owner(module, path)
            for table in (owner._parameters, owner._buffers):
                if name in table:
                    before.append((table, name, table[name]))
                    table[name] = tensor
                    break
        yield
    finally:
        for table, name, tensor in reversed(before):
            table[name] = tensor


def functional_call(
    module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """Calls a module with other tensors in place of some of its parameters and buffers."""
    dicts = parameter_and_buffer_dicts
    if isinstance(dicts, dict):
        tensors = dict(dicts)
    elif isinstance(dicts, (list, tuple)):
        if not all(isinstance(one, dict) for one in dicts):
            raise ValueError(
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
            )
        names = [name for one in dicts for name in one]
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if repeated:
            raise ValueError(
                f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
                "ambiguous"
            )
        tensors = {name: tensor for one in dicts for name, tensor in one.items()}
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _replaced(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def stack_module_state(models):
    """The parameters and the buffers of modules of one kind, each stacked along a new dimension."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(column):
        leaf = all(tensor.is_leaf for tensor in column)
        requires_grad = column[0].requires_grad
        if leaf:
            return corten.stack(list(column)).detach().requires_grad_(requires_grad)
        return corten.stack(list(column))

    def table(items):
        rows = [dict(items(model)) for model in models]
        return {name: stacked([row[name] for row in rows]) for name in rows[0]}

    return table(lambda m: m.named_parameters()), table(lambda m: m.named_buffers())


def replace_all_batch_norm_modules_(root):
    """Makes batch norms forget their running statistics, which cannot be updated per item."""

    def without(module):
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats:
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False

    for module in root.modules():
        without(module)
    return root
