"""Samples that a function picks."""

from __future__ import annotations

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper, check_function, validate_input_col

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The samples for which a function, of them or of the columns ``input_col``, is true."""

    def __init__(self, datapipe, filter_fn, input_col=None):
        super().__init__()
        check_function(filter_fn)
        validate_input_col(filter_fn, input_col)
        self.datapipe = datapipe
        self.filter_fn = filter_fn
        self.input_col = input_col

    def _kept(self, data):
        columns = self.input_col
        if columns is None:
            kept = self.filter_fn(data)
        elif isinstance(columns, (list, tuple)):
            kept = self.filter_fn(*(data[column] for column in columns))
        else:
            kept = self.filter_fn(data[columns])
        if not isinstance(kept, bool):
            raise ValueError(
                "Boolean output is required for `filter_fn` of FilterIterDataPipe, got", type(kept)
            )
        return kept

    def __iter__(self):
        for data in self.datapipe:
            if self._kept(data):
                yield data
            else:
                StreamWrapper.close_streams(data)
