"""Arguments by the structure with which a program was exported."""

from __future__ import annotations

__all__ = ["is_equivalent", "reorder_kwargs"]


def reorder_kwargs(user_kwargs, spec):
    """Named arguments in the order of the exported structure ``(args, kwargs)``.

    Raises:
        ValueError: There are other names.
    """
    if spec.type is not tuple:
        raise AssertionError(f"Expected spec type to be tuple, but got {spec.type}")
    if spec.num_children != 2:
        raise AssertionError(f"Expected spec to have 2 children, but got {spec.num_children}")
    names = spec.children_specs[1]
    if names.type is not dict:
        raise AssertionError(f"Expected kwargs_spec type to be dict, but got {names.type}")
    if set(user_kwargs) != set(names.context):
        raise ValueError(
            "Ran into a kwarg keyword mismatch: "
            f"Got the following keywords {list(user_kwargs)} but expected {names.context}"
        )
    return {name: user_kwargs[name] for name in names.context}


def is_equivalent(spec1, spec2, equivalence_fn):
    """Whether structures are the same as far as a function of types and contexts says."""
    if not equivalence_fn(spec1.type, spec1.context, spec2.type, spec2.context):
        return False
    if spec1.num_children != spec2.num_children:
        return False
    pairs = zip(spec1.children_specs, spec2.children_specs)
    return all(is_equivalent(one, other, equivalence_fn) for one, other in pairs)
