"""Processes that fetch batches."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time

from corten._utils import ExceptionWrapper

from .._pipes import apply_seed
from . import channel, pool
from .slots import WorkerSlots

_worker_info = None

#: Seconds in which a worker ends by itself when the loader's process has ended.
_GRACE = 1.0
#: Bytes from which a batch's tensors are handed over as shared memory.
_SMALL = 1 << 16
#: Number of the order to begin a new pass, and of the answer to it. Its value is the seed of pipes.
RESUME = -3


class WorkerInfo:
    """What a worker knows of itself: ``id``, ``num_workers``, ``seed``, ``dataset``."""

    def __init__(self, **fields):
        self.__dict__.update(fields)
        self.__dict__["_fixed"] = True

    def __setattr__(self, name, value):
        raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")

    def __repr__(self):
        fields = ", ".join(f"{k}={v}" for k, v in self.__dict__.items() if k != "_fixed")
        return f"{type(self).__name__}({fields})"


def get_worker_info():
    """The :class:`WorkerInfo` of this process, or None outside a worker."""
    return _worker_info


class Failure(ExceptionWrapper):
    """An exception on its way to the loader, with its traceback as text."""

    def __init__(self, error, where):
        super().__init__((type(error), error, error.__traceback__), where)

    def without_class(self):
        """The failure as a `RuntimeError`, for classes that cannot be sent."""
        self.exc_type = RuntimeError
        return self


class Ended:
    """Says that an iterable data set has no more samples."""

    def __init__(self, worker_id):
        self.worker_id = worker_id


def loaded(place, data, descriptors, slots):
    """The answer in a message, or the failure to read it. ``slots`` are those of the worker."""
    from corten.multiprocessing import reductions

    try:
        return reductions.load_passed(data, descriptors, slots)
    except Exception as error:
        return Failure(error, f"in the loader, reading a batch of DataLoader worker process {place}")


def run(end, dataset, make_fetcher, base_seed, init, worker_id, num_workers):
    """The life of a worker: takes (number, indices), answers (number, batch)."""
    from corten.multiprocessing import reductions

    channel.keep_only(end)
    _behave_as_worker()
    reductions.copy_below(_SMALL)
    try:
        _work(end, dataset, make_fetcher, base_seed, init, worker_id, num_workers)
    except KeyboardInterrupt:
        # Ended quietly, but by the signal, so that a loader that goes on can say why.
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _work(end, dataset, make_fetcher, base_seed, init, worker_id, num_workers):
    global _worker_info
    from corten.multiprocessing import reductions

    seed = _seed(base_seed, worker_id)
    _worker_info = WorkerInfo(id=worker_id, num_workers=num_workers, seed=seed, dataset=dataset)
    failure, fetcher = None, None
    try:
        if init is not None:
            init(worker_id)
        fetcher = make_fetcher(dataset)
    except Exception as error:
        failure = Failure(error, f"in DataLoader worker process {worker_id}")
    if reductions.get_sharing_strategy() == "file_descriptor":
        WorkerSlots.current = WorkerSlots(_SMALL)
    outbox = channel.Outbox(end, WorkerSlots.current)
    _serve(end, outbox, dataset, make_fetcher, worker_id, fetcher, failure)
    outbox.flush()


def _behave_as_worker():
    """Undoes what a forked process inherits and a worker must not have, and watches the loader's process."""
    import multiprocessing

    import corten

    # A handler of the program would keep the loader from ending this process.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    corten.set_num_threads(1)
    loader = multiprocessing.parent_process()
    if loader is not None:
        threading.Thread(target=_end_after, args=(loader.pid, _watch_loader(loader)), daemon=True).start()


def _watch_loader(loader):
    """Puts the handle of the loader's process in the place of the pipe whose other end it closes; the descriptor, or
    None where processes have no handles."""
    try:
        handle = os.pidfd_open(loader.pid)
    except (AttributeError, OSError):
        return None
    os.dup2(handle, loader._sentinel, inheritable=False)
    os.close(handle)
    return loader._sentinel


