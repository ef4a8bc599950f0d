"""Images for the goldens of pooling and normalisation."""
from oracle import storage_values


def image(m, rank, kinds=None, sizes=None, dtype=None):
    """Images or volumes, sometimes of one sample, sometimes with channels last."""
    dtype = dtype or m.dtype(kinds)
    if sizes is None:
        sizes = [m.rng.choice((1, 2, 2, 0)), m.rng.randint(1, 3)]
        sizes += [m.rng.randint(1, 5 if rank < 3 else 3) for _ in range(rank)]
        if m.rng.random() < 0.2:
            sizes = sizes[1:]
        if m.rng.random() < 0.04:
            sizes[m.rng.randrange(len(sizes))] = 0
        if m.rng.random() < 0.04:
            sizes = sizes[1:]
    if len(sizes) == rank + 2 and rank > 1 and m.rng.random() < 0.35 and 0 not in sizes:
        order = [0, *range(2, rank + 2), 1]
        strides, step = [0] * (rank + 2), 1
        for d in reversed(order):
            strides[d] = step
            step *= sizes[d]
        return storage_values(dtype, step).as_strided(sizes, strides)
    return m.tensor(sizes, dtype)
