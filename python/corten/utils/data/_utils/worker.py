"""Processes that fetch batches."""

from __future__ import annotations

import os
import queue
import traceback

from .._pipes import apply_seed

_worker_info = None

#: Seconds after which a worker looks whether the loader is still alive.
_POLL = 5.0
#: Seconds that an answer may still be on its way when its worker has ended.
_GRACE = 0.1
#: Bytes from which a batch's tensors are handed over as shared memory.
_SMALL = 1 << 16


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


class Failure:
    """An exception on its way to the loader, with its traceback as text."""

    def __init__(self, error, where):
        self.kind = type(error)
        self.where = where
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))

    def reraise(self):
        """Raises an exception of the same class with the worker's traceback."""
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            message = _Lines(message)
        try:
            error = self.kind(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error


class _Lines(str):
    """KeyError prints its argument's repr; this one keeps the lines."""

    def __repr__(self):
        return str(self)


def reason_of_death(process):
    """What is known about a worker that ended by itself."""
    import signal

    process.join(_GRACE)
    code = process.exitcode
    if code is not None and code < 0:
        hint = ""
        if -code == signal.SIGBUS:
            hint = (
                "It is possible that dataloader's workers are out of shared memory. Please try to "
                "raise your shared memory limit."
            )
        name = signal.strsignal(-code)
        return f"DataLoader worker (pid {process.pid}) is killed by signal: {name}. {hint}"
    return (
        f"DataLoader worker (pid {process.pid}) exited unexpectedly with exit code {code}. Details "
        "are lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace."
    )


class Ended:
    """Says that an iterable data set has no more samples."""

    def __init__(self, worker_id):
        self.worker_id = worker_id


class Resumed:
    """The order to begin a new pass, and the answer to it. Pipes get another seed."""

    def __init__(self, seed=None):
        self.seed = seed


def run(dataset, make_fetcher, tasks, results, done, base_seed, init, worker_id, num_workers):
    """The life of a worker: takes (number, indices), answers (number, batch)."""
    import random

    import corten
    from corten.multiprocessing import reductions

    global _worker_info
    reductions.copy_below(_SMALL)
    corten.set_num_threads(1)
    seed = base_seed + worker_id
    random.seed(seed)
    corten.manual_seed(seed)
    _worker_info = WorkerInfo(id=worker_id, num_workers=num_workers, seed=seed, dataset=dataset)
    failure, fetcher = None, None
    try:
        if init is not None:
            init(worker_id)
        fetcher = make_fetcher(dataset)
    except Exception as error:
        failure = Failure(error, f"in DataLoader worker process {worker_id}")
    _serve(dataset, make_fetcher, tasks, results, done, worker_id, fetcher, failure)
    if done.is_set():
        results.cancel_join_thread()  # nobody reads any more: what is in the pipe may be lost


def _serve(dataset, make_fetcher, tasks, results, done, worker_id, fetcher, failure):
    """Answers tasks until told to stop, or until the loader's process is gone."""
    parent = os.getppid()
    while not done.is_set():
        try:
            task = tasks.get(timeout=_POLL)
        except queue.Empty:
            if os.getppid() != parent:
                return
            continue
        if task is None:
            return
        if isinstance(task, Resumed):
            results.put((task, None))
            apply_seed(dataset, task.seed)
            failure, fetcher = None, make_fetcher(dataset)
            continue
        number, indices = task
        answer = failure if failure is not None else _fetched(fetcher, indices, worker_id)
        failure = None
        results.put((number, answer))


def _fetched(fetcher, indices, worker_id):
    try:
        return fetcher.fetch(indices)
    except StopIteration:
        return Ended(worker_id)
    except Exception as error:
        return Failure(error, f"in DataLoader worker process {worker_id}")