def _end_after(pid, handle):
    """Ends this process when another has ended, in the midst of a sample too."""
    import select

    if handle is None:
        while _exists(pid):
            time.sleep(_GRACE)
    else:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        while not poll.poll():
            pass
    time.sleep(_GRACE)
    os._exit(1)


def _exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it belongs to another user
    return True


def _seed(base_seed, worker_id):
    """Seeds Python's, Corten's and, where it is installed, NumPy's generator."""
    import corten

    seed = base_seed + worker_id
    random.seed(seed)
    corten.manual_seed(seed)
    try:
        import numpy
    except ImportError:
        return seed
    numpy.random.seed(_numpy_words(base_seed, worker_id))
    return seed


def _numpy_words(base_seed, worker_id):
    """Four words of 32 bits for NumPy's generator, mixed as NumPy's ``SeedSequence`` mixes its entropy (O'Neill,
    "Developing a seed_seq Alternative"), so that its stream has nothing in common with Python's."""
    mask, shift = 0xFFFFFFFF, 16
    multiplier = 0x43B0D7E5

    def mixed_in(word):
        nonlocal multiplier
        word ^= multiplier
        multiplier = multiplier * 0x931E8875 & mask
        word = word * multiplier & mask
        return word ^ word >> shift

    words = [mixed_in(word & mask) for word in (worker_id, base_seed, base_seed >> 32, 0)]
    for source in range(4):
        for place in range(4):
            if place != source:
                word = 0xCA01F9DD * words[place] - 0x4973F715 * mixed_in(words[source]) & mask
                words[place] = word ^ word >> shift
    multiplier = 0x8B51F9DD
    for place, word in enumerate(words):
        word ^= multiplier
        multiplier = multiplier * 0x58F38DED & mask
        word = word * multiplier & mask
        words[place] = word ^ word >> shift
    return words


def _serve(end, outbox, dataset, make_fetcher, worker_id, fetcher, failure):
    """Answers tasks until told to end, or until the loader closes the stream."""
    from corten.multiprocessing import reductions

    for number, data, descriptors in channel.Inbox(end, wait=True):
        if number == pool.STOP:
            return
        done, value = reductions.load_passed(data, descriptors)
        if WorkerSlots.current is not None:
            WorkerSlots.current.done(*done)
        if number == RESUME:
            outbox.put(RESUME)
            failure = None
            try:
                apply_seed(dataset, value)
                fetcher = make_fetcher(dataset)
            except Exception as error:
                failure = Failure(error, f"in DataLoader worker process {worker_id}")
            continue
        answer = failure if failure is not None else _fetched(fetcher, value, worker_id)
        failure = None
        _answer(outbox, number, answer, worker_id)
        del answer, value  # the memory is the loader's now


def _answer(outbox, number, answer, worker_id):
    """Sends an answer, or the reason why it cannot be sent."""
    try:
        outbox.put(number, answer)
    except Exception as error:
        if isinstance(answer, Failure):
            outbox.put(number, answer.without_class())
            return
        reason = Failure(error, f"sending a batch of DataLoader worker process {worker_id}")
        outbox.put(number, reason.without_class())


def _fetched(fetcher, indices, worker_id):
    try:
        return fetcher.fetch(indices)
    except StopIteration:
        return Ended(worker_id)
    except Exception as error:
        return Failure(error, f"in DataLoader worker process {worker_id}")


def _generate_state(base_seed, worker_id):
    """Four numbers of 32 bits from which a worker seeds NumPy: those of ``numpy.random.SeedSequence``."""
    import numpy

    low, high = base_seed & 0xFFFFFFFF, base_seed >> 32
    return numpy.random.SeedSequence([worker_id, low, high, 0]).generate_state(4).tolist()
