"""The default group and further ones: how they are made and how they end."""

from __future__ import annotations

import hashlib
import io
import logging
import operator
import os
import sys
import time
import warnings
from datetime import timedelta

import corten
from corten._C import _distributed_c10d as native
from corten._C._distributed_c10d import PrefixStore, ProcessGroup, Store
from corten.distributed._c10d.backends import (
    Backend, BackendConfig, _get_default_backend_type_for_backend_config, _get_default_timeout, is_gloo_available,
    make_backend, mpi_launched,
)
from corten.distributed._c10d.world import (
    GroupMember, _get_default_group, _rank_not_in_group, _resolve_process_group, _update_default_pg, _world,
    get_rank, get_world_size,
)

logger = logging.getLogger("corten.distributed.distributed_c10d")
STORE_BASED_BARRIER_PREFIX = "store_based_barrier_key"


def _check_valid_timeout(timeout):
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")


def _is_barrier_after_init():
    return int(os.environ.get("TORCH_DIST_INIT_BARRIER", "0"))


def init_process_group(
    backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="",
    pg_options=None, device_id=None, _ranks=None, enable_reconfigure=False,
):
    """Joins this process with the others of a program: afterwards there is a default group.

    Args:
        backend: ``gloo``, ``mpi``, ``nccl``, a registered name, or one for each type of device as
            ``cpu:gloo,cuda:nccl``. Without it the one of ``device_id``, of the accelerator, or of the CPU;
            below ``mpirun``, MPI.
        init_method: Where processes meet: ``env://`` (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT),
            ``tcp://host:port?rank=…&world_size=…`` or ``file:///path``.
        timeout: How long a collective may take.
        world_size: How many processes there are, where ``init_method`` does not say it.
        rank: Which of them this is.
        store: A store that all of them reach, in place of ``init_method``.
        group_name: Ignored.
        pg_options: Options of the back end.
        device_id: The device of this process.

    Raises:
        ValueError: There is a default group already, or ``device_id`` is no device of this machine.
        AssertionError: Both ``init_method`` and ``store`` are given.
    """
    if GroupMember.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if enable_reconfigure:
        raise NotImplementedError("init_process_group: enable_reconfigure is not supported by any back end")
    _check_where(init_method, store, world_size, rank)
    device_id = _checked_device(device_id)
    if backend is None and device_id is not None:
        backend = Backend.default_device_backend_map.get(device_id.type)
    if backend is None and store is None and init_method is None and mpi_launched():
        backend = Backend.MPI
    backend = Backend(Backend.UNDEFINED if backend is None else backend)
    timeout = _get_default_timeout(backend) if timeout is None else timeout
    _check_valid_timeout(timeout)
    if store is None and init_method is None:
        init_method = "env://"
    name = _process_group_name(_ranks or [], use_hashed_name=bool(_ranks))
    is_served = False
    if backend == Backend.MPI:
        _warn_mpi_assigns(world_size, rank)
        world_size = rank = -1
        store = native.HashStore()
    else:
        if store is None:
            store, rank, world_size = _meet(backend, init_method, rank, world_size, timeout)
            # The first rank serves a store over TCP, unless torchrun does, whose store has a prefix.
            is_served = isinstance(store, native.TCPStore)
        store = PrefixStore("default_pg", store)
    group, _ = _new_process_group_helper(
        world_size, rank, [], backend, store, name, backend_options=pg_options, timeout=timeout,
        device_id=device_id, group_desc="default_pg",
    )
    if is_served:
        for each in group._backends():
            if each._handle is not None:
                each._handle.set_store_rank(0)
    _update_default_pg(group)
    _world.pg_group_ranks[group] = {i: i for i in range(group.size())}
    _world.state.backend = _world.pg_map[group][0]
    _world.state.init_method = init_method
    _name_rank_in_tracebacks()
    if _is_barrier_after_init() == 1 and backend != Backend.MPI:
        _store_based_barrier(rank, store, name, world_size, timeout)


def _check_where(init_method, store, world_size, rank):
    if store is None:
        return
    if init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if world_size <= 0:
        raise AssertionError("world_size must be positive if using store")
    if rank < 0:
        raise AssertionError("rank must be non-negative if using store")


