"""tests/goldens/oracle/index.txt"""
import torch

from oracle import write

ALL = (torch.float32, torch.int64, torch.float64, torch.bool, torch.uint8, torch.int32,
       torch.complex64, torch.float16)
LONG, INT = torch.int64, torch.int32


def picks(m, size, shape, low=None, dtype=None):
    """Positions in a dimension of this size."""
    low = -size if low is None else low
    high = size - 1 if m.rng.random() < 0.93 else size
    count = torch.Size(shape).numel()
    values = [m.rng.randint(low, high) if high >= low else 0 for _ in range(count)]
    dtype = dtype or m.rng.choice((LONG, LONG, LONG, INT))
    return torch.tensor(values, dtype=dtype).reshape(shape)


def mask(m, shape):
    values = [m.rng.random() < 0.5 for _ in range(torch.Size(shape).numel())]
    return torch.tensor(values, dtype=torch.bool).reshape(shape)


def advanced(m, dtype=None):
    t = m.tensor(dtype=dtype or m.dtype(ALL))
    shape = m.rng.choice(([2], [3], [2, 2], [], [1], [0]))
    indices, dim = [], 0
    while dim < t.dim():
        kind = m.rng.random()
        if kind < 0.35:
            indices.append(None)
            dim += 1
        elif kind < 0.85:
            own = [1 if m.rng.random() < 0.2 else s for s in shape]
            indices.append(picks(m, t.shape[dim], own))
            dim += 1
        else:
            k = m.rng.randint(1, t.dim() - dim)
            indices.append(mask(m, t.shape[dim:dim + k]))
            dim += k
    while indices and indices[-1] is None:
        indices.pop()
    if not indices:
        indices = [picks(m, t.shape[0] if t.dim() else 1, shape)]
    if m.rng.random() < 0.04:
        indices.append(picks(m, 1, [1]))
    return t, indices


def index(m):
    return list(advanced(m))


def index_put(m):
    t, indices = advanced(m)
    t = m.tensor(t.shape, t.dtype, plain=m.rng.random() < 0.5)
    if 0 in t.stride():
        t = m.tensor(t.shape, t.dtype, plain=True)
    shape = torch.ops.aten.index(t, indices).shape
    shape = [1 if m.rng.random() < 0.2 else s for s in shape][m.rng.choice((0, 0, 0, 1)):]
    if m.rng.random() < 0.06:
        shape = [2, *shape]
    # What is written twice is in no defined order, unless it is added or the same.
    accumulate = m.rng.random() < 0.5 and t.dtype is not torch.bool
    values = m.tensor(shape if accumulate else [1] * len(shape), t.dtype)
    return [t, indices, values, accumulate]


def select(m):
    t = m.tensor(dtype=m.dtype(ALL))
    dim = m.dim(t.dim())
    size = t.shape[dim] if -t.dim() <= dim < t.dim() else 1
    return t, dim, size


def index_select(m):
    t, dim, size = select(m)
    return [t, dim, picks(m, size, m.rng.choice(([2], [1], [4], [0], [])), 0)]


def gather(m):
    t, dim, size = select(m)
    shape = [m.rng.randint(1, s) if s else 0 for s in t.shape]
    if t.dim() and -t.dim() <= dim < t.dim():
        shape[dim] = m.rng.randint(0, 4)
    if m.rng.random() < 0.06:
        shape = m.sizes()
    return [t, dim, picks(m, size, shape, 0)]


