"""Functions of samples."""

from __future__ import annotations

from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe
from ..utils.common import check_function

__all__ = ["MapperMapDataPipe", "default_fn"]


def default_fn(data):
    """The sample itself."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """A function of each sample."""

    def __init__(self, datapipe, fn=default_fn):
        super().__init__()
        check_function(fn)
        self.datapipe, self.fn = datapipe, fn

    def __len__(self):
        return len(self.datapipe)

    def __getitem__(self, index):
        return self.fn(self.datapipe[index])
