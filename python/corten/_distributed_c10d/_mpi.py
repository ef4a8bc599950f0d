"""The back end ``mpi``."""

from __future__ import annotations

import sys

from corten import _C

from ._enums import _DEFAULT_PG_TIMEOUT
from ._groups import Backend, _BackendOptions

# pip's packages of MPI put their libraries there.
_C._dist_mpi_set_prefix(sys.prefix)


class ProcessGroupMPI(Backend):
    """Ranks that a launcher of MPI has started. Made by :meth:`create`."""

    def __init__(self, *args, **kwargs):
        raise TypeError("ProcessGroupMPI: No constructor defined!")

    @staticmethod
    def create(ranks, timeout=_DEFAULT_PG_TIMEOUT):
        """The back end of some ranks of the program, which all call this, or of all.

        Args:
            ranks: Numbers of ranks, or an empty list for all.
            timeout: The time that calls have.

        Returns:
            The back end, or ``None`` on ranks that are not among them.

        Raises:
            DistBackendError: There is no library of MPI, or it is not the launcher's.
        """
        handle = _C._dist_mpi_backend(list(ranks), timeout.total_seconds())
        if handle is None:
            return None
        made = ProcessGroupMPI.__new__(ProcessGroupMPI)
        made._open(handle, _BackendOptions("mpi", timeout))
        return made


def _is_mpi_available():
    return _C._dist_mpi_is_available()
