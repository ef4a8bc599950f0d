"""tests/goldens/oracle/matmul.txt"""
import torch

from oracle import write

ALL = (torch.float32, torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8,
       torch.complex64, torch.float16, torch.bfloat16)
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.complex64)


def size(m):
    return m.rng.choice((0, 1, 2, 2, 3, 3, 4, 5))


def spoil(m, sizes):
    """Sometimes a size that does not fit, or another rank."""
    sizes = list(sizes)
    chance = m.rng.random()
    if chance < 0.06 and sizes:
        sizes[m.rng.randrange(len(sizes))] += 1
    elif chance < 0.09:
        sizes.append(2)
    return sizes


def tensors(m, *shapes, kinds=ALL):
    dtype = m.dtype(kinds)
    other = m.dtype(kinds) if m.rng.random() < 0.05 else dtype
    return [m.tensor(spoil(m, s), dtype if i else other) for i, s in enumerate(shapes)]


def factors(m, dtype):
    whole = dtype in (torch.int64, torch.int32, torch.uint8)
    pick = (1, 1, 0, 2, 3) if whole else (1, 1, 0, 2, 0.5, -1.5)
    return [m.rng.choice(pick), m.rng.choice(pick)]


def mm(m):
    a, b, c = size(m), size(m), size(m)
    return tensors(m, (a, b), (b, c))


def bmm(m):
    n, a, b, c = size(m), size(m), size(m), size(m)
    return tensors(m, (n, a, b), (n, b, c))


def mv(m):
    a, b = size(m), size(m)
    return tensors(m, (a, b), (b,))


def dot(m):
    a = size(m)
    return tensors(m, (a,), (a,))


def outer(m):
    return tensors(m, (size(m),), (size(m),))


def start(m, sizes):
    """A shape that broadcasts to the result."""
    sizes = [1 if m.rng.random() < 0.2 else s for s in sizes]
    return sizes[m.rng.choice((0, 0, 0, 1, len(sizes))):]


def addmm(m):
    a, b, c = size(m), size(m), size(m)
    x, y, z = tensors(m, start(m, (a, c)), (a, b), (b, c))
    return [x, y, z, *factors(m, y.dtype)]


def addmv(m):
    a, b = size(m), size(m)
    x, y, z = tensors(m, start(m, (a,)), (a, b), (b,))
    return [x, y, z, *factors(m, y.dtype)]


def baddbmm(m):
    n, a, b, c = size(m), size(m), size(m), size(m)
    x, y, z = tensors(m, start(m, (n, a, c)), (n, a, b), (n, b, c))
    return [x, y, z, *factors(m, y.dtype)]


def addbmm(m):
    n, a, b, c = size(m), size(m), size(m), size(m)
    x, y, z = tensors(m, start(m, (a, c)), (n, a, b), (n, b, c))
    return [x, y, z, *factors(m, y.dtype)]


def addr(m):
    a, b = m.rng.randint(2, 5), m.rng.randint(2, 5)
    x, y, z = tensors(m, (a, b), (a,), (b,))
    return [x, y, z, *factors(m, y.dtype)]


def matmul(m):
    a, b, c = size(m), size(m), size(m)
    batch = [size(m) for _ in range(m.rng.randint(0, 2))]
    left = [1 if m.rng.random() < 0.2 else s for s in batch][m.rng.choice((0, 0, 1)):]
    right = [1 if m.rng.random() < 0.2 else s for s in batch][m.rng.choice((0, 0, 1)):]
    first = m.rng.choice(((*left, a, b), (*left, a, b), (a, b), (b,)))
    second = m.rng.choice(((*right, b, c), (*right, b, c), (b, c), (b,)))
    return tensors(m, first, second)


def linear(m):
    a, b = size(m), size(m)
    lead = [size(m) for _ in range(m.rng.randint(0, 2))]
    x, w, bias = tensors(m, (*lead, a), (b, a), (b,))
    return [x, w, m.rng.choice((bias, None))]


