"""How long collectives and stores wait."""

from __future__ import annotations

from datetime import timedelta

from corten._C._distributed_c10d import _DEFAULT_NO_TIMEOUT, _DEFAULT_PG_NCCL_TIMEOUT, _DEFAULT_PG_TIMEOUT

__all__ = ["default_pg_timeout", "default_pg_nccl_timeout"]

#: For every back end but NCCL: 30 minutes.
default_pg_timeout: timedelta = _DEFAULT_PG_TIMEOUT
#: For NCCL, whose watchdog ends the process: 10 minutes.
default_pg_nccl_timeout: timedelta = _DEFAULT_PG_NCCL_TIMEOUT
#: Stands for "as the group was made".
default_no_timeout: timedelta = _DEFAULT_NO_TIMEOUT
