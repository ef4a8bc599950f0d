"""Process groups and their back ends."""

from __future__ import annotations

import threading

import corten
from corten import _C

from . import _options as options
from ._collectives import NAMES, Collectives, device_type
from ._enums import _DEFAULT_PG_TIMEOUT, BackendType, ErrorType, HookOpName, OpType
from ._works import Work


class _BackendOptions:
    """Options of a back end.

    Args:
        backend: Its name.
        timeout: The time that its calls have.
    """

    def __init__(self, backend="undefined", timeout=_DEFAULT_PG_TIMEOUT):
        self._backend, self._timeout = backend, timeout
        self.global_ranks_in_group = []
        self.group_name = ""
        self.use_pg_for_symm_mem_rendezvous = self.enable_reconfigure = False

    @property
    def backend(self):
        """The back end's name."""
        return self._backend


class Backend(Collectives):
    """What runs the calls of a process group. Classes of programs may derive from it and give the methods."""

    Options = _BackendOptions
    _handle = None
    _options = None
    bound_device_id = None

    def __init__(self, rank, size):
        self._rank, self._size = rank, size

    def _open(self, handle, options):
        """Takes a native back end."""
        self._handle, self._options = handle, options
        self._rank, self._size = handle.rank, handle.size
        handle.set_timeout(options._timeout.total_seconds())

    def _begin(self, name, arguments, calls, opts, outputs, op_type):
        if self._handle is None:
            raise RuntimeError(f"Backend {self.name()} does not support {name}")
        time = None if opts is None else options.seconds(opts.timeout)
        asynchronous = True if opts is None else opts.asyncOp
        return Work._of(self._handle.start(calls, time, asynchronous), outputs, op_type)

    def rank(self):
        """This process's number."""
        return self._rank

    def size(self):
        """How many ranks there are."""
        return self._size

    def name(self):
        """The name of the back end."""
        if self._handle is not None:
            return self._handle.name
        if hasattr(self, "getBackendName"):
            return self.getBackendName()
        raise RuntimeError("Backend::getBackendName is not implemented")

    def _get_backend_name(self):
        return self.name()

    @property
    def options(self):
        """The options that it was made with."""
        if self._options is None:
            raise RuntimeError(f"Backend {self.name()} does not implement getBackendOptions")
        return self._options

    @property
    def supports_splitting(self):
        """Whether a part of the ranks may become a back end without the store."""
        return self._handle is not None and self._handle.supports_splitting

    @property
    def supports_coalescing(self):
        """Whether several calls go faster as one."""
        return self._handle is not None and self._handle.supports_coalescing

    supports_shrinking = supports_reconfigure = supports_window = False
    supports_abort_hooks = supports_completion_hooks = _supports_time_estimate = False

    def split(self, ranks, opts=None, store=None, timeout=None):
        """The back end of some ranks, in their order; ``None`` on the others. All ranks call this."""
        if not self.supports_splitting:
            raise RuntimeError(f"Backend {self.name()} does not support splitting")
        opts = self._options if opts is None else opts
        time = opts._timeout if timeout is None else timeout
        handle = self._handle.split(list(ranks), time.total_seconds(), store)
        if handle is None:
            return None
        made = type(self).__new__(type(self))
        made._open(handle, opts)
        return made

    def set_timeout(self, timeout):
        """The time that later calls have."""
        if self._options is not None:
            self._options._timeout = timeout
        if self._handle is not None:
            self._handle.set_timeout(timeout.total_seconds())

    _set_default_timeout = set_timeout

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """A barrier that says who has not come, on rank 0."""
        if self._handle is None:
            raise RuntimeError(f"Backend {self.name()} does not support monitoredBarrier")
        self._handle.monitored_barrier(options.seconds(timeout), wait_all_ranks)

    def abort(self):
        """Ends what runs: works fail."""
        if self._handle is not None:
            self._handle.abort("the process group was aborted")

    def shutdown(self):
        """Gives the connections up."""
        if self._handle is not None:
            self._handle.shutdown()

    def get_error(self):
        """What happened to it."""
        return ErrorType.SUCCESS

    def eager_connect_single_device(self, device=None):
        """Connects now, where that is done late."""

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        return 0 if self._handle is None else self._handle.sequence

    def supports_tensor_alloc(self, device):
        """Whether it has memory of its own."""
        return False

    def _wait_for_pending_works(self):
        pass


class ProcessGroupThreads(Backend):
    """Ranks that are threads of one process, which share a store.

    Args:
        store: A store that the threads share.
        rank: This thread's number.
        size: How many there are.
        timeout: The time that calls have.
    """

    def __init__(self, store, rank, size, timeout=_DEFAULT_PG_TIMEOUT):
        self._open(_C._dist_thread_backend(store, rank, size), _BackendOptions("threads", timeout))