def bilinear(m):
    a, b, c = (m.rng.randint(1, 3) for _ in range(3))
    lead = [m.rng.randint(1, 3) for _ in range(m.rng.randint(0, 2))]
    dtype = m.dtype((torch.float32, torch.float64))
    x, y, w, bias = (m.tensor(s, dtype) for s in ((*lead, a), (*lead, b), (c, a, b), (c,)))
    return [x, y, w, m.rng.choice((bias, None))]


def inner(m):
    a = size(m)
    lead = lambda: [size(m) for _ in range(m.rng.randint(0, 2))]
    return tensors(m, (*lead(), a), (*lead(), a))


def vecdot(m):
    shape = m.sizes(m.rng.randint(1, 3))
    x, y = tensors(m, shape, shape, kinds=FLOATS)
    return [x, y, m.dim(len(shape))]


def tensordot(m):
    a, b, c, d = (m.rng.randint(1, 3) for _ in range(4))
    dtype = m.dtype((torch.float32, torch.float64, torch.int64))
    x, y = m.tensor((a, b, c), dtype), m.tensor((c, a, d), dtype)
    return [x, y, *m.rng.choice((([0, 2], [1, 0]), ([2, 0], [0, 1]), ([2], [0]), ([], []), ([0], [2])))]


def chain(m):
    sizes = [m.rng.randint(1, 4) for _ in range(m.rng.randint(3, 5))]
    dtype = m.dtype((torch.float32, torch.float64))
    return [[m.tensor(pair, dtype) for pair in zip(sizes, sizes[1:])]]


def multi_dot(m):
    matrices = chain(m)[0]
    if m.rng.random() < 0.3:
        matrices[0] = m.tensor((matrices[0].shape[1],), matrices[0].dtype)
    if m.rng.random() < 0.3:
        matrices[-1] = m.tensor((matrices[-1].shape[0],), matrices[0].dtype)
    return [matrices]


EQUATIONS = (
    ("ij,jk->ik", "ab,bc"), ("ij,jk", "ab,bc"), ("ij->ji", "ab"), ("ii->i", "aa"), ("ii", "aa"),
    ("bij,bjk->bik", "abc,acd"), ("...ij,...jk->...ik", "abc,cd"), ("i,j->ij", "a,b"),
    ("ij,ij->", "ab,ab"), ("ij->", "ab"), ("ij->i", "ab"), ("bn,anm,bm->ba", "ab,cbd,ad"),
    ("ij,kj,j->ik", "ab,cb,b"), ("iij->j", "aab"), ("...i->...", "abc"), ("i...->...i", "abc"),
    ("Ab,bC->CA", "ab,bc"), ("ab,ac", "ab,ac"), ("ij,j", "ab,b"), ("ijk,ilk->ijl", "abc,adc"),
    ("ij,jk->iz", "ab,bc"), ("i1->i", "ab"), ("ij,jk", "ab"), ("ij", "abc"), ("ijk", "ab"),
    ("ij->ii", "ab"), ("ij,ik", "ab,cb"),
)


def einsum(m):
    equation, shapes = m.rng.choice(EQUATIONS)
    sizes = {name: m.rng.randint(1, 4) for name in "abcd"}
    dtype = m.dtype((torch.float32, torch.float64, torch.int64, torch.complex64))
    operands = [m.tensor([sizes[name] for name in shape], dtype) for shape in shapes.split(",")]
    return [equation, operands]


write("matmul", [
    ("mm", mm), ("bmm", bmm), ("mv", mv), ("dot", dot), ("vdot", dot), ("addmm", addmm),
    ("addmv", addmv), ("baddbmm", baddbmm), ("addbmm", addbmm), ("addr", addr), ("outer", outer),
    ("ger", outer), ("inner", inner), ("matmul", matmul), ("linalg_vecdot", vecdot),
    ("linear", linear), ("bilinear", bilinear), ("tensordot", tensordot), ("chain_matmul", chain),
    ("linalg_multi_dot", multi_dot), ("einsum", einsum), ("matmul", matmul),
])
