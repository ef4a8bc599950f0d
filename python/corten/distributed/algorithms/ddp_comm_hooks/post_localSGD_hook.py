"""Averages over all processes at first, then over those of one machine."""

from __future__ import annotations

import logging

import corten
import corten.distributed as dist

from . import default_hooks as default

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]

logger = logging.getLogger(__name__)


class PostLocalSGDState:
    """What the hook is told.

    Args:
        process_group: The processes of the first passes; None for all.
        subgroup: Those of the later ones; None for those of this machine.
        start_localSGD_iter: How many passes are the first ones.
        post_local_gradient_allreduce: Whether later passes communicate at all.
    """

    __slots__ = [
        "process_group", "subgroup", "start_localSGD_iter", "post_local_gradient_allreduce", "iter",
    ]

    def __init__(
        self, process_group, subgroup, start_localSGD_iter, post_local_gradient_allreduce=True
    ):
        logger.info("Local SGD will be started after %s iterations", start_localSGD_iter)
        self.process_group = process_group
        self.subgroup = subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket):
        """Counts passes: one ends with the last bucket."""
        if bucket.is_last():
            self.iter += 1
        if self.iter == self.start_localSGD_iter:
            logger.info("Start to apply local SGD after %s iterations.", self.iter)


def post_localSGD_hook(state, bucket):
    """Averages a bucket over the processes of this stage; models are averaged after steps
    (:mod:`corten.distributed.algorithms.model_averaging`)."""
    buffer = bucket.buffer()
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return default._allreduce_fut(state.process_group, buffer)
    if not state.post_local_gradient_allreduce:
        future = corten.futures.Future()
        future.set_result(buffer)
        return future
    if state.subgroup is None:
        state.subgroup, _ = dist.new_subgroups()
    return default._allreduce_fut(state.subgroup, buffer)
