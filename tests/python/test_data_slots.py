"""Batches in memory that workers fill again: they keep their values for as long as anybody has them."""

import os
import signal
import unittest

import corten as torch
from corten import multiprocessing
from corten.utils import data

ROWS = 40_000  # a sample of 160 kB


class Constant(data.Dataset):
    """Samples that are full of their index."""

    def __init__(self, length=96, rows=ROWS):
        self.length, self.rows = length, rows

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.full((self.rows,), float(index)), index


class Parent(data.Dataset):
    """Whether the process that made this one runs."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return multiprocessing.parent_process().is_alive()


class Varying(Constant):
    def __getitem__(self, index):
        return torch.full((self.rows + 977 * (index // 4),), float(index))


class Kept(Constant):
    """Gives one tensor again and again."""

    def __init__(self):
        super().__init__(40)
        self.tensor = torch.arange(float(ROWS))

    def __getitem__(self, index):
        return self.tensor


class Remembering:
    """Collates, and keeps the batches."""

    def __init__(self):
        self.batches = []

    def __call__(self, samples):
        batch = data.default_collate(samples)
        for expected, earlier in self.batches:
            assert torch.equal(earlier[:, -1], expected), "a batch that the worker keeps has changed"
        self.batches.append((batch[0][:, 0].clone(), batch[0]))
        return batch


def pack(samples):
    whole = torch.stack([sample for sample, _ in samples])
    return {"whole": whole, "half": whole[:, ::2], "again": whole, "sizes": [len(samples)]}


def refuse(samples):
    batch = data.default_collate(samples)
    if samples[0][1] == 8:
        return [*batch, lambda: None]
    return batch


def check(case, batch, first):
    values, numbers = batch
    case.assertEqual(numbers.tolist(), list(range(first, first + len(numbers))))
    case.assertTrue(torch.equal(values, numbers.float()[:, None].expand_as(values)))


def in_another_process(queue, answers):
    batch = queue.get()
    answers.put([float(batch.min()), float(batch.max())])
    answers.get()
    answers.put([float(batch.min()), float(batch.max())])


class Slots(unittest.TestCase):
    def test_kept_batches_stay(self):
        for workers in (1, 2):
            kept = list(data.DataLoader(Constant(), 4, num_workers=workers))
            for place, batch in enumerate(kept):
                check(self, batch, 4 * place)

    def test_memory_and_descriptors_do_not_grow(self):
        places, counts, before = set(), set(), len(os.listdir("/proc/self/fd"))
        loader = data.DataLoader(Constant(400), 4, num_workers=1)
        for place, batch in enumerate(loader):
            check(self, batch, 4 * place)
            self.assertTrue(batch[0].is_shared())
            if place >= 10:
                places.add(batch[0].data_ptr())
                counts.add(len(os.listdir("/proc/self/fd")))
        self.assertLess(len(places), 8)
        self.assertEqual(len(counts), 1)
        self.assertLessEqual(counts.pop(), before + 2)

    def test_workers_see_that_the_loader_runs(self):
        for method in ("fork", "spawn", "forkserver"):
            loader = data.DataLoader(Parent(), 2, num_workers=1, multiprocessing_context=method)
            self.assertEqual([batch.tolist() for batch in loader], [[True, True]] * 2, method)

    def test_sizes_that_change(self):
        for place, batch in enumerate(data.DataLoader(Varying(), 4, num_workers=1)):
            self.assertEqual(batch[:, 0].tolist(), [float(4 * place + i) for i in range(4)])
            self.assertTrue(torch.equal(batch, batch[:, :1].expand_as(batch)))
            self.assertEqual(batch.untyped_storage().nbytes(), batch.nbytes)

    def test_batches_that_the_worker_keeps(self):
        for place, batch in enumerate(data.DataLoader(Constant(), 4, num_workers=1, collate_fn=Remembering())):
            check(self, batch, 4 * place)

    def test_tensors_over_one_storage(self):
        for place, batch in enumerate(data.DataLoader(Constant(), 4, num_workers=1, collate_fn=pack)):
            self.assertEqual(batch["whole"][:, 5].tolist(), [float(4 * place + i) for i in range(4)])
            self.assertEqual(batch["half"].data_ptr(), batch["whole"].data_ptr())
            batch["again"].zero_()
            self.assertEqual(int(batch["half"].count_nonzero()), 0)

    def test_one_tensor_for_all(self):
        expected = torch.arange(float(ROWS))
        for batch in data.DataLoader(Kept(), batch_size=None, num_workers=1):
            self.assertTrue(torch.equal(batch, expected))

    def test_failures_lend_nothing(self):
        loader = iter(data.DataLoader(Constant(), 4, num_workers=1, collate_fn=refuse))
        check(self, next(loader), 0)
        check(self, next(loader), 4)
        with self.assertRaises(Exception):
            next(loader)
        for place in range(3, 24):
            check(self, next(loader), 4 * place)

    def test_forked_processes_keep_their_batch(self):
        loader = iter(data.DataLoader(Constant(200), 4, num_workers=1))
        for place in range(5):
            batch = next(loader)
        reader, writer = os.pipe()
        done_reader, done_writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(reader, 1)
            good = torch.equal(batch[0][:, 7], torch.arange(16.0, 20.0))
            os.write(done_writer, b"y" if good else b"n")
            os._exit(0)
        for place in range(5, 30):
            batch = next(loader)
            check(self, batch, 4 * place)
        os.write(writer, b"x")
        self.assertEqual(os.read(done_reader, 1), b"y")
        os.waitpid(child, 0)

    def test_batches_sent_on(self):
        context = multiprocessing.get_context("fork")
        queue, answers = context.Queue(), context.Queue()
        process = context.Process(target=in_another_process, args=(queue, answers), daemon=True)
        process.start()
        loader = iter(data.DataLoader(Constant(200), 1, num_workers=1))
        queue.put(next(loader)[0])
        self.assertEqual(answers.get(timeout=20), [0.0, 0.0])
        for _ in range(20):
            next(loader)
        answers.put(None)
        self.assertEqual(answers.get(timeout=20), [0.0, 0.0])
        process.join(20)

    def test_named_memory(self):
        before = multiprocessing.get_sharing_strategy()
        multiprocessing.set_sharing_strategy("file_system")
        try:
            for place, batch in enumerate(data.DataLoader(Constant(), 4, num_workers=1)):
                check(self, batch, 4 * place)
        finally:
            multiprocessing.set_sharing_strategy(before)

    def test_passes_of_persistent_workers(self):
        loader = data.DataLoader(Constant(), 4, num_workers=2, persistent_workers=True)
        kept = []
        for _ in range(3):
            for place, batch in enumerate(loader):
                check(self, batch, 4 * place)
                if place % 7 == 0:
                    kept.append((place, batch))
        for place, batch in kept:
            check(self, batch, 4 * place)

    def test_a_worker_that_dies(self):
        loader = iter(data.DataLoader(Constant(), 4, num_workers=1))
        batch = next(loader)
        os.kill(loader._workers[0].pid, signal.SIGKILL)
        with self.assertRaisesRegex(RuntimeError, "killed by signal: Killed"):
            for _ in range(30):
                next(loader)
        check(self, batch, 0)


class Threads(unittest.TestCase):
    def test_rows_of_tensors(self):
        pairs = data.TensorDataset(torch.arange(60.0).view(20, 3), torch.arange(20))
        for workers in (0, 2):
            torch.manual_seed(3)
            got = list(data.DataLoader(pairs, 6, shuffle=True, num_workers=workers))
            torch.manual_seed(3)
            expected = list(data.DataLoader(pairs, 6, shuffle=True, collate_fn=lambda rows: data.default_collate(rows)))
            self.assertEqual(len(got), 4)
            for a, b in zip(got, expected):
                self.assertIs(type(a), list)
                self.assertTrue(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]))

    def test_parts(self):
        whole = data.TensorDataset(torch.arange(20))
        part = data.Subset(data.Subset(whole, list(range(10, 20))), [3, 1, -1])
        for workers in (0, 1):
            self.assertEqual([one[0].tolist() for one in data.DataLoader(part, 2, num_workers=workers)], [[13, 11], [19]])

    def test_gradients_and_errors(self):
        leaf = torch.ones(4, 2, requires_grad=True)
        batch, = next(iter(data.DataLoader(data.TensorDataset(leaf), 4)))
        batch.sum().backward()
        self.assertEqual(leaf.grad.tolist(), [[1.0, 1.0]] * 4)
        for workers in (0, 1):
            with self.assertRaises(IndexError):
                list(data.DataLoader(data.TensorDataset(torch.ones(3)), 2, sampler=[0, 1, 7], num_workers=workers))

    def test_leaving_early(self):
        loader = data.DataLoader(data.TensorDataset(torch.arange(1000)), 1, num_workers=2)
        for _ in range(3):
            self.assertEqual(next(iter(loader))[0].tolist(), [0])


if __name__ == "__main__":
    unittest.main()
