"""Batches of a data set, fetched here or by workers."""

from __future__ import annotations

import copy
import functools
import itertools
import multiprocessing
import os
import warnings
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import corten

from . import _pipes
from ._utils import collate, fetch, native, pin_memory, pool, worker
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "get_worker_info"]

default_collate = collate.default_collate
default_convert = collate.default_convert
get_worker_info = worker.get_worker_info

_Item = TypeVar("_Item", covariant=True)


class _DatasetKind:
    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        """What takes samples from a data set of this kind."""
        cls = fetch.MapFetcher if kind == _DatasetKind.Map else fetch.IterableFetcher
        return cls(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler):
    """Stands for the order of an iterable data set, which has its own."""

    def __iter__(self):
        return itertools.repeat(None)


class DataLoader(Generic[_Item]):
    """Iterates over batches of a data set.

    ``num_workers`` processes fetch ahead, ``prefetch_factor`` batches each; batches come in order
    unless ``in_order=False``. The order of ``shuffle`` and the workers' seeds come from
    ``generator``, or from the global one.
    """

    dataset = None
    _fixed = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")

    def __init__(
        self, dataset: Dataset[_Item], batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
        collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
        multiprocessing_context=None, generator=None, *, prefetch_factor=None,
        persistent_workers=False, pin_memory_device="", in_order=True,
    ):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = _checked_context(multiprocessing_context, num_workers)
        self.in_order = in_order
        iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        if iterable:
            _check_iterable(dataset, shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            if iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._iterator = None
        self._IterableDataset_len_called = None
        self.__initialized = True
        self.check_worker_number_rationality()

    def __setattr__(self, name, value):
        if self.__dict__.get("_DataLoader__initialized") and name in self._fixed:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self):
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        if native.runs_in_threads(self):
            return _ThreadsDataLoaderIter(self)
        made = _MultiProcessingDataLoaderIter(self)
        return pin_memory.PinningIter(made) if made._pin else made

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers > 0) or native.runs_in_threads(self):
            return self._get_iterator()
        if self._iterator is None or self._iterator._pool.closed:
            self._iterator = None
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def __len__(self):
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        full, rest = divmod(length, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def check_worker_number_rationality(self):
        """Warns of more workers than there are processors for this process."""
        if not self.num_workers:
            return
        try:
            usable = len(os.sched_getaffinity(0))
        except (AttributeError, OSError):
            usable = os.cpu_count()
        if usable is not None and self.num_workers <= usable:
            return
        suggestion = (
            "DataLoader is not able to compute a suggested max number of worker in current system." if usable is None
            else f"Our suggested max number of worker in current system is {usable}, which is smaller than what this "
            "DataLoader is going to create."
        )
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {suggestion} Please be aware "
            "that excessive worker creation might get DataLoader running slow or even freeze, lower the worker number "
            "to avoid potential slowness/freeze if necessary.", stacklevel=3,
        )


def _checked_context(context, num_workers):
    """The context of a start method's name, or the context given."""
    if context is None:
        return None
    if not num_workers:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if isinstance(context, str):
        names = multiprocessing.get_all_start_methods()
        if context not in names:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {names!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={context}"
        )
    return context


def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers):
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 "
            "to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(dataset, shuffle, sampler, batch_sampler):
    if _pipes.is_pipe(dataset):
        from .graph_settings import apply_shuffle_settings

        # A pipe that does not shuffle is warned of and left as it is.
        apply_shuffle_settings(dataset, shuffle)
    elif shuffle not in (False, None):
        raise ValueError(
            "DataLoader with IterableDataset: expected unspecified shuffle option, but got "
            f"shuffle={shuffle}"
        )
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def _warn_of_pinning(loader):
    if loader.pin_memory and loader.pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{loader.pin_memory_device}'.", stacklevel=5)
    if loader.pin_memory and not corten.accelerator.is_available():
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
            "used.", stacklevel=5)


