"""tests/goldens/oracle/view.txt"""
import torch

from oracle import write

C = (torch.complex64, torch.complex128)
F = (torch.float32, torch.float64)


def view_sizes(m, t):
    """A shape that often fits."""
    numel, sizes = t.numel(), []
    if m.rng.random() < 0.5:
        sizes = [s for s in t.shape if s != 1 or m.rng.random() < 0.5]
        for _ in range(m.rng.randint(0, 2)):
            sizes.insert(m.rng.randint(0, len(sizes)), 1)
    else:
        rest = numel
        while rest > 1 and len(sizes) < 4:
            divisor = m.rng.choice([d for d in range(1, rest + 1) if rest % d == 0])
            sizes.append(divisor)
            rest //= divisor
        sizes.append(rest)
    if sizes and m.rng.random() < 0.2:
        sizes[m.rng.randrange(len(sizes))] = -1
    if m.rng.random() < 0.1:
        sizes.append(m.rng.choice((-1, -2, 2, 0)))
    return sizes


def with_dim(*rest):
    def generate(m):
        t = m.tensor()
        return [t, m.dim(t.dim()), *(r(m) if callable(r) else r for r in rest)]
    return generate


def two_dims(m):
    t = m.tensor()
    return [t, m.dim(t.dim()), m.dim(t.dim())]


def permute(m):
    t = m.tensor()
    dims = list(range(t.dim()))
    m.rng.shuffle(dims)
    dims = [d - t.dim() if m.rng.random() < 0.3 else d for d in dims]
    if dims and m.rng.random() < 0.15:
        dims[0] = m.rng.choice((dims[-1], t.dim()))
    if dims and m.rng.random() < 0.05:
        dims.pop()
    return [t, dims]


def expand(m):
    t = m.tensor()
    sizes = [m.rng.choice((s, -1, m.rng.randint(1, 3) if s == 1 else s)) for s in t.shape]
    sizes = [m.rng.randint(0, 3) for _ in range(m.rng.choice((0, 0, 1, 2)))] + sizes
    if sizes and m.rng.random() < 0.15:
        sizes[m.rng.randrange(len(sizes))] = m.rng.choice((-1, 5))
    if sizes and m.rng.random() < 0.05:
        sizes = sizes[1:]
    return [t, sizes]


def dims_list(m, rank):
    dims = list(range(rank))
    m.rng.shuffle(dims)
    dims = dims[: m.rng.randint(0, rank)]
    if m.rng.random() < 0.1:
        dims.append(m.rng.choice((0, rank, -rank - 1)))
    return dims


def movedim(m):
    t = m.tensor()
    a, b = dims_list(m, t.dim()), dims_list(m, t.dim())
    if m.rng.random() < 0.8:
        n = min(len(a), len(b))
        a, b = a[:n], b[:n]
    return [t, a, b]


def select(m):
    t = m.tensor()
    dim = m.dim(t.dim())
    size = t.shape[dim] if -t.dim() <= dim < t.dim() else 2
    return [t, dim, m.rng.randint(-size - 1, size)]


def slice_(m):
    t = m.tensor()
    bound = lambda: m.rng.choice((None, *range(-6, 7)))
    return [t, m.dim(t.dim()), bound(), bound(), m.rng.choice((1, 1, 2, 3, 0))]


def narrow(m):
    t = m.tensor()
    return [t, m.dim(t.dim()), m.rng.randint(-4, 4), m.rng.randint(-1, 3)]


def split(m):
    t = m.tensor()
    return [t, m.rng.choice((1, 2, 3, 5, 0, -1)), m.dim(t.dim())]


def split_sizes(m):
    t = m.tensor(m.sizes(low=2))
    dim = m.dim(t.dim())
    size = t.shape[dim] if -t.dim() <= dim < t.dim() else 2
    a = m.rng.randint(0, size)
    sizes = m.rng.choice(([a, size - a], [size], [a, 1], [size + 1, -1], []))
    return [t, sizes, dim]


def as_strided(m):
    t = m.tensor()
    rank = m.rng.randint(0, 3)
    sizes = m.sizes(rank, 1, 3)
    strides = [m.rng.choice((0, 1, 2, 3)) for _ in sizes]
    if m.rng.random() < 0.08:
        strides = strides + [1]
    if strides and m.rng.random() < 0.05:
        strides[0] = -1
    return [t, sizes, strides, m.rng.choice((None, None, 0, 1, 40, -1))]


def unfold(m):
    t = m.tensor()
    return [t, m.dim(t.dim()), m.rng.choice((0, 1, 2, 3, 5, -1)), m.rng.choice((1, 1, 2, 3, 0))]


def diagonal(m):
    t = m.tensor(m.sizes(m.rng.choice((1, 2, 2, 3, 3, 4))))
    return [t, m.rng.randint(-3, 3), m.dim(t.dim()), m.dim(t.dim())]


