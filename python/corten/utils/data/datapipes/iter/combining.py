"""Several pipes made one, and one made several."""

from __future__ import annotations

import copy as _copy
import warnings
from collections import deque

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper, check_function

__all__ = [
    "ConcaterIterDataPipe", "DemultiplexerIterDataPipe", "ForkerIterDataPipe",
    "MultiplexerIterDataPipe", "ZipperIterDataPipe",
]


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """The samples of one pipe after those of another."""

    def __init__(self, *datapipes):
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self):
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self):
        return sum(self._length_of(*self.datapipes))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """A sample of each pipe in turn, until one of the pipes ends."""

    def __init__(self, *datapipes):
        self.datapipes = datapipes

    def __iter__(self):
        # Nothing of a round is given before all of it is there.
        for samples in zip(*map(iter, self.datapipes)):
            yield from samples

    def __len__(self):
        return min(self._length_of(*self.datapipes)) * len(self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of a sample of each pipe, until one of the pipes ends."""

    def __init__(self, *datapipes):
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        super().__init__()
        self.datapipes = datapipes

    def __iter__(self):
        yield from zip(*map(iter, self.datapipes))

    def __len__(self):
        return min(self._length_of(*self.datapipes))


class _SharedIterDataPipe(IterDataPipe):
    """Reads a pipe for several children. What one child reads waits for the others.

    A child that begins another pass while the others are in the same one begins it for all.
    """

    _transient = ("_source", "_waiting", "_stopped", "_ended")

    def __init__(self, datapipe, num_instances, buffer_size, name):
        self.main_datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{name}`, please be aware of OOM at random places",
                UserWarning, stacklevel=3,
            )
        self._start()

    def _start(self):
        self._source, self._ended = None, False
        self._waiting = [deque() for _ in range(self.num_instances)]
        self._stopped = [True] * self.num_instances

    def reset(self):
        """Begins again for all the children."""
        self._start()

    def _is_exhausted(self):
        return self._ended and all(self._stopped)

    def _read(self, child):
        """The samples for one child."""
        if self._source is None and self._stopped[child]:
            self._source, self._ended = iter(self.main_datapipe), False
            self._stopped = [False] * self.num_instances
        try:
            while not self._stopped[child]:
                if self._waiting[child]:
                    yield self._given(self._waiting[child].popleft())
                elif not self._advance(child):
                    break
        finally:
            self._stopped[child] = True
            self._leave(child)
            if all(self._stopped):
                self._source = None

    def _advance(self, child):
        """Reads one sample. Whether there was one."""
        if self._ended:
            return False
        try:
            sample = next(self._source)
        except StopIteration:
            self._source, self._ended = None, True
            return False
        self._deal(sample, child)
        return True

    def _given(self, sample):
        return sample

    def _leave(self, child):
        """Closes the streams that nobody will read."""
        raise NotImplementedError

    def _deal(self, sample, child):
        """Lays a sample down where it is waited for."""
        raise NotImplementedError

    def _drop(self, child):
        waiting = self._waiting[child]
        while waiting:
            StreamWrapper.close_streams(waiting.popleft())


def _same(sample):
    return sample


class _ForkerIterDataPipe(_SharedIterDataPipe):
    """Every child gets every sample."""

    _COPIES = {None: _same, "shallow": _copy.copy, "deep": _copy.deepcopy}

    def __init__(self, datapipe, num_instances, buffer_size=1000, copy=None):
        super().__init__(datapipe, num_instances, buffer_size, "fork")
        if copy not in self._COPIES:
            raise ValueError(
                f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`."
            )
        self.copy_fn = self._COPIES[copy]

    def __len__(self):
        return self._length_of(self.main_datapipe)[0]

    def _child_length(self):
        return len(self.main_datapipe)

    def _given(self, sample):
        return self.copy_fn(sample)

    def _deal(self, sample, child):
        for waiting in self._waiting:
            waiting.append(sample)
        if 0 <= self.buffer_size < max(map(len, self._waiting)):
            self._waiting[child].pop()  # the child has read it, though nobody gets it
            raise BufferError(
                f"ForkerIterDataPipe buffer overflow,buffer size {self.buffer_size} is insufficient."
            )

    def _leave(self, child):
        # The others may still read what this child did not.
        if all(self._stopped):
            for place in range(self.num_instances):
                self._drop(place)


class _DemultiplexerIterDataPipe(_SharedIterDataPipe):
    """Every sample goes to the child whose number a function gives."""

    def __init__(self, datapipe, num_instances, classifier_fn, drop_none, buffer_size):
        super().__init__(datapipe, num_instances, buffer_size, "demux")
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none

    def _child_length(self):
        raise TypeError

    def _deal(self, sample, child):
        kind = self.classifier_fn(sample)
        if kind is None and self.drop_none:
            StreamWrapper.close_streams(sample)
            return
        if kind is None or not 0 <= kind < self.num_instances:
            raise ValueError(
                f"Output of the classification fn should be between 0 and {self.num_instances - 1}. "
                f"{kind} is returned."
            )
        self._waiting[kind].append(sample)
        if kind != child and 0 <= self.buffer_size < sum(map(len, self._waiting)):
            raise BufferError(
                f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} is "
                "insufficient."
            )

    def _leave(self, child):
        self._drop(child)


class _ChildDataPipe(IterDataPipe):
    """What one of several children reads."""

    _is_child_datapipe = True

    def __init__(self, main_datapipe, instance_id):
        self.main_datapipe = main_datapipe
        self.instance_id = instance_id

    def __iter__(self):
        return self.main_datapipe._read(self.instance_id)

    def __len__(self):
        return self.main_datapipe._child_length()

    def _join_pass(self):
        """Takes part in the pass of the others, or begins one. Its number."""
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif main._valid_iterator_id == self._valid_iterator_id:
            main._valid_iterator_id += 1
            if not main._is_exhausted():
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are "
                    "resetting the buffer and each child DataPipe will read from the start again.",
                    UserWarning, stacklevel=4,
                )
            main.reset()
        self._valid_iterator_id = main._valid_iterator_id
        return self._valid_iterator_id

    def _in_pass(self, number):
        return number == self._valid_iterator_id == self.main_datapipe._valid_iterator_id


def _check_count(num_instances):
    if num_instances < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """``num_instances`` pipes of the same samples, or of copies of these. One may be
    ``buffer_size`` samples ahead of another; -1 is no limit."""

    def __new__(cls, datapipe, num_instances, buffer_size=1000, copy=None):
        _check_count(num_instances)
        if num_instances == 1:
            return datapipe
        main = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(main, place) for place in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """``num_instances`` pipes, among which ``classifier_fn`` divides the samples by number. At most
    ``buffer_size`` wait; -1 is no limit."""

    def __new__(cls, datapipe, num_instances, classifier_fn, drop_none=False, buffer_size=1000):
        _check_count(num_instances)
        check_function(classifier_fn)
        main = _DemultiplexerIterDataPipe(
            datapipe, num_instances, classifier_fn, drop_none, buffer_size
        )
        return [_ChildDataPipe(main, place) for place in range(num_instances)]