def _checked_device(device):
    """The device of a process, of an index too, which must be one of the accelerator's."""
    accelerator = corten.accelerator.current_accelerator()
    advice = "Please use a different compiled version that supports your accelerator."
    if isinstance(device, int):
        if accelerator is None:
            raise ValueError(
                "device_id is an int, but no accelerator support is found from the current compilation. " + advice
            )
        device = corten.device(accelerator.type, device)
    if device is None or device.type == "cpu":
        return device
    if accelerator is None or device.type != accelerator.type:
        raise ValueError(
            f"device_id {device} does not match the current compilation's accelerator support: {accelerator}. {advice}"
        )
    if device.index is None:
        raise ValueError("Please use a device_id with index.")
    if device.index >= corten.accelerator.device_count():
        raise ValueError(
            f"device_id {device} is out of range. Please use a device index less than the number of "
            f"accelerators available: {corten.accelerator.device_count()}."
        )
    return device


def _warn_mpi_assigns(world_size, rank):
    if world_size != -1 or rank != -1:
        warnings.warn(
            f"For MPI backend, world_size ({world_size}) and rank ({rank}) are ignored since they are "
            "assigned by the MPI runtime.",
            stacklevel=3,
        )


def _meet(backend, init_method, rank, world_size, timeout):
    if backend == Backend.FAKE:
        return native.HashStore(), rank, world_size
    from corten.distributed.rendezvous import rendezvous

    store, rank, world_size = next(rendezvous(init_method, rank, world_size, timeout=timeout))
    store.set_timeout(timeout)
    return store, rank, world_size


class _RankedHook:
    """Writes an exception that ends the program with ``[rankN]`` before each line."""

    def __init__(self, before):
        self.before = before

    def __call__(self, kind, value, traceback):
        rank = -1 if _world.default_pg is None else _world.default_pg.rank()
        shown, sys.stderr = sys.stderr, io.StringIO()
        try:
            self.before(kind, value, traceback)
        finally:
            text, sys.stderr = sys.stderr.getvalue(), shown
        prefix = f"[rank{rank}]: " if rank >= 0 else ""
        shown.write("\n".join(prefix + line if line else "" for line in text.split("\n")))
        shown.flush()


def _name_rank_in_tracebacks():
    if not isinstance(sys.excepthook, _RankedHook):
        sys.excepthook = _RankedHook(sys.excepthook)


def _store_based_barrier(rank, store, group_name, rendezvous_count, timeout, logging_interval=timedelta(seconds=10)):
    """Waits, with nothing but the store, until so many ranks are here.

    Raises:
        DistStoreError: They were not in time.
    """
    key = f"{STORE_BASED_BARRIER_PREFIX}:{group_name}"
    if store.add(key, 1) == rendezvous_count:
        store.set(f"{key}:last_worker", "1")
    end = time.monotonic() + timeout.total_seconds()
    while True:
        try:
            store.wait([f"{key}:last_worker"], logging_interval)
            return
        except RuntimeError as error:
            joined = store.add(key, 0)
            if time.monotonic() > end:
                raise corten._C._DistStoreError(
                    f"Timed out initializing process group in store based barrier on rank {rank}, for key: "
                    f"{key} (world_size={rendezvous_count}, num_workers_joined={joined}, timeout={timeout} "
                    f"error={error})"
                ) from error


def _hash_ranks_to_str(ranks):
    text = "_".join([*map(str, ranks), str(_world.group_count)])
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _process_group_name(ranks, use_hashed_name):
    name = _hash_ranks_to_str(ranks) if use_hashed_name else str(_world.group_count)
    _world.group_count += 1
    return name


def _process_group_color(ranks):
    """A number for a list of ranks that fits a C ``int``."""
    return abs(hash(tuple(ranks))) % (1 << 31)


