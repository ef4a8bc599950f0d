"""Groups made of groups."""

from __future__ import annotations

import contextlib
import hashlib

import corten
from corten._C import _distributed_c10d as native
from corten._C._distributed_c10d import PrefixStore, ProcessGroup
from corten.distributed._c10d.backends import Backend, BackendConfig, _get_default_timeout
from corten.distributed._c10d.groups import (
    _abort_process_group, _check_valid_timeout, _new_process_group_helper, _process_group_name,
    _register_pg_in_world, destroy_process_group, new_group,
)
from corten.distributed._c10d.world import (
    GroupMember, _get_default_group, _group_or_default_group, _rank_not_in_group, _update_default_pg, _world,
    get_process_group_ranks, get_rank, get_world_size,
)

SHRINK_DEFAULT = 0x00
SHRINK_ABORT = 0x01


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Cuts a group into groups of one size, of consecutive ranks.

    Args:
        group_size: How many ranks each has; without it as many as the machine has accelerators.
        group: What is cut; without it the default group.

    Returns:
        The one that this process is in, and all of them.

    Raises:
        ValueError: The size does not divide that of the group.
    """
    if group_size is None:
        if not corten.accelerator.is_available():
            raise ValueError(
                "Default group size only takes effect when CUDA/XPU is available."
                "If your subgroup using a backend that does not depend on CUDA/XPU,"
                "please pass in 'group_size' correctly."
            )
        group_size = corten.accelerator.device_count()
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    world_size = get_world_size(group=group)
    if world_size < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({world_size})"
        )
    if world_size % group_size != 0:
        raise ValueError(f"The world size ({world_size}) must be divisible by '{group_size=}'")
    ranks = get_process_group_ranks(group)
    parts = [ranks[first:first + group_size] for first in range(0, len(ranks), group_size)]
    mine, groups = new_subgroups_by_enumeration(
        parts, timeout=timeout, backend=backend, pg_options=pg_options, group_desc=group_desc
    )
    if not isinstance(mine, ProcessGroup):
        raise AssertionError("Current rank was not assigned to a subgroup")
    return mine, groups


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None
):
    """Makes a group of each list of ranks, no rank in two.

    Returns:
        The one that this process is in, or None, and all of them.

    Raises:
        ValueError: There is no list, or a rank is in two.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    mine, groups, places = None, [], {}
    for ranks in ranks_per_subgroup_list:
        made = new_group(
            ranks=ranks, timeout=timeout, backend=backend, pg_options=pg_options, group_desc=group_desc
        )
        groups.append(made)
        for rank in ranks:
            if rank in places:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {places[rank]} and {ranks}")
            places[rank] = ranks
        if get_rank() in ranks:
            mine = made
    return mine, groups


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None):
    """Splits a group by its engine, without meeting anew. Every rank of the parent calls it.

    Args:
        parent_pg: What is split; without it the default group.
        split_ranks: Lists of ranks in the parent.
        backend: Which of the parent's back ends the new groups keep.

    Returns:
        The group of this process, or ``GroupMember.NON_GROUP_MEMBER``.

    Raises:
        ValueError: The lists are empty, overlap or hold what is no rank.
        RuntimeError: The engine does not split.
    """
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    parent = _group_or_default_group(parent_pg)
    if parent not in _world.pg_group_ranks:
        raise ValueError(f"Group {parent} is not registered")
    inside = _world.pg_group_ranks[parent]
    rank = _get_default_group().rank()
    if rank not in inside:
        raise ValueError(f"Global rank {rank} is not part of the parent group {parent}")
    by_group_rank = {group_rank: global_rank for global_rank, group_rank in inside.items()}
    mine = _my_part(split_ranks, inside[rank])
    name_of_backend = _world.pg_map[parent][0]
    kept, devices = _kept_backends(parent, name_of_backend, backend)
    timeout = _get_default_timeout(kept) if timeout is None else timeout
    _check_valid_timeout(timeout)
    engines = [parent._get_backend(device) for device in devices or parent._device_types]
    if not any(getattr(engine, "supports_splitting", False) for engine in engines):
        raise RuntimeError(
            "No backend for the parent process group or its backend does not support splitting"
        )
    name = _process_group_name(mine, use_hashed_name=True)
    made = parent.split_group(
        mine, timeout=timeout, opts=pg_options, group_name=name, group_desc=group_desc, device_types=devices
    )
    if made is None or inside[rank] not in mine:
        return GroupMember.NON_GROUP_MEMBER
    made.bound_device_id = parent.bound_device_id
    mapping = {by_group_rank[group_rank]: place for place, group_rank in enumerate(mine)}
    _register_pg_in_world(
        made, kept, made.get_group_store(), name, str(BackendConfig(kept)), rank_mapping=mapping
    )
    return made