class _BaseDataLoaderIter:
    """One pass over a loader."""

    def __init__(self, loader):
        # A copy: a cycle with a loader that keeps its iterator would leave the workers' end to the
        # garbage collector, which breaks their queues first.
        self._loader = copy.copy(loader)
        self._loader._iterator = None
        self._pin = bool(loader.pin_memory) and corten.accelerator.is_available()
        _warn_of_pinning(loader)
        self._begin()
        self._shared_seed = _pipes.draw_seed(loader.dataset, loader.generator)
        # Drawn whether or not there are workers: the global stream must not depend on them.
        seed = corten.empty((), dtype=corten.int64)
        self._base_seed = seed.random_(generator=loader.generator).item()

    def _begin(self):
        self._sampler_iter = iter(self._loader._index_sampler)
        self._yielded = 0

    def __iter__(self):
        return self

    def __next__(self):
        batch = self._next_batch()
        if self._pin:
            batch = pin_memory.pin_memory(batch)
        self._yielded += 1
        self._warn_of_length()
        return batch

    def _warn_of_length(self):
        claimed = self._loader._IterableDataset_len_called
        if self._loader._dataset_kind == _DatasetKind.Map or claimed is None:
            return
        if self._yielded > claimed:
            message = (
                f"Length of IterableDataset {self._loader.dataset} was reported to be {claimed} "
                f"(when accessing len(dataloader)), but {self._yielded} samples have been fetched. "
            )
            if self._loader.num_workers > 0:
                message += (
                    "For multiprocessing data-loading, this could be caused by not properly configuring the "
                    "IterableDataset replica at each worker. Please see "
                    "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
                )
            warnings.warn(message, stacklevel=3)

    def __len__(self):
        return len(self._loader._index_sampler)

    def __getstate__(self):
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetches in this process."""

    def __init__(self, loader):
        super().__init__(loader)
        if loader.timeout != 0:
            raise AssertionError("timeout must be 0 when num_workers is 0")
        _pipes.shard(loader.dataset, 1, 0)
        self._fetcher = _DatasetKind.create_fetcher(
            loader._dataset_kind, loader.dataset, loader._auto_collation, loader.collate_fn,
            loader.drop_last,
        )

    def _next_batch(self):
        return self._fetcher.fetch(next(self._sampler_iter))


class _ThreadsDataLoaderIter(_BaseDataLoaderIter):
    """Has threads fetch rows of tensors."""

    _ahead = None

    def __init__(self, loader):
        super().__init__(loader)
        fetcher = _make_fetcher(
            loader._dataset_kind, True, loader.collate_fn, loader.drop_last, loader.dataset)
        self._ahead = native.BatchesAhead(
            functools.partial(_fetched, fetcher), self._sampler_iter, loader.num_workers, loader.prefetch_factor)

    def _next_batch(self):
        batch = self._ahead.next(self._loader.timeout)
        if isinstance(batch, worker.Failure):
            batch.reraise()
        return batch

    def __del__(self):
        if self._ahead is not None:
            self._ahead.close()


def _fetched(fetcher, indices):
    try:
        return fetcher.fetch(indices)
    except Exception as error:
        return worker.Failure(error, "in a thread of the DataLoader")


def _make_fetcher(kind, auto_collation, collate_fn, drop_last, dataset):
    return _DatasetKind.create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last)


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Hands index lists to worker processes and collects their batches.

    Invariants: every task has a number; numbers are handed out in rising order; a number is
    *open* from being handed out until its batch is returned; at most `prefetch_factor` numbers are
    open per worker. Batches that arrive before their turn wait in `_arrived`.
    """

    _pool = None

    def __init__(self, loader):
        from corten import multiprocessing

        super().__init__(loader)
        context = loader.multiprocessing_context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        make_fetcher = functools.partial(
            _make_fetcher, loader._dataset_kind, loader._auto_collation, loader.collate_fn,
            loader.drop_last,
        )
        init = _pipes.worker_start(loader.dataset, self._shared_seed, loader.worker_init_fn)
        self._pool = pool.WorkerPool(context, worker.run, [
            (loader.dataset, make_fetcher, self._base_seed, init, i, loader.num_workers)
            for i in range(loader.num_workers)
        ])
        self._workers = self._pool.processes
        self._shared_seed = _pipes.draw_seed(loader.dataset, loader.generator)
        self._start_pass()

    def _start_pass(self):
        self._sent = self._next = 0
        self._owner = {}
        self._arrived = {}
        self._alive = [True] * len(self._workers)
        self._turns = itertools.cycle(range(len(self._workers)))
        for _ in range(self._loader.prefetch_factor * len(self._workers)):
            self._send()

    def _reset(self, loader):
        """Begins another pass with the same workers."""
        self._pool.check()
        while len(self._arrived) < len(self._owner):
            self._receive()
        self._begin()
        self._shared_seed = _pipes.draw_seed(loader.dataset, loader.generator)
        for place in range(len(self._workers)):
            self._pool.send(place, worker.RESUME, self._shared_seed)
        waiting = set(range(len(self._workers)))
        while waiting:
            place, number, _, _ = self._pool.receive(self._loader.timeout or None)
            if number == worker.RESUME:
                waiting.discard(place)
        self._start_pass()

    def _send(self, to=None):
        """Hands the next task to the next worker alive, or to the one that just became free."""
        if to is None or not self._alive[to]:
            to = next((i for i in itertools.islice(self._turns, len(self._alive)) if self._alive[i]), None)
            if to is None:
                return
        try:
            indices = next(self._sampler_iter)
        except StopIteration:
            return
        self._pool.send(to, self._sent, indices)
        self._owner[self._sent] = to
        self._sent += 1

    def _receive(self):
        """Waits for an answer; raises if a worker died or the time is over."""
        place, number, data, descriptors = self._pool.receive(self._loader.timeout or None)
        if number == pool.GONE:
            left = [n for n, owner in self._owner.items() if owner == place and n not in self._arrived]
            for number in left:
                del self._owner[number]
            return
        self._arrived[number] = worker.loaded(place, data, descriptors, self._pool.slots(place))

    def _next_batch(self):
        self._pool.check()
        while True:
            number = self._ready_number()
            if number is None:
                if not self._owner:
                    if not self._loader.persistent_workers:
                        self._shutdown_workers()
                    raise StopIteration
                self._receive()
                continue
            answer, owner = self._arrived.pop(number), self._owner.pop(number)
            if isinstance(answer, worker.Ended):
                self._retire(answer.worker_id)
                self._send()
                continue
            self._send(to=None if self._loader.in_order else owner)
            if isinstance(answer, worker.Failure):
                answer.reraise()
            return answer

    def _ready_number(self):
        """The number of an answer whose turn it is."""
        if not self._loader.in_order:
            return next(iter(self._arrived), None)
        while self._next < self._sent and self._next not in self._owner:
            self._next += 1  # returned already, or its worker ended before it
        return self._next if self._next in self._arrived else None

    def _retire(self, worker_id):
        """Gives no more tasks to a worker whose part of the data ended."""
        if self._alive[worker_id]:
            self._alive[worker_id] = False
            if not self._loader.persistent_workers:
                self._pool.retire(worker_id)

    def _shutdown_workers(self):
        if self._pool is not None:
            self._pool.close()

    def __del__(self):
        self._shutdown_workers()
