"""Calling a module with other parameters than its own."""

from __future__ import annotations

from contextlib import contextmanager

__all__ = ["functional_call"]


def _place(module, path):
    """The dictionary and name under which the tensor at `path` is held."""
    owner_path, _, name = path.rpartition(".")
    owner = module.get_submodule(owner_path)
    for members in (owner._parameters, owner._buffers):
        if name in members:
            return members, name
    raise KeyError(path)


def _tied_groups(module):
    groups = {}
    named = (
        *module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)
    )
    for name, tensor in named:
        groups.setdefault(id(tensor), []).append(name)
    return {name: names for names in groups.values() for name in names}


def _replacements(module, given, tie_weights, strict):
    groups = _tied_groups(module)
    unknown = [name for name in given if name not in groups]
    missing = [name for name in groups if not any(tied in given for tied in groups[name])]
    if strict and (unknown or missing):
        problems = []
        if unknown:
            problems.append(f"Unexpected key(s): {', '.join(map(repr, unknown))}.")
        if missing:
            problems.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
        raise RuntimeError(
            f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(problems)
        )
    tensors = {name: value for name, value in given.items() if name in groups}
    if tie_weights:
        for name, value in given.items():
            for tied in groups.get(name, ()):
                if tied in given and given[tied] is not value:
                    raise ValueError(
                        f"functional_call got multiple values for keys {sorted(groups[name])}, "
                        "which are tied. Consider using tie_weights=False"
                    )
                tensors[tied] = value
    return tensors


@contextmanager
def _reparametrize_module(module, given, tie_weights=False, strict=False):
    saved = []
    try:
        for path, tensor in _replacements(module, given, tie_weights, strict).items():
            members, name = _place(module, path)
            saved.append((members, name, members[name], path))
            members[name] = tensor
        yield
    finally:
        for members, name, original, path in saved:
            if path in given:
                given[path] = members[name]  # buffers may have been reassigned in the call
            members[name] = original


def functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """Calls ``module`` as if its parameters and buffers were those given by name."""
    if isinstance(parameters_and_buffers, (tuple, list)):
        joined = {}
        for part in parameters_and_buffers:
            if joined.keys() & part.keys():
                raise ValueError(f"{sorted(joined.keys() & part.keys())} appeared in multiple dictionaries")
            joined.update(part)
        parameters_and_buffers = joined
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))