def _new_process_group_helper(
    group_size, group_rank, global_ranks_in_group, backend, store, group_name, backend_options=None,
    timeout=None, pg_tag=None, device_id=None, group_desc=None, enable_reconfigure=False, split_from=None,
):
    """Makes a group and enters it into the tables; ``global_ranks_in_group`` is empty for the default one."""
    if group_name in _world.pg_names.values():
        raise ValueError(
            "The specified group name has already been created, please use a different group name"
        )
    if device_id is not None and device_id.index is None and device_id.type != "cpu":
        raise ValueError(
            "init_process_group device_id parameter must be a device with a valid index, e.g. cpu:0 or cuda:0"
        )
    _check_valid_timeout(timeout)
    if pg_tag:
        existing = _find_pg_by_ranks_and_tag(pg_tag, global_ranks_in_group)
        if existing is not None:
            return existing, _world.pg_map[existing][1]
    if global_ranks_in_group and _get_default_group().rank() not in global_ranks_in_group:
        if split_from is not None:
            split_from.perform_nocolor_split(device_id)
        return GroupMember.NON_GROUP_MEMBER, None
    prefix_store = PrefixStore(f"{group_name}/", store)
    config = BackendConfig(backend)
    options = native._DistributedBackendOptions()
    options.group_rank, options.group_size = group_rank, group_size
    options.timeout, options.group_id = timeout, group_name
    options.global_ranks_in_group = list(global_ranks_in_group)
    options.split_from = split_from
    pg = _filled_group(config, prefix_store, options, backend, backend_options, device_id)
    if pg is None:
        return GroupMember.NON_GROUP_MEMBER, None
    pg._set_group_name(group_name)
    pg._set_group_desc("undefined" if group_desc is None else group_desc)
    _register_pg_in_world(
        pg, backend, prefix_store, group_name, str(config), pg_tag=f"user:{pg_tag}" if pg_tag else None,
        add_to_default_tag=not pg_tag,
    )
    return pg, prefix_store


def _split_source(default, backend, device_id):
    """The back end of the default group, if the communicator of a new group can be a part of its own."""
    if device_id is None or device_id != default.bound_device_id:
        return None
    found = default._get_backend(device_id)
    splits = hasattr(found, "perform_nocolor_split") and found.supports_splitting
    same = BackendConfig(backend).get_device_backend_map().get(device_id.type) == found.name()
    return found if splits and same else None


def _filled_group(config, store, options, backend, backend_options, device_id):
    """A group with its back ends; None where this process is not in it."""
    mapping = config.get_device_backend_map()
    made = {}
    pg = None
    for device, name in mapping.items():
        if name not in made:
            options.store = PrefixStore(f"{device}/", store)
            options.process_group = pg
            made[name] = _compared(name, make_backend(name, options, backend_options), options)
        found = made[name]
        if found is None:
            return None
        if isinstance(found, ProcessGroup):
            return found
        if pg is None:
            # MPI says both itself.
            says = options.group_size <= 0
            rank, size = (found.rank(), found.size()) if says else (options.group_rank, options.group_size)
            pg = ProcessGroup(store, rank, size)
            pg._set_default_backend(_default_type(backend, config, device_id))
            if device_id is not None:
                pg.bound_device_id = device_id
        if device_id is not None and device_id.type == device and hasattr(found, "eager_connect_single_device"):
            found.eager_connect_single_device(device_id)
        kind = Backend.backend_type_map.get(name, ProcessGroup.BackendType.CUSTOM)
        pg._register_backend(corten.device(device), kind, found)
    return pg


def _compared(name, backend, options):
    """The back end, or with ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` one that compares calls of the ranks before they run."""
    level = native.get_debug_level()
    if level != native.DebugLevel.DETAIL or name not in (Backend.GLOO, Backend.NCCL) or not is_gloo_available():
        return backend
    store = PrefixStore(f"compares:{name}", options.store)
    watch = native.ProcessGroupGloo(store, options.group_rank, options.group_size, timeout=options.timeout)
    return native._ProcessGroupWrapper(backend, watch)


def _default_type(backend, config, device_id):
    if ":" not in str(backend) and backend != Backend.UNDEFINED:
        if backend not in Backend.backend_type_map:
            raise AssertionError(f"Unknown backend type {backend}")
        return Backend.backend_type_map[backend]
    return _get_default_backend_type_for_backend_config(config, device_id)


