"""Small helpers of modules."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat


def _ntuple(n):
    def parse(x):
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    return parse


_single = _ntuple(1)
_pair = _ntuple(2)
_triple = _ntuple(3)
_quadruple = _ntuple(4)


def _reverse_repeat_tuple(values, n):
    """Last value first, each `n` times: the order in which `pad` takes its widths."""
    return tuple(value for value in reversed(values) for _ in range(n))


def _list_with_default(out_size, defaults):
    """Sizes with those of ``defaults`` where they are None."""
    if not isinstance(out_size, Iterable):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    own = defaults[-len(out_size):]
    return [mine if wanted is None else wanted for wanted, mine in zip(out_size, own)]


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Takes a prefix off the keys of a state, and of its metadata, where they have it."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix):]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        # The state of the module itself has the prefix without its dot.
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix):]] = metadata.pop(key)
