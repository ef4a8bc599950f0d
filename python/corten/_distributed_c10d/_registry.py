"""Groups by name, and the works that tensors wait for."""

from __future__ import annotations

import threading
import weakref

_groups = {}
_by_thread = threading.local()
_isolated = [False]


def _set_thread_isolation_mode(enabled):
    """Whether each thread has groups of its own, as where ranks are threads."""
    _isolated[0] = bool(enabled)


def _table():
    if not _isolated[0]:
        return _groups
    if not hasattr(_by_thread, "groups"):
        _by_thread.groups = {}
    return _by_thread.groups


def _register_process_group(group_name, process_group):
    """Gives a group a name."""
    _table()[str(group_name)] = process_group


def _resolve_process_group(group_name):
    """The group of a name.

    Raises:
        RuntimeError: There is none.
    """
    found = _table().get(str(group_name))
    if found is None:
        raise RuntimeError(f"Could not resolve the process group registered under the name {group_name}")
    return found


def _is_process_group_registered(group_name):
    """Whether a name has a group."""
    return str(group_name) in _table()


def _unregister_process_group(group_name):
    """Takes a name away."""
    _table().pop(str(group_name), None)


def _unregister_all_process_groups():
    """Takes all names away."""
    _table().clear()


_current = threading.local()


def _set_process_group(group):
    """Sets the group of this thread."""
    _current.group = group


def _current_process_group():
    """The group of this thread."""
    return getattr(_current, "group", None)


_works = {}
_lock = threading.Lock()
_inflight = [False]


def _key(tensor):
    return tensor.untyped_storage()._cdata


def _register_work(tensor, work):
    """Has ``wait_tensor`` of a tensor wait for a work."""
    key = _key(tensor)
    with _lock:
        _works.setdefault(key, []).append((weakref.ref(tensor), work))


def _take_works(tensor):
    """The works that a tensor waits for, which are forgotten."""
    with _lock:
        return [work for _, work in _works.pop(_key(tensor), ())]


def _get_work_registry_size():
    """How many works are waited for."""
    with _lock:
        return sum(len(works) for works in _works.values())


def _set_allow_inflight_collective_as_graph_input(value):
    """Whether tensors of works that are not waited for may enter compiled functions."""
    _inflight[0] = bool(value)


def _allow_inflight_collective_as_graph_input():
    """What was set."""
    return _inflight[0]


_names = threading.local()


def _set_comm_profiling_name(name):
    """The name that the profiler shows for collectives of this thread."""
    _names.name = name


def _get_comm_profiling_name():
    """The name that was set."""
    return getattr(_names, "name", "")


_rank = [None]


def _set_global_rank(rank):
    """This process's number among all, which messages show."""
    _rank[0] = rank
