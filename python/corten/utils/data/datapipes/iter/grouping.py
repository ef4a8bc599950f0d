"""Samples made batches, and batches made samples."""

from __future__ import annotations

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe
from ..utils.common import check_function

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


class Batching:
    """What pipes of batches of either kind have in common."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def __len__(self):
        full, rest = divmod(self._length_of(self.datapipe)[0], self.batch_size)
        return full + (rest > 0 and not self.drop_last)


@functional_datapipe("batch")
class BatcherIterDataPipe(Batching, IterDataPipe):
    """Batches of ``batch_size`` samples; the last may be shorter, unless it is dropped."""

    def __iter__(self):
        batch = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The samples of batches, and of batches in these; -1 is down to what is no list."""

    def __init__(self, datapipe, unbatch_level=1):
        self.datapipe = datapipe
        self.unbatch_level = unbatch_level

    def __iter__(self):
        for element in self.datapipe:
            yield from self._dive(element, self.unbatch_level)

    def _dive(self, element, level):
        if level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        batched = isinstance(element, list)
        if level == 0 or (level == -1 and not batched):
            yield element
        elif batched:
            for item in element:
                yield from self._dive(item, level if level == -1 else level - 1)
        else:
            raise IndexError(
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe"
            )


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Batches of samples with one key.

    A group is given when it has ``group_size`` samples. When ``buffer_size`` samples wait, the
    largest group is given, if it has ``guaranteed_group_size`` samples; if not it is dropped, or an
    error without ``drop_remaining``. At the end all groups are given.
    """

    _transient = ("_groups", "_waiting")

    def __init__(self, datapipe, group_key_fn, *, keep_key=False, buffer_size=10000, group_size=None,
                 guaranteed_group_size=None, drop_remaining=False):
        check_function(group_key_fn)
        if group_size is not None and buffer_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None and (
            group_size is None or not 0 < guaranteed_group_size <= group_size
        ):
            raise AssertionError(
                "guaranteed_group_size must be > 0 and <= group_size and group_size must be set"
            )
        self.datapipe = datapipe
        self.group_key_fn = group_key_fn
        self.keep_key = keep_key
        self.max_buffer_size = buffer_size
        self.group_size = group_size
        fixed = group_size if buffer_size is not None else None
        self.guaranteed_group_size = fixed if guaranteed_group_size is None else guaranteed_group_size
        self.drop_remaining = drop_remaining
        self.wrapper_class = DataChunk
        self._start()

    def _start(self):
        self._groups, self._waiting = {}, 0

    def reset(self):
        """Forgets the samples that wait."""
        self._start()

    def __iter__(self):
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            group = self._groups.setdefault(key, [])
            group.append(sample)
            self._waiting += 1
            if len(group) == self.group_size:
                yield self._given(key, self._taken(key))
            if self._waiting == self.max_buffer_size:
                group = self._largest()
                if group is not None:
                    yield self._given(key, group)
        while self._groups:
            key = next(iter(self._groups))
            yield self._given(key, self._taken(key))

    def _taken(self, key):
        group = self._groups.pop(key)
        self._waiting -= len(group)
        return group

    def _given(self, key, group):
        batch = self.wrapper_class(group)
        return (key, batch) if self.keep_key else batch

    def _largest(self):
        """Takes the largest group out; None if it is too small."""
        key = max(self._groups, key=lambda key: len(self._groups[key]))
        group = self._groups[key]
        small = self.guaranteed_group_size is not None and len(group) < self.guaranteed_group_size
        if small and not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(group))
        self._taken(key)
        return None if small else group
