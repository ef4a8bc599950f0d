"""Loaders whose workers end in every way: an error that names the reason, no process and no descriptor left."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

from module_under_test import SANITIZED, torch

data = torch.utils.data


def one_of(samples):
    return samples[0] if isinstance(samples, list) else samples


def sample(nbytes, as_tensor):
    return torch.zeros(nbytes // 4) if as_tensor else bytes(nbytes)


class Endless(data.Dataset):
    """Samples of a size."""

    def __init__(self, nbytes=0, as_tensor=False, fault=None):
        self.nbytes, self.as_tensor, self.fault = nbytes, as_tensor, fault

    def __len__(self):
        return 10**6

    def __getitem__(self, i):
        if self.fault is not None and i >= 20:
            return self.fault()
        return sample(self.nbytes, self.as_tensor)


class EndlessStream(data.IterableDataset):
    def __init__(self, nbytes=0, as_tensor=False):
        self.nbytes, self.as_tensor = nbytes, as_tensor

    def __iter__(self):
        while True:
            yield sample(self.nbytes, self.as_tensor)


def sleep():
    time.sleep(600)


def leave():
    os._exit(3)


def leave_politely():
    raise SystemExit(4)


def leave_from_a_thread():
    thread = threading.Thread(target=os._exit, args=(7,))
    thread.start()
    thread.join()


def fault_at_an_address():
    os.kill(os.getpid(), signal.SIGSEGV)


def raise_own_class():
    class Own(Exception):
        """Nobody can import it."""

    raise Own("of its own")


def raise_with_two_arguments():
    raise UnicodeDecodeError("utf-8", b"x", 0, 1, "not text")


def function_without_name():
    return lambda: 0


class Unreadable:
    """Can be pickled but not unpickled."""

    def __reduce__(self):
        return fail_to_read, ()


def fail_to_read():
    raise ValueError("cannot be read")


def gone(pids, seconds=10):
    """Whether processes end in time."""
    limit = time.monotonic() + seconds
    while any(map(exists, pids)) and time.monotonic() < limit:
        time.sleep(0.01)
    return not any(map(exists, pids))


def exists(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


class Kills(unittest.TestCase):
    def kill_one(self, rng, signal_number, options):
        make = rng.choice([Endless, EndlessStream])
        dataset = make(rng.choice([0, 40_000, 55_000, 70_000, 2_000_000]), rng.random() < 0.5)
        iterator = iter(data.DataLoader(dataset, collate_fn=one_of, **options))
        pids = [process.pid for process in iterator._workers]
        killer = threading.Timer(rng.random() / 10, os.kill, (rng.choice(pids), signal_number))
        killer.start()
        name = signal.strsignal(signal_number)
        with self.assertRaisesRegex(RuntimeError, rf"DataLoader worker \(pid.* {name}"):
            for _ in iterator:
                pass
        killer.join()
        self.assertTrue(gone(pids, 0 if hasattr(iterator, "_pool") else 10))
        with self.assertRaises(RuntimeError):
            next(iterator)

    def test_at_random_moments(self):
        rng, before = random.Random(0), descriptors()
        signals = [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT]
        if SANITIZED:  # which handles the signals of faults
            signals = signals[:2]
        for i in range(15):
            options = {
                "num_workers": rng.choice([1, 2, 3]), "prefetch_factor": rng.choice([1, 2, 4]),
                "persistent_workers": rng.random() < 0.5, "in_order": rng.random() < 0.5,
                "timeout": rng.choice([0, 60]), "multiprocessing_context": "fork",
            }
            self.kill_one(rng, signals[i % len(signals)], options)
        self.assertEqual(descriptors(), before)

    def test_contexts(self):
        for context in ("spawn", "forkserver"):
            options = {"num_workers": 2, "multiprocessing_context": context}
            self.kill_one(random.Random(1), signal.SIGKILL, options)

    def test_of_an_idle_persistent_worker(self):
        loader = data.DataLoader(Endless(), sampler=range(8), num_workers=2, persistent_workers=True)
        self.assertEqual(len(list(loader)), 8)
        os.kill(loader._iterator._workers[1].pid, signal.SIGKILL)
        time.sleep(0.1)
        with self.assertRaisesRegex(RuntimeError, "killed by signal: Killed"):
            list(loader)
        self.assertEqual(len(list(loader)), 8)  # by new workers


class Ends(unittest.TestCase):
    def test_of_workers(self):
        cases = [
            (leave, RuntimeError, "exited unexpectedly with exit code 3"),
            (leave_politely, RuntimeError, "exited unexpectedly with exit code 4"),
            (leave_from_a_thread, RuntimeError, "exited unexpectedly with exit code 7"),
            (fault_at_an_address, RuntimeError, "killed by signal: Segmentation fault"),
            (raise_own_class, RuntimeError, "Caught Own in DataLoader worker process"),
            (raise_with_two_arguments, RuntimeError, "Caught UnicodeDecodeError in DataLoader worker"),
            (function_without_name, RuntimeError, "sending a batch of DataLoader worker process"),
            (Unreadable, ValueError, "reading a batch of DataLoader worker process"),
        ]
        if SANITIZED:  # which handles the signals of faults
            cases = [case for case in cases if case[0] is not fault_at_an_address]
        for i, (fault, kind, words) in enumerate(cases):
            loader = data.DataLoader(
                Endless(100, fault=fault), num_workers=2, collate_fn=one_of, in_order=i % 2 == 0
            )
            with self.subTest(fault.__name__), self.assertRaisesRegex(kind, words):
                for _ in loader:
                    pass

    def test_failure_of_one_batch_leaves_the_others(self):
        class Odd(data.Dataset):
            def __len__(self):
                return 6

            def __getitem__(self, i):
                return function_without_name() if i == 2 else i

        iterator, seen = iter(data.DataLoader(Odd(), num_workers=2, collate_fn=one_of)), []
        while len(seen) < 6:
            try:
                seen.append(next(iterator))
            except RuntimeError:
                seen.append(None)
        self.assertEqual(seen, [0, 1, None, 3, 4, 5])
        with self.assertRaises(StopIteration):
            next(iterator)

    def test_time_limit(self):
        iterator = iter(data.DataLoader(Endless(fault=sleep), sampler=[0, 50], num_workers=1, timeout=0.3))
        pids = [process.pid for process in iterator._workers]
        words = "DataLoader timed out after 0.3 seconds"
        for _ in range(200):
            try:  # a limit that passes before the first batch is there leaves the loader as it is
                next(iterator)
                break
            except RuntimeError as error:
                self.assertEqual(str(error), words)
        with self.assertRaisesRegex(RuntimeError, words):
            next(iterator)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        with self.assertRaisesRegex(RuntimeError, "killed by signal: Killed"):
            next(iterator)

    def test_leaving_a_pass(self):
        before = descriptors()
        for nbytes in (0, 50_000, 3_000_000):
            for as_tensor in (True, False):
                iterator = iter(data.DataLoader(Endless(nbytes, as_tensor), num_workers=2, collate_fn=one_of))
                pids = [process.pid for process in iterator._workers]
                next(iterator)
                del iterator
                self.assertTrue(gone(pids, 0))
        self.assertEqual(descriptors(), before)

    def test_large_tasks(self):
        batches = [list(range(100_000))] * 5
        loader = data.DataLoader(Endless(), batch_sampler=batches, num_workers=1, collate_fn=len,
                                 prefetch_factor=4)
        self.assertEqual(list(loader), [100_000] * 5)

    def test_interrupt(self):
        # Programs that a shell starts in the background ignore it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        iterator = iter(data.DataLoader(Endless(fault=sleep), sampler=[0, 50], num_workers=1))
        next(iterator)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            next(iterator)


PROGRAM = """
import os, signal, sys, time
sys.path.insert(0, os.path.dirname({file!r}))
from test_loader_worker_death import Endless, data, one_of, sleep