def view_dtype(m):
    t = m.tensor(dtype=m.dtype((torch.float32, torch.int16, torch.float64, torch.uint8,
                                torch.complex64)))
    return [t, m.dtype((torch.float32, torch.int16, torch.int64, torch.int8, torch.int32))]


def complex_pairs(m):
    t = m.tensor(m.sizes() + [m.rng.choice((2, 2, 2, 3))], m.dtype(F + (torch.int32,)),
                 plain=m.rng.random() < 0.6)
    return [t]


def maybe_conj(m):
    t = m.tensor(dtype=m.dtype(C + (torch.float32,)))
    return [t]


def repeat(m):
    t = m.tensor(m.sizes(low=1, high=3))
    counts = [m.rng.choice((1, 1, 2, 3, 0)) for _ in range(t.dim() + m.rng.choice((0, 0, 1, 2)))]
    return [t, counts[1:] if m.rng.random() < 0.08 else counts]


def roll(m):
    t = m.tensor()
    n = m.rng.choice((0, 1, 1, 2))
    shifts = [m.rng.randint(-4, 6) for _ in range(max(n, 1))]
    return [t, shifts, [m.dim(t.dim()) for _ in range(n)]]


def rot90(m):
    t = m.tensor(m.sizes(m.rng.choice((1, 2, 3))))
    return [t, m.rng.randint(-5, 5), [m.dim(t.dim()), m.dim(t.dim())][: m.rng.choice((2, 2, 2, 1))]]


