"""Data sets whose iterators begin anew when iter() is called on them again, as those of pipelines do."""

import unittest

from module_under_test import torch


class Restarting(torch.utils.data.IterableDataset):
    """Its own iterator; ``iter`` puts it back to the start."""

    def __init__(self, length):
        self.length = length

    def __iter__(self):
        self.place = 0
        return self

    def __next__(self):
        if self.place == self.length:
            raise StopIteration
        self.place += 1
        return self.place


class Restart(unittest.TestCase):
    def test_loaders_call_iter_once(self):
        for batch_size, drop_last, expected in [
            (1, False, [[1], [2], [3], [4], [5]]), (2, False, [[1, 2], [3, 4], [5]]), (2, True, [[1, 2], [3, 4]]),
            (5, False, [[1, 2, 3, 4, 5]]), (7, False, [[1, 2, 3, 4, 5]]), (7, True, []),
        ]:
            loader = torch.utils.data.DataLoader(Restarting(5), batch_size=batch_size, drop_last=drop_last)
            for _ in range(2):
                got = [batch.tolist() for _, batch in zip(range(10), loader)]
                self.assertEqual(got, expected, (batch_size, drop_last))

    def test_loaders_without_batches(self):
        loader = torch.utils.data.DataLoader(Restarting(3), batch_size=None)
        self.assertEqual([item for _, item in zip(range(10), loader)], [1, 2, 3])

    def test_workers(self):
        loader = torch.utils.data.DataLoader(Restarting(5), batch_size=2, num_workers=1)
        self.assertEqual([batch.tolist() for _, batch in zip(range(10), loader)], [[1, 2], [3, 4], [5]])

    def test_a_pass_after_its_end_stays_ended(self):
        iterator = iter(torch.utils.data.DataLoader(Restarting(3), batch_size=2))
        self.assertEqual([batch.tolist() for batch in iterator], [[1, 2], [3]])
        for _ in range(2):
            with self.assertRaises(StopIteration):
                next(iterator)


if __name__ == "__main__":
    unittest.main()
