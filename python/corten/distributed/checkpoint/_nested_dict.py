"""Nested dictionaries as flat ones, whose keys are joined by dots, and back."""

from __future__ import annotations

from . import _version
from ._traverse import OBJ_PATH, set_element, traverse_state_dict, traverse_state_dict_v_2_3

FLATTEN_MAPPING = dict[str, OBJ_PATH]


def flatten_state_dict(state_dict):
    """A flat dictionary, and for each of its keys the path in the nested one.

    Raises:
        ValueError: Two values have the same key when flat.
    """
    flat, mappings = {}, {}

    def put(path, value):
        key = ".".join(map(str, path))
        if key in flat:
            raise ValueError(f"duplicated flatten key {key}")
        flat[key] = value
        mappings[key] = path

    older = _version._derived_version == "2_3"
    (traverse_state_dict_v_2_3 if older else traverse_state_dict)(state_dict, put)
    return flat, mappings


def unflatten_state_dict(state_dict, mapping: FLATTEN_MAPPING):
    """The nested dictionary that :func:`flatten_state_dict` was given."""
    nested: dict = {}
    for key, value in state_dict.items():
        set_element(nested, mapping[key], value)
    return nested
