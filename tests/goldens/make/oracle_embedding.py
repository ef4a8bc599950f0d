"""tests/goldens/oracle/embedding.txt"""
import torch

from oracle import write

KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
SUMS = (torch.float32, torch.float64, torch.bfloat16, torch.int64)


def indices(m, count, bad=0.06):
    sizes = m.sizes(m.rng.choice((0, 1, 1, 2)))
    total = 1
    for size in sizes:
        total *= size
    values = [m.rng.randrange(count) for _ in range(total)]
    if values and m.rng.random() < bad:
        values[-1] = count
    dtype = m.rng.choice((torch.int64, torch.int64, torch.int64, torch.int32, torch.int32, torch.int16))
    return torch.tensor(values, dtype=dtype).reshape(sizes)


def embedding(m):
    count = m.rng.randint(1, 4)
    shape = (count, m.rng.randint(0, 3)) if m.rng.random() < 0.95 else (count,)
    return [m.tensor(shape, m.dtype(KINDS)), indices(m, count), -1, False, False]


def backward(m):
    count = m.rng.randint(1, 4)
    places = indices(m, count, bad=0)
    grad = m.tensor((*places.shape, m.rng.randint(1, 3)), m.dtype(SUMS))
    padding = m.rng.choice((-1, -1, 0, count - 1))
    return [grad, places, count, padding, m.rng.random() < 0.4]


def renorm(m):
    count = m.rng.randint(1, 4)
    table = m.tensor((count, m.rng.randint(1, 3)), m.dtype((torch.float32, torch.float64)), plain=True)
    return [table.clone(), indices(m, count), m.rng.choice((1.0, 2.5)), m.rng.choice((1.0, 2.0, 3.0))]


write("embedding", [
    ("embedding", embedding), ("embedding_dense_backward", backward), ("embedding_renorm_", renorm),
], per_case=60)