class _Hooks:
    """Functions that see calls before and after they start."""

    def __init__(self):
        self.before, self.after, self.calls = {}, {}, 0

    def see(self, name, calls, opts, start):
        """Starts a call between the functions."""
        if not self.before and not self.after:
            return start()
        self.calls += 1
        number, kind = self.calls, _HOOK_NAMES.get(name, HookOpName.UNKNOWN)
        asynchronous = True if opts is None else opts.asyncOp
        for hook in list(self.before.values()):
            seen = options.PreHookArgs()
            seen.name, seen.async_op, seen.op_id = kind, asynchronous, number
            seen.output_tensors = [tensor for each in calls for tensor in each[1]]
            seen.input_tensors = [tensor for each in calls for tensor in each[2]]
            seen.root = getattr(opts, "rootRank", -1)
            hook(seen)
        work = start()
        for hook in list(self.after.values()):
            seen = options.PostHookArgs()
            seen.name, seen.async_op, seen.op_id, seen.work = kind, asynchronous, number, work
            hook(seen)
        return work


_HOOK_NAMES = {
    "_allgather_base": HookOpName.ALLGATHER_BASE, "_reduce_scatter_base": HookOpName.REDUCE_SCATTER_BASE,
    "alltoall_base": HookOpName.ALLTOALL_BASE, "recv_anysource": HookOpName.RECV,
    "allgather_into_tensor_coalesced": HookOpName.ALLGATHER_INTO_TENSOR_COALESCED,
    "reduce_scatter_tensor_coalesced": HookOpName.REDUCE_SCATTER_TENSOR_COALESCED,
    **{
        name.lower(): member for name, member in HookOpName.__members__.items()
        if name not in ("UNKNOWN", "SPLIT", "NEW_WINDOW")
    },
}


