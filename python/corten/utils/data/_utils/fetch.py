"""Samples of one batch from a data set."""

from __future__ import annotations

from .native import gather_of


class MapFetcher:
    """By index."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn = dataset, auto_collation, collate_fn
        self._gather = gather_of(dataset, collate_fn) if auto_collation else None

    def fetch(self, index):
        """The batch at a list of indices, or the sample at one."""
        if self._gather is not None and type(index) is list:
            batch = self._gather(index)
            if batch is not None:
                return batch
        if not self.auto_collation:
            data = self.dataset[index]
        elif callable(getattr(self.dataset, "__getitems__", None)):
            data = self.dataset.__getitems__(index)
        else:
            data = [self.dataset[i] for i in index]
        return self.collate_fn(data)


class IterableFetcher:
    """One after another."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.auto_collation, self.collate_fn, self.drop_last = auto_collation, collate_fn, drop_last
        self.iterator = iter(dataset)
        self.ended = False

    def fetch(self, index):
        """The next batch, as long as the list of indices."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.iterator))
        # Nothing here may call iter() on the iterator: where a class is its own iterator, that begins anew.
        data = []
        for _ in index:
            try:
                data.append(next(self.iterator))
            except StopIteration:
                self.ended = True
                break
        if not data or (self.ended and self.drop_last):
            raise StopIteration
        return self.collate_fn(data)
