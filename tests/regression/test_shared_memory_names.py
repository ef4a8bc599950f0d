"""The two ways to share memory: senders and receivers that end, many storages, names that are left behind."""

import gc
import os
import signal
import subprocess
import sys
import time
import unittest
from multiprocessing.reduction import ForkingPickler

from module_under_test import torch

mp = torch.multiprocessing


def segments():
    return {name for name in os.listdir("/dev/shm") if name.startswith(("corten_", "torch_"))}


def eventually(condition, seconds=20):
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()


def send_and_stay(queue, count, strategy):
    send_and_end(queue, count, strategy)
    time.sleep(600)


def send_and_end(queue, count, strategy):
    mp.set_sharing_strategy(strategy)
    for i in range(count):
        queue.put(torch.full((100,), float(i)))
    queue.close()
    queue.join_thread()


def receive_and_wait(queue, event):
    tensor = queue.get()
    tensor[0] = 5
    event.set()
    time.sleep(600)


def share_and_wait(event):
    mp.set_sharing_strategy("file_system")
    kept = torch.ones(1000).share_memory_()
    event.set()
    time.sleep(600)
    del kept


def receive_after(seconds, queue, answers):
    time.sleep(seconds)
    answers.send(queue.get().sum().item())


def parent_that_ends(queue, answers):
    """Sends to its own child and ends before that receives."""
    mp.set_sharing_strategy("file_system")
    child = mp.get_context("fork").Process(target=receive_after, args=(1, queue, answers))
    child.start()
    queue.put(torch.ones(100))
    queue.close()
    queue.join_thread()
    os._exit(0)


class Named(unittest.TestCase):
    def setUp(self):
        gc.collect()
        mp.set_sharing_strategy("file_system")
        self.before = segments()

    def tearDown(self):
        mp.set_sharing_strategy("file_descriptor")
        self.assertTrue(eventually(lambda: not self.mine()), self.mine())

    def mine(self):
        return segments() - self.before

    def test_sender_ends_first(self):
        for method in ("fork", "spawn"):
            context = mp.get_context(method)
            queue = context.Queue()
            process = context.Process(target=send_and_end, args=(queue, 3, "file_system"))
            process.start()
            process.join()
            received = [queue.get(timeout=60) for _ in range(3)]
            self.assertEqual([tensor[7].item() for tensor in received], [0, 1, 2])
            self.assertEqual(len(self.mine()), 3)
            del received
            self.assertEqual(self.mine(), set())

    def test_parent_ends_first(self):
        context = mp.get_context("fork")
        queue, (ours, theirs) = context.Queue(), context.Pipe(duplex=False)
        process = context.Process(target=parent_that_ends, args=(queue, theirs))
        process.start()
        process.join()
        self.assertTrue(ours.poll(60))
        self.assertEqual(ours.recv(), 100)

    def test_receiver_is_killed(self):
        context = mp.get_context("fork")
        queue, event = context.Queue(), context.Event()
        process = context.Process(target=receive_and_wait, args=(queue, event), daemon=True)
        process.start()
        tensor = torch.zeros(100)
        queue.put(tensor)
        self.assertTrue(event.wait(60))
        self.assertEqual(tensor[0].item(), 5)
        process.kill()
        process.join()
        self.assertEqual(len(self.mine()), 1)
        del tensor
        queue.close()
        queue.join_thread()

    def test_only_user_is_killed(self):
        context = mp.get_context("spawn")
        event = context.Event()
        process = context.Process(target=share_and_wait, args=(event,), daemon=True)
        process.start()
        self.assertTrue(event.wait(60))
        self.assertEqual(len(self.mine()), 1)
        process.kill()
        process.join()  # and the name goes

    def test_views_share(self):
        base = torch.arange(6.0).share_memory_()
        self.assertTrue(base.is_shared() and base[2:].is_shared())
        pickled = [ForkingPickler.dumps(view) for view in (base, base[2:], base.view(2, 3).t())]
        again = [ForkingPickler.loads(text) for text in pickled]
        self.assertEqual(len({view.untyped_storage()._cdata for view in again}), 1)
        self.assertEqual([view.storage_offset() for view in again], [0, 2, 0])
        again[1][0] = 9
        self.assertEqual(base[2].item(), 9)
        with self.assertRaisesRegex(RuntimeError, "resiz"):
            base.resize_(100)
        self.assertEqual(len(self.mine()), 1)
        del base, again
        self.assertEqual(self.mine(), set())

    def test_forked_process_keeps_the_name(self):
        tensor = torch.zeros(100).share_memory_()
        context = mp.get_context("fork")
        (ours, theirs), event = context.Pipe(), context.Event()

        def work():
            event.wait()
            theirs.send(tensor)  # although the other process has given it up
            theirs.recv()

        process = context.Process(target=work, daemon=True)
        process.start()
        del tensor
        self.assertEqual(len(self.mine()), 1)
        event.set()
        self.assertEqual(ours.recv().shape, (100,))
        ours.send(None)
        process.join()

    def test_methods_of_storages(self):
        storage = torch.arange(4, dtype=torch.uint8).untyped_storage()
        manager, handle, size = storage._share_filename_cpu_()
        self.assertIsInstance(handle, bytes)
        self.assertEqual(size, 4)
        other = type(storage)._new_shared_filename_cpu(manager, handle, size)
        other[1] = 77
        self.assertEqual(storage.tolist(), [0, 77, 2, 3])
        shared = type(storage)._new_shared(8)
        self.assertTrue(shared.is_shared() and shared.nbytes() == 8)

    def test_loader(self):
        import test_loader_worker_death as loaders

        loader = loaders.data.DataLoader(
            loaders.Endless(200_000, True), num_workers=2, collate_fn=loaders.one_of
        )
        iterator = iter(loader)
        self.assertEqual([next(iterator).numel() for _ in range(20)], [50_000] * 20)
        self.assertTrue(eventually(self.mine))  # the workers prefetch, as soon as they run
        del iterator
        self.assertTrue(eventually(lambda: not self.mine()), self.mine())


