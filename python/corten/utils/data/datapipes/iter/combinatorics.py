"""Samples in other orders."""

from __future__ import annotations

import random

import corten

from ...sampler import Sampler, SequentialSampler
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe):
    """The samples that a sampler of the pipe gives."""

    def __init__(self, datapipe, sampler=SequentialSampler, sampler_args=None, sampler_kwargs=None):
        if not hasattr(type(datapipe), "__len__"):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        super().__init__()
        self.datapipe = datapipe
        self.sampler_args = () if sampler_args is None else sampler_args
        self.sampler_kwargs = {} if sampler_kwargs is None else sampler_kwargs
        self.sampler_kwargs["data_source"] = datapipe
        self.sampler: Sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self):
        return iter(self.sampler)

    def __len__(self):
        return self._length_of(self.sampler)[0]


def fresh_seed():
    """A seed drawn from the global generator."""
    return int(corten.empty((), dtype=corten.int64).random_().item())


class Shuffling:
    """What pipes in random order have in common."""

    def __init__(self):
        super().__init__()
        self._enabled = True
        self._seed = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle=True):
        """Shuffles, or leaves the order as it is."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        """Sets the seed of the next pass."""
        self._seed = seed
        return self


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffling, IterDataPipe):
    """The samples in random order: each is drawn from a buffer of the next ``buffer_size``."""

    def __init__(self, datapipe, *, buffer_size=10000, unbatch_level=0):
        super().__init__()
        self._buffer = []
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        if unbatch_level:
            datapipe = datapipe.unbatch(unbatch_level=unbatch_level)
        self.datapipe = datapipe
        self.buffer_size = buffer_size

    def __iter__(self):
        if not self._enabled:
            yield from self.datapipe
            return
        for sample in self.datapipe:
            if len(self._buffer) < self.buffer_size:
                self._buffer.append(sample)
                continue
            place = self._drawn()
            sample, self._buffer[place] = self._buffer[place], sample
            yield sample
        while self._buffer:
            yield self._buffer.pop(self._drawn())

    def _drawn(self):
        return self._rng.randint(0, len(self._buffer) - 1)

    def __len__(self):
        return self._length_of(self.datapipe)[0]

    def reset(self):
        """Empties the buffer, and takes the seed that was set or a fresh one."""
        self._buffer = []
        if self._enabled:
            self._rng.seed(fresh_seed() if self._seed is None else self._seed)
            self._seed = None
