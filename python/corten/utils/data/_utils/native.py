"""Batches of data sets that are tensors: rows are gathered by one call for each tensor. Where there are workers,
threads do it, which the interpreter's lock does not stop and nothing has to be sent to."""

from __future__ import annotations

import collections
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError

import corten

from ..dataset import Subset, TensorDataset
from . import collate

__all__ = ["BatchesAhead", "gather_of", "runs_in_threads"]

_ROW = TensorDataset.__getitem__
_ROWS = Subset.__getitems__


def gather_of(dataset, collate_fn):
    """A function of a list of indices that gives what collating the samples gives, or None where the program has a
    part in that. It gives None for indices that are not numbers of rows."""
    default = collate.default_collate
    if collate_fn is not default or collate.default_collate_fn_map.get(corten.Tensor) is not collate.collate_tensor_fn:
        return None
    if type(dataset) is Subset and Subset.__getitems__ is _ROWS and type(dataset.indices) is list:
        inner, places = gather_of(dataset.dataset, collate_fn), dataset.indices
        if inner is None:
            return None
        count = len(places)
        return lambda indices: inner([places[i] for i in indices]) if _are_rows(indices, count) else None
    if type(dataset) is not TensorDataset or TensorDataset.__getitem__ is not _ROW or not dataset.tensors:
        return None
    if not all(_is_plain(tensor) for tensor in dataset.tensors):
        return None
    tensors, length = dataset.tensors, len(dataset)

    def gather(indices):
        if not _are_rows(indices, length):
            return None
        rows = corten.tensor([i % length for i in indices], dtype=corten.int64)
        return [tensor.index_select(0, rows) for tensor in tensors]

    return gather


def _are_rows(indices, length):
    return bool(indices) and all(type(i) is int and -length <= i < length for i in indices)


def _is_plain(tensor):
    return (
        type(tensor) is corten.Tensor and tensor.layout is corten.strided and tensor.device.type == "cpu"
        and not tensor.requires_grad and not tensor.is_quantized and not tensor.has_names()
        and not tensor.is_conj() and not tensor.is_neg()
    )


def runs_in_threads(loader):
    """Whether the workers of a loader may be threads without anybody seeing it: nothing of the program's runs in
    them."""
    return (
        loader._auto_collation and loader.worker_init_fn is None and loader.multiprocessing_context is None
        and gather_of(loader.dataset, loader.collate_fn) is not None
    )


class BatchesAhead:
    """Batches that threads fetch ahead, in the order of the indices."""

    def __init__(self, fetch, indices, workers, prefetch_factor):
        self._fetch, self._indices = fetch, indices
        self._most = workers * prefetch_factor
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="pt_data_worker")
        self._waiting = collections.deque()
        self._fill()

    def _fill(self):
        while len(self._waiting) < self._most:
            try:
                indices = next(self._indices)
            except StopIteration:
                return
            self._waiting.append(self._threads.submit(self._fetch, indices))

    def next(self, timeout):
        """The next batch."""
        if not self._waiting:
            self.close()
            raise StopIteration
        try:
            batch = self._waiting[0].result(timeout or None)
        except FutureTimeoutError:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None
        self._waiting.popleft()
        self._fill()
        return batch

    def close(self):
        """Drops what nobody will ask for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
