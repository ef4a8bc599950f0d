"""Writes tests/goldens/data_loader.txt: orders and numbers of PyTorch's samplers and loaders for given seeds.

A line is a case: its name, `|`, numbers. The settings are those of the test in crates/corten/tests/data.rs.
"""

from pathlib import Path

import torch
from torch.utils import data

ROOT = Path(__file__).resolve().parents[3]


def generator(seed):
    made = torch.Generator()
    made.manual_seed(seed)
    return made


def next_default():
    return [int(torch.empty((), dtype=torch.int64).random_(0, 1_000_000))]


def flat(loader):
    found = []
    for batch in loader:
        found += [*batch.tolist(), -1]
    return found


class Drawn(data.Dataset):
    """Numbers from the generator of the worker."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return next_default()[0]


class Seeds(data.Dataset):
    """The seed of the worker."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return data.get_worker_info().seed


def samplers():
    ten = range(10)
    torch.manual_seed(7)
    yield "random", list(data.RandomSampler(ten))
    yield "random_next", next_default()
    for name, options in [
        ("random_more", {"num_samples": 25}), ("random_fewer", {"num_samples": 4}),
        ("random_replaced", {"replacement": True, "num_samples": 70}),
    ]:
        torch.manual_seed(7)
        yield name, list(data.RandomSampler(ten, **options))
    given = data.RandomSampler(ten, generator=generator(3))
    yield "random_given", list(given)
    yield "random_given_again", list(given)
    torch.manual_seed(7)
    yield "subset", list(data.SubsetRandomSampler([3, 5, 8, 13, 21]))
    weights = torch.tensor([0.1, 0.9, 0.4, 0.7, 3.0, 0.6])
    yield "weighted", list(data.WeightedRandomSampler(weights, 12, generator=generator(5)))
    yield "weighted_single", list(data.WeightedRandomSampler(weights, 5, False, generator=generator(5)))


def distributed():
    for samples, replicas in [(10, 3), (7, 4), (2, 5), (12, 4)]:
        for drop_last in (False, True):
            for rank in range(replicas):
                sampler = data.DistributedSampler(range(samples), replicas, rank, seed=4, drop_last=drop_last)
                sampler.set_epoch(2)
                yield f"distributed_{samples}_{replicas}_{rank}_{str(drop_last).lower()}", list(sampler)


def loaders():
    parts = data.random_split(range(10), [7, 3], generator(42))
    yield "split", [index for part in parts for index in part.indices]
    yield "fractions", [len(part) for part in data.random_split(range(11), [0.5, 0.3, 0.2])]
    torch.manual_seed(11)
    loader = data.DataLoader(range(10), 3, shuffle=True)
    yield "loader", flat(loader)
    yield "loader_again", flat(loader)
    yield "loader_next", next_default()
    given = data.DataLoader(range(10), 4, shuffle=True, drop_last=True, generator=generator(9))
    yield "loader_given", flat(given)
    torch.manual_seed(11)
    yield "worker_numbers", [n for n in flat(data.DataLoader(Drawn(), 1, num_workers=2)) if n >= 0]
    torch.manual_seed(11)
    yield "worker_seeds", flat(data.DataLoader(Seeds(), 2, num_workers=2))


def blocks():
    tokens = torch.arange(100)
    starts = torch.randint(len(tokens) - 8, (5,), generator=generator(2))
    yield "token_starts", starts.tolist()


def main():
    cases = [*samplers(), *distributed(), *loaders(), *blocks()]
    text = "".join(f"{name}|{' '.join(map(str, values))}\n" for name, values in cases)
    (ROOT / "tests/goldens/data_loader.txt").write_text(text)


if __name__ == "__main__":
    main()
