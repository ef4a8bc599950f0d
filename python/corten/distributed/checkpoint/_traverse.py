"""Walking through nested dictionaries and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Union

import corten

from ._tensors import is_dtensor

PATH_ITEM = Union[str, int]
OBJ_PATH = tuple[PATH_ITEM, ...]
STATE_DICT_ITEM = object

__all__ = ["traverse_state_dict", "set_element", "get_element", "print_tensor"]


def _keep_visiting_tensors(value):
    return isinstance(value, corten.Tensor)


def _holds_no_parts(values, keep_traversing, is_leaf):
    """Whether none of the values is to be visited by itself."""
    for entry in values:
        if isinstance(entry, (Mapping, list)) and not is_leaf(entry):
            return False
        if keep_traversing is not None and keep_traversing(entry):
            return False
    return True


def _walk(path, value, visitor, is_leaf):
    if is_leaf(value):
        visitor(path, value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            _walk((*path, str(key)), part, visitor, is_leaf)
    else:
        for i, part in enumerate(value):
            _walk((*path, i), part, visitor, is_leaf)


def traverse_state_dict(
    state_dict, visitor: Callable[[OBJ_PATH, object], None], keep_traversing=_keep_visiting_tensors
) -> None:
    """Calls ``visitor(path, value)`` for every value: dictionaries are entered, lists that hold tensors or
    dictionaries too."""

    def is_leaf(value):
        if isinstance(value, Mapping):
            return False
        return not isinstance(value, list) or _holds_no_parts(value, keep_traversing, is_leaf)

    for key, value in state_dict.items():
        _walk((str(key),), value, visitor, is_leaf)


def traverse_state_dict_v_2_3(
    state_dict, visitor: Callable[[OBJ_PATH, object], None], keep_traversing=_keep_visiting_tensors
) -> None:
    """As checkpoints before PyTorch 2.4 were written: dictionaries without tensors are values."""

    def is_leaf(value):
        if isinstance(value, Mapping):
            values = value.values()
        elif isinstance(value, list):
            values = value
        else:
            return True
        return _holds_no_parts(values, keep_traversing, is_leaf)

    for key, value in state_dict.items():
        _walk((str(key),), value, visitor, is_leaf)


def set_element(root_dict, path: OBJ_PATH, value) -> None:
    """Puts a value where ``path`` leads; dictionaries (for names) and lists (for numbers) are made on the way."""
    place = root_dict
    for key, following in zip(path, path[1:]):
        made = {} if type(following) is str else []
        if isinstance(place, Mapping):
            place = place.setdefault(key, made)
            continue
        _extend(place, key)
        if place[key] is None:
            place[key] = made
        place = place[key]
    if type(path[-1]) is int:
        _extend(place, path[-1])
    place[path[-1]] = value


def _extend(values, index):
    values.extend([None] * (index + 1 - len(values)))


def get_element(root_dict, path: OBJ_PATH, default_value=None):
    """What is where ``path`` leads, or ``default_value``."""
    value = root_dict
    for part in path:
        if type(part) is int:
            if not isinstance(value, list) or len(value) <= part:
                return default_value
        elif not isinstance(value, Mapping) or part not in value:
            return default_value
        value = value[part]
    return value


def print_tensor(path: OBJ_PATH, value, print_fun: Callable[[str], None] = print) -> None:
    """A visitor for :func:`traverse_state_dict` that says what it sees."""
    if is_dtensor(value):
        print_fun(f"{path} DistributedTensor size: {value.size()}")
        print_tensor("", value._local_tensor, print_fun)
    elif isinstance(value, corten.Tensor):
        print_fun(f"{path} Tensor size: {value.size()}")
    else:
        print_fun(f"{path} Type: {type(value)}")