def _my_part(split_ranks, group_rank):
    """The list that a rank is in; the first where it is in none."""
    for part in split_ranks:
        if not part:
            raise ValueError("the split group cannot be empty")
        if len(part) > get_world_size():
            raise ValueError(
                "the split group's size should be less or equal to the world_size set by init_process_group"
            )
        if len(part) != len(set(part)):
            raise ValueError("the split group cannot have duplicate ranks")
    return next((part for part in split_ranks if group_rank in part), split_ranks[0])


def _kept_backends(parent, parent_backend, backend):
    """The back ends of a split group as text, and its devices where they are not all of the parent."""
    parent_backend = Backend(parent_backend)
    if backend is None:
        return parent_backend, None
    kinds = {device.type for device in parent._device_types}
    own = {
        device: str(name)
        for device, name in BackendConfig(parent_backend).get_device_backend_map().items()
        if device in kinds
    }
    wanted = str(backend).lower()
    if ":" in wanted:
        chosen = {device: str(name) for device, name in BackendConfig(wanted).get_device_backend_map().items()}
    else:
        chosen = {device: name for device, name in own.items() if name == wanted}
    if not chosen:
        raise ValueError(
            f"Requested backend '{wanted}' is not present in the parent process group (parent backends: {own})"
        )
    for device, name in chosen.items():
        if device not in own:
            raise ValueError(
                f"Requested backend for device '{device}' is not present in the parent process group "
                f"(parent backends: {own})"
            )
        if own[device] != name:
            raise ValueError(
                f"Backend mismatch for device '{device}': parent has '{own[device]}', requested '{name}'. "
                "Backend names must match exactly when filtering split_group backends."
            )
    return Backend(str(backend)), [corten.device(device) for device in chosen]


def shrink_group(ranks_to_exclude, group=None, shrink_flags=SHRINK_DEFAULT, pg_options=None):
    """A group without some of its ranks, made by the remaining ones alone through the store; the group that
    it takes the place of ends. After failures: the excluded ranks need not answer.

    Args:
        ranks_to_exclude: Ranks in the group.
        group: The group; without it the default one.
        shrink_flags: ``SHRINK_ABORT`` stops what is under way.

    Raises:
        ValueError: The list is empty, or holds this rank or what is no rank.
    """
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg) or pg not in _world.pg_map:
        raise ValueError("Invalid process group specified")
    if not isinstance(ranks_to_exclude, list) or not ranks_to_exclude:
        raise ValueError("ranks_to_exclude cannot be empty")
    out = set(ranks_to_exclude)
    if len(out) != len(ranks_to_exclude) or not all(0 <= rank < pg.size() for rank in out):
        raise ValueError(f"ranks_to_exclude must be different ranks of a group of {pg.size()}, got {ranks_to_exclude}")
    if pg.rank() in out:
        raise ValueError(f"Current rank {pg.rank()} cannot exclude itself")
    members = get_process_group_ranks(pg)
    remaining = [rank for place, rank in enumerate(members) if place not in out]
    is_default = pg is GroupMember.WORLD
    backend, store = _world.pg_map[pg]
    desc, device, default = pg.group_desc, pg.bound_device_id, _get_default_group()
    place = remaining.index(members[pg.rank()])
    # Ranks count groups differently when only some of them shrink one, so that the name is not of the count.
    name = hashlib.sha1(f"{pg.group_name}/{remaining}".encode(), usedforsecurity=False).hexdigest()
    store = PrefixStore(f"shrunk/{name}", store)
    if shrink_flags & SHRINK_ABORT:
        with contextlib.suppress(RuntimeError):
            pg.abort()
    _end_of_shrunk(pg, is_default)
    made, _ = _new_process_group_helper(
        len(remaining), place, [] if is_default else remaining, backend, store, name,
        backend_options=pg_options, timeout=_get_default_timeout(backend), device_id=device, group_desc=desc,
    )
    ranks = range(len(remaining)) if is_default else remaining
    _world.pg_group_ranks[made] = {rank: place for place, rank in enumerate(ranks)}
    _update_default_pg(made if is_default else default)
    return made


def _end_of_shrunk(pg, is_default):
    if is_default:
        _abort_process_group()
        return
    with contextlib.suppress(RuntimeError):
        destroy_process_group(pg)


@contextlib.contextmanager
def record_comm(name):
    """Names the collectives of a block for profiles."""
    before = native._get_comm_profiling_name()
    native._set_comm_profiling_name(name)
    try:
        yield
    finally:
        native._set_comm_profiling_name(before)
