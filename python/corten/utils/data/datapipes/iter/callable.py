"""Functions of samples."""

from __future__ import annotations

from ..._utils.collate import default_collate
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import check_function, validate_input_col

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """A function of each sample, or of the columns ``input_col``, whose result takes the place of
    the first of these, or that of ``output_col``; -1 is behind the last column."""

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        super().__init__()
        check_function(fn)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        validate_input_col(fn, input_col)
        self.datapipe, self.fn = datapipe, fn
        self.input_col, self.output_col = input_col, output_col

    def _apply_fn(self, data):
        if self.input_col is None:
            return self.fn(data)
        columns = self.input_col
        columns = columns if isinstance(columns, (list, tuple)) else (columns,)
        result = self.fn(*(data[column] for column in columns))
        fixed = isinstance(data, tuple)
        data = list(data) if fixed else data
        if self.output_col is None:
            data[columns[0]] = result
            for column in sorted(columns[1:], reverse=True):
                del data[column]
        elif self.output_col == -1:
            data.append(result)
        else:
            data[self.output_col] = result
        return tuple(data) if fixed else data

    def __iter__(self):
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self):
        return self._length_of(self.datapipe)[0]


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches made tensors, by ``default_collate`` or by another function."""

    def __init__(self, datapipe, conversion=default_collate, collate_fn=None):
        super().__init__(datapipe, fn=conversion if collate_fn is None else collate_fn)
