"""What the functions of :mod:`corten.distributed.distributed_c10d` say of themselves."""

from __future__ import annotations

import functools
import logging
import time

from corten.distributed.logging_handlers import _log_handlers

__all__ = []

_DEFAULT_DESTINATION = "default"


def _get_or_create_logger(destination=_DEFAULT_DESTINATION):
    handler = _log_handlers[destination]
    logger = logging.getLogger(f"c10d-{type(handler).__name__}")
    logger.setLevel(logging.DEBUG)
    handler.setFormatter(logging.Formatter("%(asctime)s %(filename)s:%(lineno)s %(levelname)s: %(message)s"))
    logger.propagate = False
    if handler not in logger.handlers:
        logger.addHandler(handler)
    return logger


_c10d_logger = _get_or_create_logger()


def _get_msg_dict(func_name, *args, **kwargs):
    from corten.distributed import distributed_c10d

    if not distributed_c10d.is_initialized():
        return {"func_name": str(func_name)}
    group = kwargs.get("group") or kwargs.get("process_group")
    return {
        "func_name": str(func_name),
        "pg_name": str(distributed_c10d._get_process_group_name(group or distributed_c10d._get_default_group())),
        "backend": str(distributed_c10d.get_backend(group)),
        "world_size": str(distributed_c10d.get_world_size()),
        "group_size": str(distributed_c10d.get_world_size(group)),
        "global_rank": str(distributed_c10d.get_rank()),
        "local_rank": str(distributed_c10d.get_rank(group)),
    }


def _exception_logger(func):
    """Records the exceptions of a function."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        try:
            return func(*args, **kwargs)
        except Exception as error:
            _c10d_logger.debug({**_get_msg_dict(func.__name__, *args, **kwargs), "error": str(error)})
            raise

    return wrapper


def _time_logger(func):
    """Records how long a function took, in seconds."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        start = time.monotonic()
        value = func(*args, **kwargs)
        _c10d_logger.debug({**_get_msg_dict(func.__name__), "time_spent": f"{time.monotonic() - start:.6f}"})
        return value

    return wrapper
