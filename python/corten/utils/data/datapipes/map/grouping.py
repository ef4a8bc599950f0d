"""Samples made batches."""

from __future__ import annotations

from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe
from ..iter.grouping import Batching

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(Batching, MapDataPipe):
    """Batches of ``batch_size`` samples; the last may be shorter, unless it is dropped."""

    def __getitem__(self, index):
        batch = []
        try:
            for place in range(index * self.batch_size, (index + 1) * self.batch_size):
                batch.append(self.datapipe[place])
        except IndexError as error:
            if self.drop_last or not batch:
                raise IndexError(f"Index {index} is out of bound.") from error
        return self.wrapper_class(batch)