MANY = """
import resource, sys, os
sys.path.insert(0, os.path.dirname({file!r}))
from test_shared_memory_names import mp, {sender}, torch

if __name__ == "__main__":
    mp.set_sharing_strategy({strategy!r})
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    context = mp.get_context("fork")
    queue = context.Queue()
    process = context.Process(target={sender}, args=(queue, 400, {strategy!r}), daemon=True)
    process.start()
    received = [queue.get(timeout=60) for _ in range(400)]
    process.join()
    print(sum(tensor[5].item() for tensor in received))
"""

KILLED = """
import os, sys, time
sys.path.insert(0, os.path.dirname({file!r}))
from test_shared_memory_names import mp, receive_and_wait, torch

mp.set_sharing_strategy("file_system")
context = mp.get_context("fork")
queue, event = context.Queue(), context.Event()
context.Process(target=receive_and_wait, args=(queue, event), daemon=True).start()
queue.put(torch.ones(1000))
event.wait()
unread = context.SimpleQueue()
unread.put(torch.ones(1000))
print("ready", flush=True)
time.sleep(600)
"""


def program(text, **fields):
    text = text.format(file=os.path.abspath(__file__), **fields)
    return subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )


class Programs(unittest.TestCase):
    def setUp(self):
        self.before = segments()

    def tearDown(self):
        self.assertTrue(eventually(lambda: segments() <= self.before), segments() - self.before)

    def test_many_storages_with_names(self):
        with program(MANY, strategy="file_system", sender="send_and_end") as running:
            output, errors = running.communicate(timeout=120)
        self.assertEqual((output.strip(), errors), ("79800.0", ""))

    def test_too_many_descriptors(self):
        with program(MANY, strategy="file_descriptor", sender="send_and_stay") as running:
            _, errors = running.communicate(timeout=120)
        self.assertIn("set_sharing_strategy('file_system')", errors)
        self.assertIn("Too many open files", errors)

    def test_all_processes_are_killed(self):
        with program(KILLED) as running:
            self.assertEqual(running.stdout.readline(), "ready\n")
            self.assertEqual(len(segments() - self.before), 2)
            os.killpg(running.pid, signal.SIGKILL)


class Descriptors(unittest.TestCase):
    def test_sender_ended(self):
        context = mp.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=send_and_end, args=(queue, 1, "file_descriptor"))
        process.start()
        process.join()
        with self.assertRaisesRegex(OSError, "ended before its memory was received"):
            queue.get(timeout=60)

    def test_methods_of_storages(self):
        storage = torch.arange(4, dtype=torch.uint8).untyped_storage()
        descriptor, size = storage._share_fd_cpu_()
        other = type(storage)._new_shared_fd_cpu(descriptor, size)
        other[1] = 77
        self.assertEqual((size, storage.tolist()), (4, [0, 77, 2, 3]))

    def test_shared_before_the_strategy_was_set(self):
        tensor = torch.zeros(4).share_memory_()
        mp.set_sharing_strategy("file_system")
        try:
            named = torch.zeros(4).share_memory_()
            again = ForkingPickler.loads(ForkingPickler.dumps(tensor))
        finally:
            mp.set_sharing_strategy("file_descriptor")
        again[0] = 1
        self.assertEqual(tensor[0].item(), 1)
        again = ForkingPickler.loads(ForkingPickler.dumps(named))
        again[0] = 1
        self.assertEqual(named[0].item(), 1)


if __name__ == "__main__":
    unittest.main()
