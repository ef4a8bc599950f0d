"""Settings of all the pipes before a pipe."""

from __future__ import annotations

import inspect
import warnings

import corten

from .datapipes.iter.sharding import SHARDING_PRIORITIES
from .graph import traverse_dps

__all__ = [
    "apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph):
    """The pipes of a graph, each once, the last ones first."""
    return list(_by_id(graph, {}).values())


def _by_id(graph, found):
    for number, (pipe, before) in graph.items():
        if number not in found:
            found[number] = pipe
            _by_id(before, found)
    return found


def _has(pipe, *names):
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(datapipe, num_of_instances, instance_id,
                   sharding_group=SHARDING_PRIORITIES.DEFAULT):
    """Says to the pipes that divide the samples which part is meant.

    Raises:
        RuntimeError: Two of them are in one line.
    """
    _shard(traverse_dps(datapipe), num_of_instances, instance_id, sharding_group, None)
    return datapipe


def _shard(graph, count, place, group, behind):
    for pipe, before in graph.values():
        applied = behind
        if _has(pipe, "apply_sharding"):
            if behind is not None:
                raise RuntimeError(
                    "Sharding twice on a single pipeline is likely unintended and will cause data "
                    f"loss. Sharding already applied to {behind} while trying to apply to {pipe}"
                )
            few = len(inspect.signature(pipe.apply_sharding).parameters) < 3
            pipe.apply_sharding(count, place, **({} if few else {"sharding_group": group}))
            applied = pipe
        _shard(before, count, place, group, applied)


def apply_shuffle_settings(datapipe, shuffle=None):
    """Lets the pipes that shuffle do so or not; puts one at the end where there is none."""
    if shuffle is None:
        return datapipe
    pipes = get_all_graph_pipes(traverse_dps(datapipe))
    shufflers = [pipe for pipe in pipes if _has(pipe, "set_shuffle", "set_seed")]
    if shuffle and not shufflers:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at "
            "the end. Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe, rng):
    """Deprecated: see :func:`apply_random_seed`."""
    warnings.warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. "
        "Please use `apply_random_seed` instead.", FutureWarning, stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe, rng):
    """Gives every pipe that draws numbers a seed from a generator."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has(pipe, "set_seed"):
            seed = corten.empty((), dtype=corten.int64).random_(generator=rng)
            pipe.set_seed(int(seed.item()))
    return datapipe
