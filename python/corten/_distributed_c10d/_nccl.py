"""The back end ``nccl``."""

from __future__ import annotations

import itertools
import sys
from datetime import timedelta
from pathlib import Path

from corten import _C

from ._enums import _DEFAULT_PG_NCCL_TIMEOUT, ErrorType
from ._groups import Backend, _BackendOptions

#: A setting that the library decides.
_UNDEFINED = -(2**31)

_numbers = itertools.count()


def folders():
    """Where pip puts NCCL, below the folders of Python's packages."""
    found = (Path(entry, "nvidia", "nccl", "lib") for entry in sys.path)
    return [str(folder) for folder in found if folder.is_dir()]


def _is_nccl_available():
    """Whether NCCL's library is found."""
    return _C._dist_nccl_is_available(folders())


class _NcclConfig:
    """Settings of NCCL's communicators, under its names; ``-2147483648`` and ``None`` leave them to NCCL."""

    __slots__ = ("blocking", "cga_cluster_size", "min_ctas", "max_ctas", "net_name", "split_share")

    def __init__(self):
        self.blocking = self.cga_cluster_size = self.min_ctas = self.max_ctas = self.split_share = _UNDEFINED
        self.net_name = None


class _NcclOptions(_BackendOptions):
    """Options of the back end ``nccl``.

    Args:
        is_high_priority_stream: Whether collectives run on streams of high priority.
    """

    def __init__(self, is_high_priority_stream=False):
        super().__init__("nccl", _DEFAULT_PG_NCCL_TIMEOUT)
        self.config = _NcclConfig()
        self.is_high_priority_stream = is_high_priority_stream
        self.split_from, self.split_color = None, 0


class ProcessGroupNCCL(Backend):
    """Collectives of NCCL between GPUs.

    Communicators are made when the first call on a device comes, or by :meth:`eager_connect_single_device`.

    Args:
        store: The store through which the ranks find each other.
        rank: This process's number.
        size: How many ranks there are.
        options: Options, or the time that calls have.

    Raises:
        RuntimeError: NCCL, or a driver of CUDA, is not installed.
        ValueError: There is no GPU.
    """

    Options, NCCLConfig = _NcclOptions, _NcclConfig

    def __init__(self, store, rank, size, options=None, *, timeout=None):
        if isinstance(options, timedelta):
            options, timeout = None, options
        options = _NcclOptions() if options is None else options
        if not isinstance(options, _NcclOptions):
            raise TypeError(
                "ProcessGroupNCCL(store, rank, size, options): options must be ProcessGroupNCCL.Options, not "
                f"{type(options).__name__}"
            )
        if timeout is not None:
            options._timeout = timeout
        config = options.config
        handle = _C._dist_nccl_backend(
            store, rank, size, options._timeout.total_seconds(), folders(), options.is_high_priority_stream, None,
            config.blocking, config.cga_cluster_size, config.min_ctas, config.max_ctas, config.net_name,
            config.split_share,
        )
        self._open(handle, options)

    def _open(self, handle, options):
        super()._open(handle, options)
        self._uid, self._ephemeral = next(_numbers), timedelta(0)

    def _begin(self, name, arguments, calls, opts, outputs, op_type):
        if self._ephemeral:
            extra, self._ephemeral = self._ephemeral, timedelta(0)
            self._handle.set_timeout((self._options._timeout + extra).total_seconds())
            try:
                return super()._begin(name, arguments, calls, opts, outputs, op_type)
            finally:
                self._handle.set_timeout(self._options._timeout.total_seconds())
        return super()._begin(name, arguments, calls, opts, outputs, op_type)

    def _add_ephemeral_timeout(self, timeout):
        self._ephemeral += timeout

    def eager_connect_single_device(self, device=None):
        """Makes the communicator of a device now. All ranks call this.

        Raises:
            DistBackendError: A rank did not come in time, which is named.
        """
        _C._dist_nccl_connect(self._handle, _index(device))

    def comm_split_count(self):
        """How many communicators were split off."""
        return _C._dist_nccl_split_count(self._handle)

    def perform_nocolor_split(self, device):
        """Takes part in a split of the other ranks without being in a part."""
        _C._dist_nccl_connect(self._handle, _index(device))
        _C._dist_nccl_stay_out(self._handle)

    def _is_initialized(self):
        return _C._dist_nccl_is_initialized(self._handle)

    def _comm_ptr(self):
        return _C._dist_nccl_comm_address(self._handle)

    def get_error(self):
        """What happened to it."""
        return ErrorType.SUCCESS

    @property
    def uid(self):
        """A number that no other back end of this process has."""
        return self._uid

    @staticmethod
    def get_build_nccl_version():
        """The version of the library: none is chosen when Corten is built."""
        return ProcessGroupNCCL.get_runtime_nccl_version()

    @staticmethod
    def get_runtime_nccl_version():
        """The version of the library: ``(major, minor, patch)``.

        Raises:
            RuntimeError: There is none; `pip install nvidia-nccl-cu13` brings it.
        """
        return tuple(_C._dist_nccl_version(folders()))


def _index(device):
    """The number of a GPU: the current one's where none is said."""
    import corten

    if device is None:
        return corten.cuda.current_device()
    device = corten.device(device)
    if device.type != "cuda":
        raise ValueError(f"ProcessGroupNCCL expects a device of type cuda, but got {device}")
    return corten.cuda.current_device() if device.index is None else device.index
