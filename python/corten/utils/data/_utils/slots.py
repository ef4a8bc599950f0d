"""Shared memory that a worker fills again and again.

A fresh page costs more than the bytes that are copied to it: the system has to clear it, and to enter it in the tables
of both processes. So a worker keeps the memory of batches that the loader is done with, as *slots*, and puts
the next batch there. The loader holds a slot's mapping, and hands out storages over it; once the last of them is
gone it says so with the next message to the worker.

Invariants: a slot is in one batch at a time; it is filled again only when neither process has a storage
over it; what a process forks while a batch is in use is never filled again, as the forked process may use it, too.
"""

from __future__ import annotations

import os
import weakref

import corten
from corten import _C, _utils

__all__ = ["LoaderSlots", "WorkerSlots"]

#: Slots that a worker keeps at most; further tensors travel in memory of their own.
_MOST = 64
#: A slot serves tensors of at least this part of its bytes.
_LEAST_PART = 2
#: Sizes of slots are rounded up to as many steps between powers of two, so that similar batches fit.
_STEPS = 8


def _capacity(nbytes):
    step = max(4096, (1 << nbytes.bit_length() - 1) // _STEPS)
    return -(-nbytes // step) * step


class _Slot:
    """Memory of a worker. ``sent``: whether the loader has mapped it; ``lent``: whether it is in a batch."""

    __slots__ = ("lent", "number", "sent", "whole")

    def __init__(self, number, nbytes):
        self.number, self.whole = number, _C._new_slot(nbytes)
        self.sent = self.lent = False


class Placed:
    """Stands for a storage of a message: the slot, its bytes, and where a first descriptor is among those of the
    message."""

    def __init__(self, *where):
        self.where = where

    def __reduce__(self):
        return rebuild_placed, self.where


class WorkerSlots:
    """The slots of a worker, and what a message that is being written puts into them."""

    #: Those of this process, if it is a worker.
    current = None

    def __init__(self, least):
        self._least = least
        self._slots, self._by_start, self._next = [], {}, 0
        self._copied = {}
        self._message = None

    def take(self, nbytes):
        """A storage of so many bytes over a slot that is not in use, or None."""
        if nbytes < self._least:
            return None
        slot = self._free(nbytes)
        return None if slot is None else _C._part_of_storage(slot.whole, nbytes)

    def _free(self, nbytes):
        unused = [slot for slot in self._slots if not slot.lent and slot.whole._use_count() == 1]
        fits = [slot for slot in unused if nbytes <= slot.whole.nbytes() <= _LEAST_PART * nbytes]
        if fits:
            return min(fits, key=lambda slot: slot.whole.nbytes())
        if len(self._slots) >= _MOST:
            if not unused:
                return None
            self._forget(unused[0])
        try:
            slot = _Slot(self._next, _capacity(nbytes))
        except RuntimeError:
            return None  # what makes memory of its own says why there is none
        self._next += 1
        self._slots.append(slot)
        self._by_start[slot.whole.data_ptr()] = slot
        return slot

    def _forget(self, slot):
        self._slots.remove(slot)
        del self._by_start[slot.whole.data_ptr()]

    def done(self, free, lost):
        """Takes in what the loader says: slots to be filled again, and slots that it will never be done with."""
        for slot in [slot for slot in self._slots if slot.number in lost]:
            self._forget(slot)
        for slot in self._slots:
            if slot.number in free:
                slot.lent = False

    def begin(self):
        """Begins a message."""
        self._message = {}

    def end(self, succeeded):
        """Ends the message; one that is not sent lends nothing."""
        lent, self._message = self._message, None
        for slot, first in lent.values():
            if not succeeded:
                slot.lent = False
                slot.sent = slot.sent and not first

    def place(self, tensor, storage, outgoing):
        """What stands for the storage of a tensor in the message, or None if it is to travel in another way."""
        if self._message is None or storage.device.type != "cpu":
            return None
        nbytes, start = storage.nbytes(), storage.data_ptr()
        if nbytes < self._least:
            return None
        known = self._message.get(start)
        if known is not None:
            return Placed(known[0].number, nbytes, 0, None)
        slot = self._by_start.get(start)
        if slot is None or slot.lent:
            slot = self._filled(tensor, storage, nbytes)
        if slot is None:
            return None
        slot.lent = True
        self._message[start] = slot, not slot.sent
        place = None
        if not slot.sent:
            outgoing.append(_C._share_storage(slot.whole))
            slot.sent, place = True, len(outgoing) - 1
        return Placed(slot.number, nbytes, slot.whole.nbytes(), place)

    def _filled(self, tensor, storage, nbytes):
        """A slot with a copy of a storage that no other process sees, and most of which the tensor is."""
        start = storage.data_ptr()
        if (storage.is_shared() and start not in self._by_start) or self._is_kept(start):
            return None
        if 2 * tensor.numel() * tensor.element_size() < nbytes:
            return None
        slot = self._free(nbytes)
        if slot is not None:
            self._copied[start] = weakref.ref(tensor)
            bytes_of(_C._part_of_storage(slot.whole, nbytes)).copy_(bytes_of(storage))
        return slot


    def _is_kept(self, start):
        """Whether a tensor that was copied before is still there: it will be sent again, so that it is better moved to
        shared memory once."""
        if len(self._copied) > _MOST:
            self._copied = {start: tensor for start, tensor in self._copied.items() if tensor() is not None}
        tensor = self._copied.get(start)
        return tensor is not None and tensor() is not None


def bytes_of(storage):
    """The bytes of a storage as a tensor."""
    empty = corten.empty((0,), dtype=corten.uint8)
    return _utils.strided_over(empty, storage, 0, (storage.nbytes(),), (1,))


class LoaderSlots:
    """The slots of one worker as the loader has mapped them."""

    def __init__(self):
        self._whole, self._lent, self._lost, self._message = {}, set(), set(), {}
        _all.add(self)

    def begin(self):
        """Begins to read a message."""
        self._message = {}

    def rebuild(self, number, nbytes, capacity, descriptor):
        """The storage in a slot, whose descriptor comes with its first batch."""
        if number in self._message:
            return self._message[number]
        if descriptor is not None:
            self._whole[number] = _C._slot_from_descriptor(descriptor, capacity)
        part = self._message[number] = _C._part_of_storage(self._whole[number], nbytes)
        self._lent.add(number)
        return part

    def end(self):
        """Ends the message."""
        self._message = {}

    def done(self):
        """The slots that are not used any more, and those that never will be, since the last call."""
        free = [number for number in self._lent if self._whole[number]._use_count() == 1]
        self._lent.difference_update(free)
        lost, self._lost = self._lost, set()
        return free, lost

    def give_up(self):
        """Leaves the slots of batches that are in use to those who use them."""
        for number in self._lent:
            del self._whole[number]
        self._lost |= self._lent
        self._lent = set()


_all = weakref.WeakSet()


def _before_fork():
    for slots in list(_all):
        slots.give_up()


os.register_at_fork(before=_before_fork)


def rebuild_placed(number, nbytes, capacity, place):
    """The storage that the worker put into a slot."""
    from corten.multiprocessing import reductions

    reading = reductions._passing
    descriptor = None
    if place is not None:
        descriptor, reading.incoming[place] = reading.incoming[place], None
    return reading.slots.rebuild(number, nbytes, capacity, descriptor)