def unflatten(m):
    t = m.tensor(m.sizes(low=1, high=6))
    dim = m.dim(t.dim())
    size = t.shape[dim] if -t.dim() <= dim < t.dim() else 2
    divisor = m.rng.choice([d for d in range(1, size + 1) if size % d == 0] or [1])
    return [t, dim, m.rng.choice(([divisor, -1], [divisor, size // divisor], [2, 3], [-1, -1], [-1]))]


def tensor_split(m):
    t = m.tensor(m.sizes(low=1, high=6))
    return [t, m.rng.choice((1, 2, 3, 4, 0, -1)), m.dim(t.dim())]


def tensor_split_indices(m):
    t = m.tensor(m.sizes(low=1, high=6))
    return [t, [m.rng.randint(-4, 7) for _ in range(m.rng.randint(0, 3))], m.dim(t.dim())]


def sections(m):
    return [m.tensor(m.sizes(low=1, high=4)), m.rng.choice((1, 2, 3, 0))]


def positions(m):
    return [m.tensor(), [m.rng.randint(-4, 7) for _ in range(m.rng.randint(0, 3))]]


def scatter_into(get):
    def generate(m):
        args = get(m)
        part = {select: torch.select, slice_: torch.ops.aten.slice, diagonal: torch.diagonal}[get](*args)
        src = m.tensor(part.shape, args[0].dtype)
        if m.rng.random() < 0.1:
            src = m.tensor()
        return [args[0], src, *args[1:]]
    return generate


def as_strided_scatter(m):
    t, sizes, strides, offset = as_strided(m)
    t = m.tensor(t.shape, torch.float32, plain=m.rng.random() < 0.5)
    # What is written twice is in no defined order.
    strides = [s * 3 ** i for i, s in enumerate(sorted(strides))]
    part = t.as_strided(sizes, strides, offset)
    return [t, m.tensor(part.shape, t.dtype), sizes, strides, offset]


def select_backward(m):
    args = select(m)
    part = torch.select(*args)
    return [m.tensor(part.shape, m.dtype(F)), list(args[0].shape), *args[1:]]


def slice_backward(m):
    args = slice_(m)
    args[2], args[3] = args[2] or 0, 100 if args[3] is None else args[3]
    part = torch.ops.aten.slice(*args)
    return [m.tensor(part.shape, m.dtype(F)), list(args[0].shape), *args[1:]]


def diagonal_backward(m):
    args = diagonal(m)
    part = torch.diagonal(*args)
    return [m.tensor(part.shape, m.dtype(F)), list(args[0].shape), *args[1:]]


def unfold_backward(m):
    args = unfold(m)
    part = args[0].unfold(*args[1:])
    return [m.tensor(part.shape, m.dtype(F)), list(args[0].shape), *args[1:]]


def one(m):
    return [m.tensor()]


def like(m):
    t = m.tensor()
    return [t, m.tensor([abs(s) for s in view_sizes(m, t)])]


def matrix(m):
    return [m.tensor(m.sizes(m.rng.choice((0, 1, 2, 2, 3))), m.dtype(C + F))]


CASES = [
    ("view", lambda m: (lambda t: [t, view_sizes(m, t)])(m.tensor())),
    ("view", lambda m: (lambda t: [t, view_sizes(m, t)])(m.tensor())),
    ("reshape", lambda m: (lambda t: [t, view_sizes(m, t)])(m.tensor())),
    ("_unsafe_view", lambda m: (lambda t: [t, view_sizes(m, t)])(m.tensor(plain=True))),
    ("view_as", like), ("reshape_as", like),
    ("view.dtype", view_dtype), ("view.dtype", view_dtype),
    ("flatten.using_ints", two_dims), ("unflatten.int", unflatten), ("ravel", one),
    ("alias", one), ("detach", one), ("contiguous", one),
    ("contiguous", lambda m: [m.tensor(m.sizes(4)), torch.channels_last]),
    ("expand", expand), ("expand", expand), ("broadcast_to", expand),
    ("sum_to_size", lambda m: (lambda t: [t, [s if m.rng.random() < 0.5 else 1 for s in t.shape][m.rng.choice((0, 0, 1)):]])(m.tensor(dtype=m.dtype(F + (torch.int64,))))),
    ("permute", permute), ("transpose.int", two_dims), ("transpose_", two_dims),
    ("t", one), ("t_", lambda m: [m.tensor(m.sizes(m.rng.choice((0, 1, 2, 3))))]),
    ("numpy_T", one), ("matrix_H", matrix), ("mT", matrix), ("mH", matrix), ("adjoint", matrix),
    ("movedim.int", two_dims), ("movedim.intlist", movedim), ("moveaxis.intlist", movedim),
    ("swapaxes", two_dims), ("swapdims", two_dims), ("swapaxes_", two_dims), ("swapdims_", two_dims),
    ("select.int", select), ("slice.Tensor", slice_), ("slice.Tensor", slice_), ("narrow", narrow),
    ("unsqueeze", lambda m: (lambda t: [t, m.dim(t.dim() + 1)])(m.tensor())),
    ("unsqueeze_", lambda m: (lambda t: [t, m.dim(t.dim() + 1)])(m.tensor())),
    ("squeeze", one), ("squeeze.dim", with_dim()), ("squeeze_", one), ("squeeze_.dim", with_dim()),
    ("squeeze.dims", lambda m: (lambda t: [t, dims_list(m, t.dim())])(m.tensor())),
    ("squeeze_.dims", lambda m: (lambda t: [t, dims_list(m, t.dim())])(m.tensor())),
    ("unbind.int", with_dim()), ("split.Tensor", split), ("split.sizes", split_sizes),
    ("split_with_sizes", split_sizes), ("unsafe_split.Tensor", split),
    ("unsafe_split_with_sizes", split_sizes),
    ("chunk", lambda m: (lambda t: [t, m.rng.choice((1, 2, 3, 7, 0)), m.dim(t.dim())])(m.tensor())),
    ("unsafe_chunk", lambda m: (lambda t: [t, m.rng.choice((1, 2, 3, 7, 0)), m.dim(t.dim())])(m.tensor())),
    ("tensor_split.sections", tensor_split), ("tensor_split.indices", tensor_split_indices),
    ("tensor_split.tensor_indices_or_sections", lambda m: [m.tensor(), torch.tensor([1, 2]), 0]),
    ("hsplit.int", sections), ("vsplit.int", sections), ("dsplit.int", sections),
    ("hsplit.array", positions), ("vsplit.array", positions), ("dsplit.array", positions),
    ("diagonal", diagonal), ("unfold", unfold), ("as_strided", as_strided), ("as_strided_", as_strided),
    ("view_as_real", maybe_conj), ("view_as_complex", complex_pairs), ("real", maybe_conj),
    ("imag", maybe_conj), ("conj", maybe_conj), ("resolve_conj", maybe_conj), ("resolve_neg", maybe_conj),
    ("_neg_view", lambda m: [m.tensor(dtype=m.dtype(C + F))]), ("_conj", lambda m: [m.tensor(dtype=m.dtype(C))]),
    ("select_backward", select_backward), ("slice_backward", slice_backward),
    ("diagonal_backward", diagonal_backward), ("unfold_backward", unfold_backward),
    ("select_scatter", scatter_into(select)), ("slice_scatter", scatter_into(slice_)),
    ("diagonal_scatter", scatter_into(diagonal)),
    ("as_strided_scatter", as_strided_scatter),
    ("repeat", repeat),
    ("tile", lambda m: [m.tensor(m.sizes(high=3)), [m.rng.choice((1, 2, 3)) for _ in range(m.rng.randint(0, 4))]]),
    ("flip", lambda m: (lambda t: [t, dims_list(m, t.dim())])(m.tensor())),
    ("fliplr", one), ("flipud", one), ("roll", roll), ("rot90", rot90),
]

write("view", CASES)
