"""What a process knows of its groups: the default one, their names, stores and members."""

from __future__ import annotations

import os
import threading
import warnings

from corten._C import _distributed_c10d as native
from corten._C._distributed_c10d import ProcessGroup

NO_DEFAULT_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."


class _State:
    """The groups of one rank."""

    def __init__(self):
        self.default_pg = None
        self.group_count = 0
        self.backend = None
        self.init_method = None
        #: Group -> (name of the back end, store).
        self.pg_map = {}
        self.pg_names = {}
        #: Group -> {global rank: rank in the group}.
        self.pg_group_ranks = {}
        self.pg_backend_config = {}
        self.tags_to_pg = {}
        self.pg_to_tag = {}
        #: Group -> calls that wait for the end of a coalescing block.
        self.pg_coalesce_state = {}

    def forget(self, group):
        """Removes what is known of one group."""
        for table in (self.pg_map, self.pg_names, self.pg_group_ranks, self.pg_backend_config):
            table.pop(group, None)
        if self.pg_coalesce_state.pop(group, None) is not None:
            warnings.warn(
                "Some coalesced collectives haven't been launched when ProcessGroup is destroyed. "
                "They will be cleaned.",
                stacklevel=3,
            )
        tag = self.pg_to_tag.pop(group, None)
        for key in {tag, ""} if tag is not None and tag.startswith("ptd:") else {tag}:
            members = self.tags_to_pg.get(key)
            if members is not None and group in members:
                members.remove(group)

    def forget_all(self):
        """Back to the state of a process that was never joined."""
        self.default_pg = self.backend = self.init_method = None
        self.group_count = 0
        for table in (
            self.pg_map, self.pg_names, self.pg_group_ranks, self.pg_backend_config, self.tags_to_pg,
            self.pg_to_tag, self.pg_coalesce_state,
        ):
            table.clear()


class _World:
    """The groups of the calling rank: of this process, or of the calling thread where ranks are threads."""

    def __init__(self):
        self._process = _State()
        self._threads = None

    @property
    def state(self):
        """The tables of the calling rank."""
        if self._threads is None:
            return self._process
        try:
            return self._threads.state
        except AttributeError:
            self._threads.state = _State()
            return self._threads.state

    @property
    def threads_are_ranks(self):
        """Whether each thread is a rank of its own."""
        return self._threads is not None

    def isolate_threads(self, isolated):
        """Whether each thread is a rank of its own from now on."""
        self._threads = threading.local() if isolated else None
        native._set_thread_isolation_mode(isolated)

    @property
    def default_pg(self):
        """The group of all ranks, or None."""
        return self.state.default_pg

    @default_pg.setter
    def default_pg(self, value):
        self.state.default_pg = value

    @property
    def group_count(self):
        """How many names were given to groups."""
        return self.state.group_count

    @group_count.setter
    def group_count(self, value):
        self.state.group_count = value

    @property
    def pg_config_info(self):
        """A description of each group."""
        return [
            {
                "pg_name": self.pg_names[group], "pg_desc": group.group_desc,
                "backend_config": self.pg_backend_config[group],
                "ranks": list(ranks) if len(ranks) != self.default_pg.size() else [],
                "group_size": len(ranks), "group_count": self.group_count,
            }
            for group, ranks in self.pg_group_ranks.items()
            if group in self.pg_names
        ]


def _table(name):
    return property(lambda world: getattr(world.state, name))


for _name in (
    "pg_map", "pg_names", "pg_group_ranks", "pg_backend_config", "tags_to_pg", "pg_to_tag",
    "pg_coalesce_state",
):
    setattr(_World, _name, _table(_name))

_world = _World()


class _WorldMeta(type):
    """Gives classes an attribute that is the default group."""

    @property
    def WORLD(cls):  # noqa: N802
        """The group of all ranks, or None."""
        return _world.default_pg

    @WORLD.setter
    def WORLD(cls, group):  # noqa: N802
        _world.default_pg = group


class group(metaclass=_WorldMeta):  # noqa: N801
    """Has the default group as ``group.WORLD``."""


class GroupMember(metaclass=_WorldMeta):
    """As :class:`group`, with what stands for a group that this process is not in."""

    NON_GROUP_MEMBER = -100


def is_initialized():
    """Whether the default group exists."""
    return _world.default_pg is not None