def _register_pg_in_world(
    pg, backend_name, store, group_name, backend_config, rank_mapping=None, pg_tag=None, user_tag=None,
    add_to_default_tag=False,
):
    """Enters a group into the tables of this rank and into the registry of names."""
    _world.pg_map[pg] = (backend_name, store)
    _world.pg_names[pg] = group_name
    _world.pg_backend_config[pg] = backend_config
    if rank_mapping is not None:
        _world.pg_group_ranks[pg] = rank_mapping
    native._register_process_group(group_name, pg)
    tag = pg_tag or user_tag or f"ptd:{group_name}"
    if add_to_default_tag or not (pg_tag or user_tag):
        _world.tags_to_pg.setdefault("", []).append(pg)
    _world.tags_to_pg.setdefault(tag, []).append(pg)
    _world.pg_to_tag[pg] = tag


def destroy_process_group(group=None):
    """Ends a group; without one, or for the default one, all of them. Every rank of the group calls it.

    Raises:
        AssertionError: There is no default group.
        ValueError: The group is not known.
    """
    _end(group, "Invalid process group specified", lambda pg: pg.shutdown())


def _abort_process_group(group=None):
    """Ends a group, or all of them, without waiting for what is under way.

    Raises:
        AssertionError: There is no default group.
        ValueError: The group is not known.
    """
    _end(group, "Invalid process group specified or has been destroyed.", lambda pg: pg.abort())


def _end(group, unknown, stop):
    if _rank_not_in_group(group):
        return
    pg = GroupMember.WORLD if group is None else group
    if pg is None:
        raise AssertionError("Process group cannot be None")
    if pg not in _world.pg_map:
        raise ValueError(unknown)
    if type(pg) is ProcessGroup and hasattr(pg, "_has_hooks") and pg._has_hooks():
        pg._wait_for_pending_works()
    if pg is not GroupMember.WORLD:
        stop(pg)
        _world.state.forget(pg)
        native._unregister_process_group(pg.group_name)
        return
    # The same order on every rank: some engines stop together.
    for each in sorted(_world.pg_names, key=_world.pg_names.get, reverse=True):
        stop(each)
    names = list(_world.pg_names.values())
    _world.state.forget_all()
    _update_default_pg(None)
    for name in names:
        native._unregister_process_group(name)


def set_timeout(timeout, group=None):
    """How long collectives of a group may take from now on.

    Raises:
        TypeError: ``timeout`` is no ``timedelta``.
        ValueError: This process is not in the group.
    """
    _check_valid_timeout(timeout)
    group = _get_default_group() if group is None else group
    if _rank_not_in_group(group):
        raise ValueError("Invalid process group specified")
    if not isinstance(group, ProcessGroup):
        raise AssertionError(f"Expected ProcessGroup, got {type(group)}")
    for device in group._device_types:
        group._get_backend(device)._set_default_timeout(timeout)


def _set_pg_timeout(timeout, group=None):
    warnings.warn(
        "`_set_pg_timeout` is deprecated, please use `torch.distributed.set_timeout` instead", FutureWarning,
        stacklevel=2,
    )
    set_timeout(timeout, group)


def _add_ephemeral_timeout_for_all_pgs(timeout):
    """Lengthens the timeout of the next collective of every group."""
    for pg in _world.pg_map:
        for device in pg._device_types:
            backend = pg._get_backend(device)
            if hasattr(backend, "_add_ephemeral_timeout"):
                backend._add_ephemeral_timeout(timeout)


def new_group(
    ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None,
    device_id=None, sort_ranks=True,
):
    """Makes a group of some ranks. Every rank of the world calls it, in the same order, unless
    ``use_local_synchronization``, with which the members alone do.

    Args:
        ranks: The members; without them all.
        timeout: How long its collectives may take.
        backend: As in :func:`init_process_group`; without it that of the default group.
        pg_options: Options of the back end.
        group_desc: A description.
        device_id: The device of this process.
        sort_ranks: Whether ranks in the group follow those of the world; else the order of ``ranks``.

    Returns:
        The group, or ``GroupMember.NON_GROUP_MEMBER`` where this process is not in it.
    """
    return _new_group_with_tag(
        ranks, timeout, backend, pg_options, None, use_local_synchronization, group_desc, device_id, sort_ranks
    )


