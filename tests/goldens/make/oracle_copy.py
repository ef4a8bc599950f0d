"""tests/goldens/oracle/copy.txt"""
import torch

from oracle import write

ALL = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
       torch.float64, torch.complex64, torch.complex128, torch.bool, torch.bfloat16)
FORMATS = (None, None, torch.contiguous_format, torch.preserve_format, torch.channels_last,
           torch.channels_last_3d)


def layout(m):
    rank = m.rng.choice((None, 4, 5))
    return m.tensor(m.sizes(rank, high=3), m.dtype(ALL))


def odd_values(m):
    """Numbers that do not fit."""
    values = [m.rng.choice((300.7, -1.5, 70000.0, 1e20, float("inf"), float("nan"), -0.0, 3.0))
              for _ in range(3)]
    return torch.tensor(values, dtype=m.dtype((torch.float64, torch.float32)))


def copy(m):
    t = m.tensor(m.sizes(high=3), m.dtype(ALL))
    shape = list(t.shape)
    if m.rng.random() < 0.3:
        shape = [1 if m.rng.random() < 0.4 else s for s in shape][m.rng.choice((0, 0, 1)):]
    if m.rng.random() < 0.08:
        shape = [2] + shape
    return [t, m.tensor(shape, m.dtype(ALL))]


def resize(m):
    t = m.tensor(plain=m.rng.random() < 0.5)
    sizes = m.sizes()
    # What a larger storage holds is arbitrary.
    room = t.untyped_storage().nbytes() // t.itemsize - t.storage_offset()
    while torch.Size(sizes).numel() > room:
        sizes = m.sizes(high=3)
    return [t, sizes, m.rng.choice((None, None, None, *FORMATS))]


def set_offset(m):
    t, source = m.tensor(dtype=torch.float32), m.tensor([4, 2], torch.float32, plain=m.rng.random() < 0.8)
    sizes = m.sizes(m.rng.randint(0, 2), high=2)
    strides = m.rng.choice(([], [1] * len(sizes), [1]))
    return [t, source, m.rng.choice((0, 0, -1)), sizes, strides]


CASES = [
    ("clone", lambda m: [layout(m), m.rng.choice(FORMATS)]),
    ("contiguous", lambda m: [layout(m), m.rng.choice(FORMATS[2:])]),
    ("_to_copy", lambda m: [layout(m), m.rng.choice((None, *ALL)), None, None, None, False, m.rng.choice(FORMATS)]),
    ("to.dtype", lambda m: [layout(m), m.dtype(ALL), False, m.rng.random() < 0.3, m.rng.choice(FORMATS)]),
    ("to.dtype", lambda m: [odd_values(m), m.dtype(ALL)]),
    ("to.dtype_layout", lambda m: [layout(m), m.rng.choice((None, *ALL)), None, None, None, False, m.rng.random() < 0.3, m.rng.choice(FORMATS)]),
    ("to.other", lambda m: [layout(m), m.tensor(dtype=m.dtype(ALL))]),
    ("type_as", lambda m: [layout(m), m.tensor(dtype=m.dtype(ALL))]),
    ("copy_", copy), ("copy_", copy),
    ("copy_", lambda m: (lambda v: [m.tensor([3], m.dtype(ALL)), v])(odd_values(m))),
    ("item", lambda m: [m.tensor(m.rng.choice(([], [1], [1, 1], [2], [0])), m.dtype(ALL))]),
    ("is_nonzero", lambda m: [m.tensor(m.rng.choice(([], [1], [1, 1], [2], [0])), m.dtype(ALL))]),
    ("equal", lambda m: (lambda t: [t, m.tensor(t.shape, m.dtype(ALL))])(m.tensor())),
    ("is_set_to", lambda m: [m.tensor(), m.tensor()]),
    ("resize_", resize),
    ("resize_as_", lambda m: (lambda a: [a[0], m.tensor(a[1]), a[2]])(resize(m))),
    ("set_.source_Tensor", lambda m: [m.tensor(dtype=torch.float32), m.tensor(dtype=torch.float32)]),
    ("set_.source_Tensor_storage_offset", set_offset), ("set_", lambda m: [m.tensor()]),
]

write("copy", CASES, 30)
