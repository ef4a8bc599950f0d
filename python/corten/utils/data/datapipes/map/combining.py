"""Several pipes made one."""

from __future__ import annotations

from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]


class _OfSeveral(MapDataPipe):
    """A pipe behind several, all with a length."""

    def __init__(self, *datapipes):
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, MapDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `MapDataPipe`")
        if not all(hasattr(type(pipe), "__len__") for pipe in datapipes):
            raise TypeError("Expected all inputs to be `Sized`")
        self.datapipes = datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(_OfSeveral):
    """The samples of one pipe after those of another."""

    def __getitem__(self, index):
        start = 0
        for pipe in self.datapipes:
            if index - start < len(pipe):
                return pipe[index - start]
            start += len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(_OfSeveral):
    """Tuples of a sample of each pipe, as many as the shortest has."""

    def __getitem__(self, index):
        found = []
        for pipe in self.datapipes:
            try:
                found.append(pipe[index])
            except IndexError as error:
                raise IndexError(
                    f"Index {index} is out of range for one of the input MapDataPipes {pipe}."
                ) from error
        return tuple(found)

    def __len__(self):
        return min(map(len, self.datapipes))
