"""Copies of state dictionaries, so that a program can go on while they are saved."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Optional, Protocol, runtime_checkable

import corten
from corten.distributed._state_dict_utils import _copy_state_dict, _create_cpu_state_dict

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """Copies a dictionary for :func:`async_save`. Where :attr:`should_synchronize_after_execute` is true,
    :meth:`synchronize_staging` is called before that function returns."""

    _synchronize_after_execute = True

    @property
    def should_synchronize_after_execute(self):
        """Whether the copy is waited for."""
        return self._synchronize_after_execute

    def stage(self, state_dict):
        """A copy of a dictionary, or a future of one."""
        raise NotImplementedError(f"{type(self).__name__} must implement stage method")

    def synchronize_staging(self):
        """Waits until the copy is complete."""

    def close(self):
        """Gives back what copying needs."""


@dataclass
class StagingOptions:
    """How :class:`DefaultStager` copies: into pinned memory, into memory that other processes can map, in a
    thread, and with copies from devices that are not waited for one by one."""

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies into memory of the CPU, which is kept for the next copy of a dictionary of the same shapes."""

    def __init__(self, config: Optional[StagingOptions] = None):
        self._config = StagingOptions() if config is None else config
        if self._config.use_non_blocking_copy and not corten.accelerator.is_available():
            raise AssertionError(
                "Non-blocking copy requires that the current accelerator is available."
            )
        self._executor = ThreadPoolExecutor(1) if self._config.use_async_staging else None
        self._future: Optional[Future] = None

    def stage(self, state_dict, **kwargs):
        """A copy of a dictionary, or with ``use_async_staging`` a future of one."""
        if not self._config.use_async_staging:
            return self._stage(state_dict)
        if self._executor is None:
            raise AssertionError("staging_executor should not be None for async staging")
        self._future = self._executor.submit(self._stage, state_dict)
        return self._future

    def _stage(self, state_dict):
        staged = _create_cpu_state_dict(
            state_dict, pin_memory=self._config.use_pinned_memory,
            share_memory=self._config.use_shared_memory,
        )
        return _copy_state_dict(
            state_dict, staged, non_blocking=self._config.use_non_blocking_copy
        )

    def close(self):
        """Ends the thread; the stager cannot be used any more."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None

    def synchronize_staging(self):
        """Waits until the last copy is complete."""
        if self._future is not None:
            self._future.result()


class BlockingAsyncStager(AsyncStager):
    """Copies before it returns; with ``cache_staged_state_dict`` into pinned memory that is kept."""

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict=False, type_check=False):
        self.cache_staged_state_dict = cache_staged_state_dict
        self.type_check = type_check
        self.state_dict_cache = None

    def stage(self, state_dict):
        """A copy of a dictionary."""
        staged = self.state_dict_cache
        if staged is None:
            staged = _create_cpu_state_dict(state_dict, pin_memory=self.cache_staged_state_dict)
            if self.cache_staged_state_dict:
                self.state_dict_cache = staged
        return _copy_state_dict(state_dict, staged, type_check=self.type_check)

    def synchronize_staging(self):
        """Nothing is left to wait for."""

    def close(self):
        """Nothing is to be given back."""