class ProcessGroup(Collectives):
    """The ranks that compute together, with a back end for each type of device.

    ``ProcessGroup(rank, size)`` or ``ProcessGroup(store, rank, size)``. Classes of programs may derive from it and
    give the methods.
    """

    BackendType = BackendType
    _overrides_collectives = False
    _default = BackendType.UNDEFINED
    _name, _desc, _bound = "", "undefined", None
    use_pg_for_symm_mem_rendezvous = False

    def __init__(self, *args, store=None, rank=None, size=None):
        values = [store, rank, size]
        for place, value in enumerate(args, start=1 if len(args) + (rank is not None) + (size is not None) == 2 else 0):
            values[place] = value
        self._store, self._rank, self._size = values
        if self._rank is None or self._size is None:
            raise TypeError("ProcessGroup expects (rank, size) or (store, rank, size)")
        self._group = _C._dist_group(self._rank, self._size, self._store)
        # By type of device, and by type of back end.
        self._of_device, self._of_type = {}, {}
        self._recorded = threading.local()
        self._hooks = _Hooks()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._overrides_collectives = any(getattr(cls, name) is not getattr(Collectives, name) for name in NAMES)

    def rank(self):
        """This process's number in the group."""
        return self._rank

    def size(self):
        """How many ranks there are."""
        return self._size

    def name(self):
        """The name of the default back end."""
        return self._get_backend_name()

    def _get_backend_name(self):
        # Classes of programs give their name so.
        return self.getBackendName() if hasattr(self, "getBackendName") else self._default_backend().name()

    def get_group_store(self):
        """The store through which the ranks found each other."""
        return self._store

    @property
    def group_name(self):
        """The name of the group."""
        return self._name

    def _set_group_name(self, name):
        self._name = name

    @property
    def group_desc(self):
        """What the group is for."""
        return self._desc

    def _set_group_desc(self, desc):
        self._desc = desc

    @property
    def bound_device_id(self):
        """The only device of this rank, if it was said."""
        return self._bound

    @bound_device_id.setter
    def bound_device_id(self, device):
        if device is not None and device.index is None:
            raise ValueError("setBoundDeviceId must have an index")
        self._bound = device

    @property
    def _device_types(self):
        return [corten.device(kind) for kind in self._of_device]

    def _register_backend(self, device, backend_type, backend=None):
        if backend is None:
            backend = self._of_type.get(backend_type)
            if backend is None:
                raise RuntimeError(f"Could not find the default backend type {int(backend_type)} for Process Group.")
        self._of_type[backend_type] = self._of_device[device.type] = backend
        self._group.register(device.type, backend)

    def _set_default_backend(self, backend_type):
        self._default = backend_type

    def _default_backend(self):
        found = self._of_type.get(self._default)
        if found is None:
            found = next(iter(self._of_device.values()), None)
        if found is None:
            raise RuntimeError(
                f"Could not find the default backend type {int(self._default)} for Process Group with name undefined."
            )
        return found

    def get_backend(self, device):
        """The back end of a type of device."""
        kind = corten.device(device).type
        if kind not in self._of_device:
            raise RuntimeError(f"No backend type associated with device type {kind}")
        return self._of_device[kind]

    _get_backend = get_backend

    def _id(self, backend_type=None):
        return id(self) if backend_type is None else self._backend_id(backend_type)

    def _backend_id(self, backend_type):
        return id(self._of_type.get(backend_type))

    def _begin(self, name, arguments, calls, opts, outputs, op_type):
        default = next(iter(self._of_device), "cpu")
        device = getattr(opts, "device", None)
        kind = default if device is None else device.type
        backend = self.get_backend(device_type(calls, kind))
        recorded = getattr(self._recorded, "calls", None)
        if recorded is not None and backend._handle is not None:
            recorded.append((backend, calls, outputs))
            return None
        if backend._handle is None or getattr(type(backend), name) is not getattr(Collectives, name):
            return self._hooks.see(name, calls, opts, lambda: getattr(backend, name)(*arguments))
        return self._hooks.see(
            name, calls, opts, lambda: backend._begin(name, arguments, calls, opts, outputs, op_type)
        )

    def _start_coalescing(self, device):
        if getattr(self._recorded, "calls", None) is not None:
            raise RuntimeError("_start_coalescing within a block that coalesces already")
        backend = self.get_backend(device)
        if backend._handle is not None:
            self._recorded.calls = []
        elif hasattr(backend, "_start_coalescing"):
            backend._start_coalescing()

    def _end_coalescing(self, device):
        recorded, self._recorded.calls = getattr(self._recorded, "calls", None), None
        backend = self.get_backend(device)
        if recorded is None:
            if hasattr(backend, "_end_coalescing"):
                return backend._end_coalescing()
            raise RuntimeError("_end_coalescing without _start_coalescing")
        calls = [each for _, some, _ in recorded for each in some]
        outputs = [tensor for _, _, some in recorded for tensor in some]
        if not calls:
            from ._works import done

            return done([])
        return backend._begin("coalesced", (), calls, None, outputs, OpType.COALESCED)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """A barrier that says who has not come, on rank 0."""
        self.get_backend("cpu").monitored_barrier(timeout, wait_all_ranks)

    def _get_sequence_number_for_group(self):
        return self._default_backend()._get_sequence_number_for_group()

    def _set_sequence_number_for_group(self):
        pass

    def _backends(self):
        return list({id(backend): backend for backend in self._of_device.values()}.values())

    def set_timeout(self, timeout):
        """The time that later calls have."""
        for backend in self._backends():
            backend.set_timeout(timeout)

    def abort(self):
        """Ends what runs: works fail."""
        for backend in self._backends():
            backend.abort()

    def shutdown(self):
        """Gives the connections up."""
        for backend in self._backends():
            backend.shutdown()

    def split_group(
        self, new_ranks, timeout=None, opts=None, group_name=None, group_desc=None, device_types=None,
    ):
        """The group of some ranks, in their order; ``None`` on the others. All ranks call this."""
        ranks = list(new_ranks)
        if not ranks:
            raise RuntimeError("Must pass in a non-empty list of ranks")
        if len(set(ranks)) != len(ranks) or not all(0 <= rank < self._size for rank in ranks):
            raise RuntimeError(f"ranks {ranks} are not distinct ranks of a group of {self._size}")
        name = f"{self._name}:split:{'_'.join(map(str, ranks))}" if group_name is None else group_name
        from ._stores import PrefixStore

        store = None if self._store is None else PrefixStore(f"{name}/", self._store)
        made, parts = None, {}
        wanted = None if device_types is None else {corten.device(device).type for device in device_types}
        for kind, backend in self._of_device.items():
            if wanted is not None and kind not in wanted:
                continue
            if id(backend) not in parts:
                parts[id(backend)] = backend.split(ranks, opts, store, timeout)
            if self._rank not in ranks:
                continue
            if made is None:
                made = ProcessGroup(store, ranks.index(self._rank), len(ranks))
                made._set_default_backend(self._default)
            types = [number for number, other in self._of_type.items() if other is backend]
            made._register_backend(corten.device(kind), (types or [BackendType.CUSTOM])[0], parts[id(backend)])
        if made is not None:
            made._set_group_name(name)
            made._set_group_desc(f"{self._desc}:split" if group_desc is None else group_desc)
        return made

    supports_reconfigure = supports_window = supports_abort_hooks = supports_completion_hooks = False

    def register_pre_hook(self, hook_id, hook):
        """Has a function see calls before they start."""
        self._hooks.before[hook_id] = hook

    def unregister_pre_hook(self, hook_id):
        """Forgets a function."""
        self._hooks.before.pop(hook_id, None)

    def register_post_hook(self, hook_id, hook):
        """Has a function see calls after they started."""
        self._hooks.after[hook_id] = hook

    def unregister_post_hook(self, hook_id):
        """Forgets a function."""
        self._hooks.after.pop(hook_id, None)

    def _has_hooks(self):
        return bool(self._hooks.before or self._hooks.after)

    def _wait_for_pending_works(self):
        pass

    def _enable_collectives_timing(self):
        pass


for _member in BackendType:
    setattr(ProcessGroup, _member.name, _member)