def _new_group_with_tag(
    ranks=None, timeout=None, backend=None, backend_options=None, pg_tag=None, use_local_synchronization=False,
    group_desc=None, device_id=None, sort_ranks=True,
):
    default = _get_default_group()
    if device_id is None:
        device_id = default.bound_device_id
    elif default.bound_device_id is not None and device_id != default.bound_device_id:
        raise AssertionError("Mismatched bound device between new pg and the default pg.")
    default_backend, default_store = _world.pg_map[default]
    backend = Backend(backend or default_backend)
    timeout = _get_default_timeout(backend) if timeout is None else timeout
    _check_valid_timeout(timeout)
    ranks = _checked_ranks(ranks)
    if use_local_synchronization:
        if backend == Backend.MPI:
            raise ValueError("MPI backend doesn't support use_local_synchronization=True")
        if ranks is not None and default.rank() not in ranks:
            return GroupMember.NON_GROUP_MEMBER
    ranks = _ranks_of_new(ranks, default.size(), sort_ranks)
    rank = ranks.index(default.rank()) if default.rank() in ranks else None
    name = _process_group_name(ranks, use_hashed_name=use_local_synchronization)
    mapping = {global_rank: inside for inside, global_rank in enumerate(ranks)}
    if callable(getattr(default, "new_group", None)):
        made = default.new_group(
            ranks, timeout=timeout, backend=backend, pg_options=backend_options, group_name=name, group_desc=group_desc
        )
        if made is None:
            return GroupMember.NON_GROUP_MEMBER
        _register_pg_in_world(
            made, backend, PrefixStore(f"{name}/", default_store), name, str(BackendConfig(backend)), mapping
        )
        return made
    pg, store = _new_process_group_helper(
        len(ranks), rank, ranks, backend, default_store, name, backend_options=backend_options, timeout=timeout,
        pg_tag=pg_tag, device_id=device_id, group_desc=group_desc,
        # All ranks of the default group take part in a split.
        split_from=None if use_local_synchronization else _split_source(default, backend, device_id),
    )
    _world.pg_group_ranks[pg] = mapping
    if _is_barrier_after_init() == 1 and backend != Backend.MPI:
        local = use_local_synchronization
        _store_based_barrier(
            default.rank(), store if local else default_store, name, len(ranks) if local else get_world_size(), timeout
        )
    return pg


def _checked_ranks(ranks):
    if ranks is None:
        return None
    try:
        return [operator.index(rank) for rank in ranks]
    except TypeError as error:
        raise TypeError("ranks must be a sequence of integers") from error


def _ranks_of_new(ranks, world_size, sort_ranks):
    if ranks is None:
        return list(range(world_size))
    ranks = sorted(ranks) if sort_ranks else ranks
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"ranks list must not contain duplicate entries, got {ranks}")
    if len(ranks) > world_size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for rank in ranks:
        if not 0 <= rank < world_size:
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {world_size - 1} (world_size={world_size})"
            )
    return ranks


def _find_pg_by_ranks_and_tag(tag, ranks):
    if tag and not tag.startswith(("ptd:", "user:")):
        tag = f"user:{tag}"
    for group in _world.tags_to_pg.get(tag, []):
        if group.size() == len(ranks) and all(rank in _world.pg_group_ranks[group] for rank in ranks):
            return group
    return None


def _find_or_create_pg_by_ranks_and_tag(tag, ranks, stride):
    if len(ranks) % stride:
        raise ValueError(f"Ranks length ({len(ranks)}) must be divisible by stride ({stride})")
    sets = (ranks[first:first + stride] for first in range(0, len(ranks), stride))
    mine = sorted(next((members for members in sets if get_rank() in members), []))
    if not mine:
        raise AssertionError("rankset doesn't include the current node")
    found = _find_pg_by_ranks_and_tag(tag, mine)
    if found is not None:
        return found
    if tag == "":
        raise ValueError("Cannot automatically create PG with empty tag")
    return _new_group_with_tag(mine, pg_tag=tag)


def _get_group_tag(pg):
    """The tag of a group, as a user gave it or as it was made up."""
    return _world.pg_to_tag[pg].removeprefix("user:")


def _get_group_size_by_name(group_name):
    return _resolve_process_group(group_name).size()


def _resolve_group_name_by_ranks_and_tag(ranks, tag):
    group = _find_pg_by_ranks_and_tag(tag, ranks)
    if group is None:
        raise ValueError(f"there is no group of the ranks {ranks} with the tag {tag!r}")
    return group.group_name