def unique(m, size, shape, dim):
    """Positions without repetition along a dimension."""
    rows = torch.stack([torch.tensor(m.rng.sample(range(size), shape[dim]))
                        for _ in range(max(torch.Size(shape).numel() // max(shape[dim], 1), 1))])
    other = [s for d, s in enumerate(shape) if d != dim]
    return rows.reshape(*other, shape[dim]).movedim(-1, dim).contiguous()


def own(m, t):
    """The same shape without overlap."""
    return m.tensor(t.shape, t.dtype, plain=True) if 0 in t.stride() else t


def scatter(m, unique_only=True, dtype=None):
    t = own(m, m.tensor(m.sizes(m.rng.choice((1, 2, 3))), dtype or m.dtype(ALL)))
    dim = m.rng.randrange(t.dim())
    shape = [m.rng.randint(1, s) if s else 0 for s in t.shape]
    index = unique(m, t.shape[dim], shape, dim) if unique_only and 0 not in shape else \
        picks(m, t.shape[dim], shape, 0, LONG)
    src = m.tensor([s + m.rng.choice((0, 0, 1)) for s in shape], t.dtype)
    return [t, dim, index, src]


def scatter_value(m):
    t, dim, index, _ = scatter(m)
    return [t, dim, index, m.rng.choice((0, 1, 2.5, True))]


def scatter_add(m):
    return scatter(m, False, m.dtype((torch.float32, torch.int64, torch.float64)))


def along(m, dtype=None, repeats=False):
    t = own(m, m.tensor(m.sizes(m.rng.choice((1, 2, 3))), dtype or m.dtype(ALL)))
    dim = m.rng.randrange(t.dim())
    size = t.shape[dim]
    count = m.rng.randint(0, size)
    index = picks(m, size, [count + 1], 0, LONG) if repeats and size else \
        torch.tensor(m.rng.sample(range(size), count), dtype=LONG)
    shape = list(t.shape)
    shape[dim] = index.numel()
    if m.rng.random() < 0.06:
        shape[dim] += 1
    return [t, dim, index, m.tensor(shape, t.dtype)]


def index_add(m):
    return along(m, m.dtype((torch.float32, torch.int64, torch.float64)), True)


def index_fill(m):
    t, dim, index, _ = along(m)
    return [t, dim, index, m.rng.choice((0, 1, 2.5))]


def masked(m, dtype=None):
    t = m.tensor(dtype=dtype or m.dtype(ALL))
    shape = [1 if m.rng.random() < 0.2 else s for s in t.shape][m.rng.choice((0, 0, 0, 1)):]
    return t, mask(m, shape)


def masked_fill(m):
    t, where = masked(m)
    return [t, where, m.rng.choice((0, 1, 2.5, True, 300, 1e40))]


def masked_fill_(m):
    t, where = masked(m)
    return [own(m, t), where, m.rng.choice((0, 1, 2.5, True))]


def masked_fill_tensor(m):
    t, where = masked(m)
    return [t, where, m.tensor([] if m.rng.random() < 0.9 else [1])]


def masked_scatter(m):
    t, where = masked(m)
    return [own(m, t), where, m.tensor([t.numel() - m.rng.choice((0, 0, 0, 3))], t.dtype)]


def where(m):
    t = m.tensor()
    shrink = lambda: [1 if m.rng.random() < 0.2 else s for s in t.shape][m.rng.choice((0, 0, 0, 1)):]
    condition = m.tensor(shrink(), torch.bool if m.rng.random() < 0.95 else None)
    return [condition, m.tensor(shrink()), m.tensor(shrink())]


def take(m):
    t = m.tensor()
    return [t, picks(m, max(t.numel(), 1), m.rng.choice(([2], [2, 2], [])), None, LONG)]


def put(m):
    t = own(m, m.tensor(dtype=m.dtype((torch.float32, torch.int64))))
    index = picks(m, max(t.numel(), 1), [3], None, LONG)
    return [t, index, m.tensor([3], t.dtype), True]


def take_along(m):
    t, dim, index = gather(m)
    return [t, index.to(m.rng.choice((LONG, LONG, LONG, INT))), m.rng.choice((dim, dim, None))]


CASES = [
    ("index.Tensor", index), ("index.Tensor", index), ("index.Tensor", index),
    ("index_put", index_put), ("index_put_", index_put), ("index_put_", index_put),
    ("index_select", index_select), ("gather", gather),
    ("scatter.src", scatter), ("scatter_.src", scatter), ("scatter.value", scatter_value),
    ("scatter_.value", scatter_value), ("scatter_add", scatter_add), ("scatter_add_", scatter_add),
    ("scatter.reduce", lambda m: [*scatter_add(m), m.rng.choice(("add", "multiply", "foo"))]),
    ("scatter.value_reduce", lambda m: [*scatter_add(m)[:3], 2, m.rng.choice(("add", "multiply"))]),
    ("index_add", index_add), ("index_add_", index_add),
    ("index_copy", along), ("index_copy_", along),
    ("index_fill.int_Scalar", index_fill), ("index_fill_.int_Scalar", index_fill),
    ("masked_fill.Scalar", masked_fill), ("masked_fill_.Scalar", masked_fill_),
    ("masked_fill.Tensor", masked_fill_tensor),
    ("masked_select", lambda m: list(masked(m))), ("masked_scatter", masked_scatter),
    ("masked_scatter_", masked_scatter),
    ("where.self", where), ("where.self", where),
    ("where.ScalarOther", lambda m: [*where(m)[:2], m.rng.choice((0, 1.5, True))]),
    ("where.ScalarSelf", lambda m: (lambda w: [w[0], m.rng.choice((0, 1.5, True)), w[2]])(where(m))),
    ("where.Scalar", lambda m: [where(m)[0], m.rng.choice((0, 1.5, True)), m.rng.choice((0, 1.5))]),
    ("where", lambda m: [m.tensor()]), ("nonzero", lambda m: [m.tensor(dtype=m.dtype(ALL))]),
    ("nonzero_numpy", lambda m: [m.tensor()]), ("argwhere", lambda m: [m.tensor()]),
    ("take", take), ("put", put), ("put_", put), ("take_along_dim", take_along),
]

write("index", CASES)
