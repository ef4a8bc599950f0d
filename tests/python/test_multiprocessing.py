"""Tensors between processes, and what loaders say when a worker dies."""

import os
import signal
import time
import unittest
from unittest import mock

from module_under_test import torch

mp = torch.multiprocessing


def double(queue, answers):
    for tensor in iter(queue.get, None):
        tensor.mul_(2)
        answers.put(tensor)
    queue.get()  # lives until its answers were received


def fill(index, shared):
    shared[index] = index + 1


def fail(index):
    if index == 1:
        raise ValueError("not me")
    time.sleep(60)


def square(x):
    return x * x


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.full((200, 200), float(i))


class Large(Slow):
    def __getitem__(self, i):
        return torch.full((200, 200), float(i))


class Sharing(unittest.TestCase):
    def tearDown(self):
        mp.set_sharing_strategy("file_descriptor")

    def test_share_memory(self):
        base = torch.arange(6.0)
        view = base[2:]
        self.assertFalse(base.is_shared())
        self.assertIs(base.share_memory_(), base)
        self.assertTrue(base.is_shared() and view.is_shared())
        view[0] = 9
        self.assertEqual(base.tolist(), [0, 1, 9, 3, 4, 5])
        module = torch.nn.Linear(2, 2).share_memory()
        self.assertTrue(all(p.is_shared() for p in module.parameters()))

    def test_queue_shares(self):
        for strategy in mp.get_all_sharing_strategies():
            mp.set_sharing_strategy(strategy)
            context = mp.get_context("fork")
            tasks, answers = context.Queue(), context.Queue()
            process = context.Process(target=double, args=(tasks, answers), daemon=True)
            process.start()
            tensors = [torch.arange(6.0)[1:4], torch.ones(2, 3).t(), torch.zeros(0)]
            tensors += [torch.nn.Parameter(torch.ones(3)).detach()]
            for tensor in tensors:
                tasks.put(tensor)
            received = [answers.get(timeout=30) for _ in tensors]
            tasks.put(None)
            tasks.put(None)
            process.join(30)
            for sent, back in zip(tensors, received):
                self.assertEqual((sent.shape, sent.stride()), (back.shape, back.stride()))
                self.assertEqual(sent.tolist(), back.tolist())
            self.assertEqual(tensors[0].tolist(), [2, 4, 6])

    @unittest.skipUnless(torch.__name__ == "corten", "looks inside")
    def test_named_memory_without_room(self):
        from corten.multiprocessing import reductions

        def full(storage, path=None):
            if path is not None:
                raise RuntimeError(f"unable to create {path}: No space left on device (28)")

        mp.set_sharing_strategy("file_system")
        with mock.patch.object(reductions._C, "_share_storage_as", full):
            with self.assertRaisesRegex(
                RuntimeError, r"unable to allocate shared memory\(shm\) for file </dev/shm/.*>: No space left on device "
                r"\(28\): 400 bytes are needed, and of \d+ bytes of /dev/shm \d+ are free. .*--shm-size"
            ):
                torch.ones(100).share_memory_()

    def test_refuses_results_with_history(self):
        from multiprocessing.reduction import ForkingPickler

        leaf = torch.ones(2, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, "Cowardly refusing to serialize non-leaf"):
            ForkingPickler.dumps(leaf * 2)
        with self.assertRaisesRegex(AssertionError, "invalid sharing strategy 'x'"):
            mp.set_sharing_strategy("x")

    def test_pool(self):
        with mp.get_context("fork").Pool(2) as pool:
            results = pool.map(square, [torch.tensor([float(i)]) for i in range(4)])
        self.assertEqual([r.item() for r in results], [0, 1, 4, 9])


class Spawn(unittest.TestCase):
    def test_writes_are_seen(self):
        shared = torch.zeros(2).share_memory_()
        self.assertIsNone(mp.spawn(fill, args=(shared,), nprocs=2))
        self.assertEqual(shared.tolist(), [1, 2])

    def test_failures(self):
        with self.assertRaisesRegex(Exception, "Process 1 terminated with the following error"):
            mp.start_processes(fail, nprocs=2, start_method="fork")


class Workers(unittest.TestCase):
    def test_large_batches(self):
        loader = torch.utils.data.DataLoader(Large(), 2, num_workers=2, persistent_workers=True)
        for _ in range(2):
            self.assertEqual([b.mean().item() for b in loader], [0.5, 2.5, 4.5, 6.5])

    def test_death_names_the_signal(self):
        loader = torch.utils.data.DataLoader(Slow(), 1, num_workers=1)
        with self.assertRaisesRegex(RuntimeError, r"DataLoader worker \(pid(\(s\))? \d+\)"):
            list(loader)


if __name__ == "__main__":
    unittest.main()
