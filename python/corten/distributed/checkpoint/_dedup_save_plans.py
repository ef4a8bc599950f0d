"""Of what several processes would save, one saves it."""

from __future__ import annotations

import dataclasses

__all__ = ["dedup_save_plans"]


def dedup_save_plans(all_plans, save_to_lowest_rank=False):
    """Plans in which every item stands once: in that which has least to write so far, or in the first.

    The plans given are not changed.
    """
    owners: dict = {}
    for place, plan in enumerate(all_plans):
        for item in plan.items:
            owners.setdefault(item.index, (item, []))[1].append(place)
    sizes = [0] * len(all_plans)
    kept: list[set] = [set() for _ in all_plans]
    for index, (item, places) in owners.items():
        place = min(places, key=None if save_to_lowest_rank else sizes.__getitem__)
        # The size of what is no tensor is not known.
        sizes[place] += item.tensor_storage_size() or 1
        kept[place].add(index)
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if item.index in indices])
        for plan, indices in zip(all_plans, kept)
    ]
