"""The back end ``gloo``."""

from __future__ import annotations

from datetime import timedelta

from corten import _C

from ._enums import _DEFAULT_PG_TIMEOUT
from ._groups import Backend, _BackendOptions


class _Device:
    """Where a process listens: an interface, an address, or, with neither, the address of the host's name."""

    def __init__(self, hostname="", interface=""):
        self._hostname, self._interface = hostname, interface


class _GlooOptions(_BackendOptions):
    """Options of the back end ``gloo``."""

    def __init__(self):
        super().__init__("gloo")
        self._devices, self._threads = [], 2

    devices = property(lambda self: self._devices, lambda self, devices: setattr(self, "_devices", devices))
    threads = property(lambda self: self._threads, lambda self, threads: setattr(self, "_threads", threads))


class ProcessGroupGloo(Backend):
    """Collectives of the gloo library over TCP, between processes of one host or several.

    Args:
        store: The store through which the ranks find each other.
        rank: This process's number.
        size: How many ranks there are.
        timeout: The time that ranks have to come, and calls to end; or ``ProcessGroupGloo._Options``.
        enable_reconfigure: Must be false.
    """

    Device, Options, _Options = _Device, _GlooOptions, _GlooOptions

    def __init__(self, store, rank, size, timeout=_DEFAULT_PG_TIMEOUT, enable_reconfigure=False, *, options=None):
        if isinstance(timeout, _GlooOptions):
            options, timeout = timeout, timeout._timeout
        elif options is not None:
            timeout = options._timeout
        else:
            options = _GlooOptions()
            options._devices = [self.create_default_device()]
        if not isinstance(timeout, timedelta):
            raise TypeError(
                "ProcessGroupGloo(store, rank, size, timeout): timeout must be a datetime.timedelta or "
                f"ProcessGroupGloo._Options, not {type(timeout).__name__}"
            )
        if enable_reconfigure:
            raise NotImplementedError("ProcessGroupGloo: groups that change their ranks are not supported")
        if not options._devices:
            raise RuntimeError("No device(s) specified")
        options._timeout, device = timeout, options._devices[0]
        handle = _C._dist_gloo_backend(
            store, rank, size, timeout.total_seconds(), device._interface, device._hostname
        )
        self._open(handle, options)

    @staticmethod
    def create_device(hostname="", interface="", lazy_init=None):
        """The device of an interface or of an address of this host."""
        if not hostname and not interface:
            raise ValueError("Specify either `hostname` or `interface` argument.")
        return _Device(hostname, interface)

    @staticmethod
    def create_default_device(lazy_init=None):
        """The device of ``GLOO_SOCKET_IFNAME``, or of the host's name."""
        return _Device()


def _is_gloo_available():
    """Whether the library with gloo is there, or can be compiled."""
    return _C._dist_gloo_is_available()
