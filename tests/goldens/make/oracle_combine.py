"""tests/goldens/oracle/combine.txt"""
import torch

from oracle import write

ALL = (torch.float32, torch.int64, torch.float64, torch.bool, torch.uint8, torch.int32,
       torch.complex64, torch.float16)


def alike(m, rank=None, same=False):
    """Tensors that fit but for one dimension."""
    shape = m.sizes(rank)
    dtype = m.dtype(ALL)
    dim = m.rng.randrange(len(shape)) if shape else 0
    tensors = []
    for _ in range(m.rng.randint(1, 4)):
        own = list(shape)
        if own and not same:
            own[dim] = m.rng.randint(0, 3)
        if own and m.rng.random() < 0.04:
            own[m.rng.randrange(len(own))] += 1
        if m.rng.random() < 0.06:
            own = [0]
        tensors.append(m.tensor(own, dtype if m.rng.random() < 0.8 else m.dtype(ALL)))
    return tensors, dim


def cat(m):
    tensors, dim = alike(m)
    rank = tensors[0].dim()
    return [tensors, m.rng.choice((dim, dim, dim, dim - rank, rank))]


def channels(m):
    shape = m.sizes(4)
    tensors = [torch.empty(0)] * 0
    for _ in range(2):
        form = m.rng.choice((torch.channels_last, torch.channels_last, torch.contiguous_format))
        n, c, h, w = shape
        strides = (h * w * c, 1, w * c, c) if form is torch.channels_last else (c * h * w, h * w, w, 1)
        from oracle import storage_values
        flat = storage_values(torch.float32, n * c * h * w)
        tensors.append(flat.as_strided(shape, strides))
    return [tensors, m.rng.randrange(4)]


def stack(m):
    tensors, dim = alike(m, same=True)
    return [tensors, m.rng.choice((dim, 0, -1, 5))]


def only(same=False, rank=None):
    return lambda m: [alike(m, rank, same)[0]]


def repeats(m):
    t = m.tensor()
    dim = m.rng.choice((None, m.dim(t.dim())))
    size = t.numel() if dim is None else (t.shape[dim] if -t.dim() <= dim < t.dim() else 1)
    counts = torch.tensor([m.rng.randint(0, 3) for _ in range(m.rng.choice((size, size, size, 1)))],
                          dtype=torch.int64)
    return [t, counts, dim]


CASES = [
    ("cat", cat), ("cat", cat), ("cat", channels), ("concat", cat), ("stack", stack), ("stack", stack),
    ("hstack", only()), ("vstack", only()), ("dstack", only()), ("column_stack", only()),
    ("hstack", only(True, 1)), ("vstack", only(True, 1)), ("row_stack", only(True)),
    ("repeat_interleave.Tensor", lambda m: [torch.tensor([m.rng.randint(-1 if m.rng.random() < 0.1 else 0, 3) for _ in range(4)])]),
    ("repeat_interleave.self_Tensor", repeats),
    ("repeat_interleave.self_int", lambda m: (lambda t: [t, m.rng.choice((0, 1, 2, 3, -1)), m.rng.choice((None, m.dim(t.dim())))])(m.tensor())),
    ("broadcast_tensors", lambda m: (lambda t: [[m.tensor([1 if m.rng.random() < 0.4 else s for s in t.shape]), t]])(m.tensor())),
    ("meshgrid", lambda m: [[m.tensor([m.rng.randint(0, 3)][: m.rng.choice((1, 1, 0))], torch.float32) for _ in range(m.rng.randint(1, 3))]]),
    ("meshgrid.indexing", lambda m: [[m.tensor([m.rng.randint(0, 3)], torch.float32) for _ in range(m.rng.randint(1, 3))], m.rng.choice(("ij", "xy", "ab"))]),
    ("cartesian_prod", lambda m: [[m.tensor([m.rng.randint(0, 3)], torch.float32) for _ in range(m.rng.randint(1, 3))]]),
    ("block_diag", lambda m: [[m.tensor(m.sizes(m.rng.choice((0, 1, 2, 2))), torch.float32) for _ in range(m.rng.randint(1, 3))]]),
    ("atleast_1d", lambda m: [m.tensor()]), ("atleast_2d", lambda m: [m.tensor()]),
    ("atleast_3d", lambda m: [m.tensor()]),
]

write("combine", CASES)
