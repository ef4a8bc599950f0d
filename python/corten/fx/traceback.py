"""What is noted of nodes while graphs are made of graphs."""

from __future__ import annotations

import contextlib
import copy
import traceback

__all__ = [
    "annotate", "annotate_fn", "format_stack", "get_current_meta",
    "get_current_replay_node", "has_preserved_node_meta", "preserve_node_meta", "reset_grad_fn_seq_nr",
    "set_current_meta", "set_current_replay_node", "set_grad_fn_seq_nr", "set_stack_trace",
]

#: What new nodes are noted to be.
current_meta = {}
should_preserve_node_meta = False
_replayed = None


@contextlib.contextmanager
def preserve_node_meta(enable=True):
    """A block in which nodes that are made of others keep their notes."""
    global should_preserve_node_meta, current_meta
    before, should_preserve_node_meta = (should_preserve_node_meta, current_meta.copy()), enable
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = before


def has_preserved_node_meta():
    """Whether such a block is active."""
    return should_preserve_node_meta


def set_stack_trace(stack):
    """Says where new nodes come from."""
    if should_preserve_node_meta and stack:
        current_meta["stack_trace"] = "".join(stack)


@contextlib.contextmanager
def annotate(annotation_dict):
    """A block in which new nodes have these notes, beside those of blocks around, below the key ``custom``."""
    global current_meta
    before = current_meta
    current_meta = {**before, "custom": {**before.get("custom", {}), **annotation_dict}}
    try:
        yield
    finally:
        current_meta = before


def annotate_fn(annotation_dict):
    """A decorator: what the function records has these notes."""
    import functools

    def decorate(function):
        @functools.wraps(function)
        def annotated(*args, **kwargs):
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return annotated

    return decorate


def set_grad_fn_seq_nr(seq_nr):
    """Notes which node of the graph of derivatives runs."""
    if should_preserve_node_meta:
        current_meta["grad_fn_seq_nr"] = current_meta.get("grad_fn_seq_nr", []) + [seq_nr]


def reset_grad_fn_seq_nr():
    """Notes that it does no longer."""
    if should_preserve_node_meta and current_meta.get("grad_fn_seq_nr"):
        rest = current_meta["grad_fn_seq_nr"][:-1]
        if rest:
            current_meta["grad_fn_seq_nr"] = rest
        else:
            del current_meta["grad_fn_seq_nr"]


def format_stack():
    """Where the node that is replayed comes from, or the program that runs."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextlib.contextmanager
def set_current_meta(node, pass_name=""):
    """A block in which new nodes have the notes of another one."""
    global current_meta
    if not (should_preserve_node_meta and node.meta):
        yield
        return
    before, current_meta = current_meta, node.meta.copy()
    current_meta["from_node"] = [*copy.copy(current_meta.get("from_node", [])), node]
    try:
        yield
    finally:
        current_meta = before


def get_current_meta():
    """What new nodes are noted to be."""
    return current_meta


@contextlib.contextmanager
def set_current_replay_node(node):
    """A block in which a node is replayed."""
    global _replayed
    before, _replayed = _replayed, node
    try:
        yield
    finally:
        _replayed = before


def get_current_replay_node():
    """The node that is replayed, or None."""
    return _replayed