def is_torchelastic_launched():
    """Whether ``torchrun`` started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _get_default_group():
    default = _world.default_pg
    if default is None:
        raise ValueError(NO_DEFAULT_GROUP)
    return default


def _get_default_store():
    return _world.pg_map[_get_default_group()][1]


def _update_default_pg(pg):
    _world.default_pg = pg
    native._set_global_rank(pg.rank() if isinstance(pg, ProcessGroup) else -1)


def _group_or_default_group(group=None):
    return _get_default_group() if group is None or group is GroupMember.WORLD else group


def _rank_not_in_group(group):
    return group is not None and isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER


def _warn_not_in_group(op_name):
    rank = -1 if _world.default_pg is None else _world.default_pg.rank()
    warnings.warn(
        f"Running {op_name} on global rank {rank} which does not belong to the given group.", stacklevel=3
    )


def _registered(group):
    try:
        return _world.pg_group_ranks[group]
    except KeyError:
        raise ValueError(
            f"Group {group} is not registered, please create group with torch.distributed.new_group API"
        ) from None


def _resolve_process_group(group_name):
    """The group of a name; what is a group already is given back.

    Raises:
        RuntimeError: There is none.
    """
    return native._resolve_process_group(group_name) if isinstance(group_name, str) else group_name


def get_group_rank(group, global_rank):
    """The rank in a group of a rank of the world.

    Raises:
        ValueError: The group is not known, or the rank is not in it.
    """
    if group is not None and group is _world.default_pg:
        return global_rank
    ranks = _registered(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks[global_rank]


def get_global_rank(group, group_rank):
    """The rank of the world of a rank in a group.

    Raises:
        ValueError: The group is not known, or has no such rank.
    """
    if group is not None and group is _world.default_pg:
        return group_rank
    for rank, inside in _registered(group).items():
        if inside == group_rank:
            return rank
    raise ValueError(f"Group rank {group_rank} is not part of group {group}")


def _get_global_rank(group, rank):
    warnings.warn(
        "`torch.distributed.distributed_c10d._get_global_rank` is deprecated, please use "
        "`torch.distributed.distributed_c10d.get_global_rank` instead",
        FutureWarning,
        stacklevel=2,
    )
    return get_global_rank(group, rank)


def get_process_group_ranks(group):
    """The ranks of the world that are in a group, in the group's order."""
    return list(_world.pg_group_ranks[_group_or_default_group(group)])


def get_rank(group=None):
    """The rank of this process in a group, or -1 where it is not in it.

    Raises:
        ValueError: There is no default group.
    """
    if _rank_not_in_group(group):
        return -1
    default = _get_default_group()
    if group is None or group is default:
        return default.rank()
    return get_group_rank(group, default.rank())


def _get_group_size(group):
    if group is None or group is GroupMember.WORLD:
        return _get_default_group().size()
    return group.size()


def get_world_size(group=None):
    """How many ranks a group has, or -1 where this process is not in it.

    Raises:
        ValueError: There is no default group.
    """
    return -1 if _rank_not_in_group(group) else _get_group_size(group)


def _canonicalize_group_rank(group, global_rank=None, group_rank=None, return_global=False):
    """One rank of a group, of the two ways to say which."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return get_global_rank(group, group_rank) if return_global else group_rank
    if global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    return global_rank if return_global else get_group_rank(group, global_rank)


def _check_not_self_rank(group, rank, rank_type):
    if group.rank() == rank:
        raise ValueError(
            f"Invalid {rank_type} rank: {rank_type} rank should not be the same as the rank of the "
            "current process."
        )


def get_pg_count():
    """How many names of groups were used."""
    return _world.group_count


def _get_process_group_name(pg):
    return _world.pg_names.get(pg, "None")


def _get_process_group_store(pg):
    return _world.pg_map[pg][1]


def _get_process_group_uid(pg):
    """A number that the engine gave its communicator, or -1."""
    for device in pg._device_types:
        backend = pg._get_backend(device)
        if hasattr(backend, "uid"):
            return backend.uid
    return -1


def _get_pg_config(group=None):
    pg = _group_or_default_group(group)
    return {
        "pg_name": _get_process_group_name(pg), "pg_desc": pg.group_desc,
        "backend_config": get_backend_config(pg), "pg_size": _get_group_size(pg),
        "ranks": get_process_group_ranks(pg),
    }


def _get_all_pg_configs():
    return [_get_pg_config(pg) for pg in _world.pg_map]


def get_backend_config(group=None):
    """The back end of each type of device of a group, as ``cpu:gloo,cuda:nccl``.

    Raises:
        ValueError: This process is not in the group.
    """
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    return str(_world.pg_backend_config.get(pg))


def get_node_local_rank(fallback_rank=None):
    """The rank of this process on its machine, as whoever started it says.

    Raises:
        RuntimeError: Nobody did, and there is no ``fallback_rank``.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context and "
        "want the code to run locally instead."
    )
