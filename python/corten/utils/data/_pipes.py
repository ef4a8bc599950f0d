"""What loaders do with pipes: each worker gets its part, and all of them shuffle alike."""

from __future__ import annotations

import functools

import corten


def is_pipe(dataset, *kinds):
    """Whether a data set is a pipe, of one of the kinds ``iter`` and ``map``."""
    return getattr(type(dataset), "_pipe_kind", None) in (kinds or ("iter", "map"))


def draw_seed(dataset, generator):
    """The seed that the pipes of all workers share; None for what is no pipe."""
    if not is_pipe(dataset, "iter"):
        return None
    seed = corten.empty((), dtype=corten.int64).random_(generator=generator).item()
    apply_seed(dataset, seed)
    return seed


def apply_seed(dataset, seed):
    """Seeds the pipes before a pipe."""
    from .graph_settings import apply_random_seed

    if seed is not None:
        apply_random_seed(dataset, corten.Generator().manual_seed(seed))


def shard(dataset, count, place):
    """Leaves a pipe the part of one worker."""
    from .graph_settings import apply_sharding

    if is_pipe(dataset):
        apply_sharding(dataset, count, place)


def worker_start(dataset, seed, init):
    """What a worker calls first: seeds and divides its pipe, then calls the user's function."""
    return functools.partial(_start, seed, init) if is_pipe(dataset) else init


def _start(seed, init, worker_id):
    from ._utils.worker import get_worker_info

    info = get_worker_info()
    apply_seed(info.dataset, seed)
    shard(info.dataset, info.num_workers, worker_id)
    if init is not None:
        init(worker_id)