signal.signal(signal.SIGTERM, lambda *_: None)
loader = data.DataLoader(
    Endless({nbytes}, fault={fault}), num_workers=2, collate_fn=one_of, prefetch_factor=30,
    multiprocessing_context="fork",
)
iterator = iter(loader)
print(*(process.pid for process in iterator._workers), flush=True)
next(iterator)
{last}
"""


class Programs(unittest.TestCase):
    def check(self, last, kill=None, nbytes=50_000, fault="None"):
        text = PROGRAM.format(file=os.path.abspath(__file__), nbytes=nbytes, fault=fault, last=last)
        program = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
        with program:
            pids = [int(word) for word in program.stdout.readline().split()]
            self.assertEqual(len(pids), 2)
            if kill is not None:
                time.sleep(0.1)
                program.send_signal(kill)
            program.wait(60)
            self.assertTrue(gone(pids), last)
            return [int(program.stdout.readline())] if "fork" in last else []

    def test_workers_end_with_the_program(self):
        self.check("for batch in iterator: pass", signal.SIGKILL)
        self.check("for batch in iterator: pass", signal.SIGKILL, nbytes=3_000_000)
        self.check("time.sleep(600)", signal.SIGKILL, fault="sleep")

    def test_the_program_ends(self):
        self.check("sys.exit()")
        self.check("sys.exit()", fault="sleep")
        self.check("for batch in iterator: pass", signal.SIGINT, nbytes=3_000_000)

    def test_a_forked_process_does_not_keep_workers(self):
        last = """
child = os.fork()
if child == 0:
    signal.pause()
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)"""
        (child,) = self.check(last)
        self.assertTrue(exists(child))
        os.kill(child, signal.SIGKILL)


class Draws(data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        import numpy

        return i, data.get_worker_info().id, [int(numpy.random.randint(2**31)) for _ in range(4)]


class Seeds(unittest.TestCase):
    #: The state of NumPy's generator in worker 3 of seed 12345678901234, and of other pairs, as PyTorch seeds it.
    WORDS = {
        (12345678901234, 3): [2677634501, 810098766, 226270600, 4115140591],
        (0, 0): [2968811710, 3677149159, 745650761, 2884920346],
        (2**63 - 1, 7): [3706660862, 1642455348, 3333652763, 3068748488],
    }

    def test_words(self):
        worker = torch.utils.data._utils.worker
        words = getattr(worker, "_numpy_words", None) or worker._generate_state
        for (seed, place), expected in self.WORDS.items():
            self.assertEqual(words(seed, place), expected)

    def test_numpy_draws_differ(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        numpy.random.seed(0)
        for context in ("fork", "spawn"):
            torch.manual_seed(7)
            loader = data.DataLoader(
                Draws(), batch_size=None, num_workers=4, multiprocessing_context=context
            )
            draws = {i: (place, values) for i, place, values in loader}
            self.assertEqual(len({number for _, values in draws.values() for number in values}), 32)
            torch.manual_seed(7)
            base = torch.empty((), dtype=torch.int64).random_().item()
            worker = torch.utils.data._utils.worker
            words = getattr(worker, "_numpy_words", None) or worker._generate_state
            for i in range(4):
                place, values = draws[i]
                expected = numpy.random.RandomState(words(base, place))
                self.assertEqual(values, [int(expected.randint(2**31)) for _ in range(4)])


if __name__ == "__main__":
    unittest.main()
