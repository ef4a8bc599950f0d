"""Data sets, samplers, loaders, against orders measured on PyTorch."""

import unittest
from collections import namedtuple

from module_under_test import torch

data = torch.utils.data

#: Batches of 10 samples with `shuffle` after `manual_seed(0)`.
SHUFFLED = [[6, 7, 1, 4], [2, 0, 9, 8], [3, 5]]


class Numbers(data.Dataset):
    def __init__(self, n, fail=None):
        self.n, self.fail = n, fail

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == self.fail:
            raise KeyError(f"no {i}")
        return i


class Stream(data.IterableDataset):
    def __iter__(self):
        info = data.get_worker_info()
        start = 0 if info is None else 100 * info.id
        return iter(range(start, start + 5))


def batches(loader):
    return [batch.tolist() for batch in loader]


class Orders(unittest.TestCase):
    def test_shuffle_of_seed_0(self):
        torch.manual_seed(0)
        self.assertEqual(batches(data.DataLoader(Numbers(10), 4, shuffle=True)), SHUFFLED)

    def test_workers_do_not_change_the_order(self):
        for workers in (1, 3):
            torch.manual_seed(0)
            loader = data.DataLoader(Numbers(10), 4, shuffle=True, num_workers=workers)
            self.assertEqual(batches(loader), SHUFFLED)

    def test_random_split_of_seed_0(self):
        parts = data.random_split(range(10), [7, 3], generator=torch.Generator().manual_seed(0))
        self.assertEqual([list(part.indices) for part in parts], [[4, 1, 7, 5, 3, 9, 0], [8, 6, 2]])
        fractions = data.random_split(range(10), [0.65, 0.35])
        self.assertEqual([len(part) for part in fractions], [7, 3])

    def test_batches(self):
        self.assertEqual(list(data.BatchSampler(range(5), 2, False)), [[0, 1], [2, 3], [4]])
        self.assertEqual(list(data.BatchSampler(range(5), 2, True)), [[0, 1], [2, 3]])
        self.assertEqual(len(data.DataLoader(Numbers(5), 2)), 3)

    def test_distributed(self):
        parts = [list(data.DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
        self.assertEqual(parts, [[0, 2, 4], [1, 3, 0]])


class Loading(unittest.TestCase):
    def test_errors_come_from_workers(self):
        for workers in (0, 2):
            seen = []
            with self.assertRaisesRegex(KeyError, "no 5"):
                for batch in data.DataLoader(Numbers(8, fail=5), 2, num_workers=workers):
                    seen.append(batch.tolist())
            self.assertEqual(seen, [[0, 1], [2, 3]])

    def test_streams(self):
        self.assertEqual(batches(data.DataLoader(Stream(), 2)), [[0, 1], [2, 3], [4]])
        self.assertEqual(
            batches(data.DataLoader(Stream(), 3, num_workers=2)),
            [[0, 1, 2], [100, 101, 102], [3, 4], [103, 104]],
        )

    def test_persistent_workers(self):
        loader = data.DataLoader(Numbers(4), 2, num_workers=2, persistent_workers=True)
        for _ in range(3):
            self.assertEqual(batches(loader), [[0, 1], [2, 3]])

    def test_stopping_early(self):
        for batch in data.DataLoader(Numbers(100), 2, num_workers=2):
            break
        self.assertEqual(batch.tolist(), [0, 1])

    def test_fixed_attributes(self):
        loader = data.DataLoader(Numbers(4))
        with self.assertRaises(ValueError):
            loader.batch_size = 3


class Collating(unittest.TestCase):
    def test_nested(self):
        Point = namedtuple("Point", "x y")
        batch = data.default_collate([
            {"a": 1, "b": (1.5, "s"), "p": Point(torch.ones(2), True)},
            {"a": 2, "b": (2.5, "t"), "p": Point(torch.zeros(2), False)},
        ])
        self.assertEqual(batch["a"].tolist(), [1, 2])
        self.assertEqual(batch["b"][0].dtype, torch.float64)
        self.assertEqual(list(batch["b"][1]), ["s", "t"])
        self.assertEqual(batch["p"].x.shape, (2, 2))

    def test_unequal(self):
        with self.assertRaises(RuntimeError):
            data.default_collate([[1, 2], [3]])
        with self.assertRaises(TypeError):
            data.default_collate([object()])

    def test_data_sets(self):
        pair = data.TensorDataset(torch.arange(3), torch.ones(3))
        joined = pair + pair
        self.assertEqual((len(joined), joined[-1][0].item()), (6, 2))
        stacked = data.StackDataset(a=Numbers(3), b=Numbers(3))
        self.assertEqual(stacked[1], {"a": 1, "b": 1})
        self.assertEqual(list(data.ChainDataset([Stream(), Stream()])), [0, 1, 2, 3, 4] * 2)


if __name__ == "__main__":
    unittest.main()
