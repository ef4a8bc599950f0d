"""tests/goldens/oracle/factory.txt"""
import torch

from oracle import write

F = (torch.float32, torch.float64)
NUMERIC = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.int16,
           torch.int8, torch.float16, torch.bfloat16)
ANY = NUMERIC + (torch.bool, torch.complex64)


def dtype(m, kinds=ANY):
    return m.rng.choice((None, *kinds))


def number(m):
    return m.rng.choice((m.rng.randint(-10, 10), round(m.rng.uniform(-10, 10), 3), True, 300, -1,
                         1e10, 1e40, float("inf"), complex(1, -2)))


def sizes(m):
    s = m.sizes(high=3)
    if s and m.rng.random() < 0.06:
        s[0] = -1
    return s


def arange(count):
    def generate(m):
        real = m.rng.random() < 0.5
        pick = (lambda: round(m.rng.uniform(-20, 20), 3)) if real else (lambda: m.rng.randint(-20, 20))
        step = round(m.rng.uniform(0.1, 3), 3) if real else m.rng.choice((1, 1, 2, 3, -1, 0))
        a, b = pick(), pick()
        if m.rng.random() < 0.85 and (b < a) != (step < 0):
            a, b = b, a
        args = {1: [abs(b)], 2: [a, b], 3: [a, b, step]}[count]
        return [*args, dtype(m, NUMERIC + (torch.bool,))]
    return generate


def long_arange(m):
    a, step = round(m.rng.uniform(-20, 20), 4), round(m.rng.uniform(0.01, 2), 4)
    return [a, a + step * m.rng.randint(30, 75), step, m.dtype(F + (torch.float16, torch.bfloat16))]


def arange_out(m):
    a, b = m.rng.randint(-5, 5), m.rng.randint(5, 9)
    n = b - a
    out = m.rng.choice((m.tensor([n], m.dtype(NUMERIC)), m.tensor(dtype=m.dtype(NUMERIC), plain=True)))
    return [a, b, m.rng.choice((1, 2)), out]


def linspace(m):
    real = m.rng.random() < 0.6
    a, b = ((round(m.rng.uniform(-20, 20), 3), round(m.rng.uniform(-20, 20), 3)) if real
            else (m.rng.randint(0, 50), m.rng.randint(0, 50)))
    return [a, b, m.rng.choice((0, 1, 2, 5, 16, 31, -1)), dtype(m, NUMERIC + (torch.bool,))]


def like(m):
    return [m.tensor()]


def fill(m):
    return [m.tensor(), number(m)]


def triangle(m):
    return [m.tensor(), m.rng.randint(-4, 4)]


def plain_triangle(m):
    return [m.tensor(plain=True), m.rng.randint(-4, 4)]


def indices(m):
    return [m.rng.randint(-1, 5), m.rng.randint(0, 5), m.rng.randint(-4, 4)]


def complex_parts(m):
    d = m.dtype(F + (torch.float16, torch.int32))
    t = m.tensor(dtype=d)
    other = m.tensor(t.shape[m.rng.choice((0, 0, 1)):], m.rng.choice((d, d, d, torch.float64)))
    return [t, other]


def zeroed(name):
    """Only factories whose values are defined."""
    return name


CASES = [
    ("zeros", lambda m: [sizes(m), dtype(m)]), ("ones", lambda m: [sizes(m), dtype(m)]),
    ("full", lambda m: [sizes(m), number(m), dtype(m)]),
    ("zeros_like", lambda m: [m.tensor(), dtype(m)]), ("ones_like", lambda m: [m.tensor(), dtype(m)]),
    ("full_like", lambda m: [m.tensor(), number(m), dtype(m)]),
    ("new_zeros", lambda m: [m.tensor(), sizes(m), dtype(m)]),
    ("new_ones", lambda m: [m.tensor(), sizes(m), dtype(m)]),
    ("new_full", lambda m: [m.tensor(), sizes(m), number(m), dtype(m)]),
    ("scalar_tensor", lambda m: [number(m), dtype(m)]),
    ("fill.Scalar", fill), ("fill_.Scalar", fill), ("zero_", like),
    ("fill.Tensor", lambda m: [m.tensor(), m.tensor([] if m.rng.random() < 0.9 else [1])]),
    ("fill_.Tensor", lambda m: [m.tensor(), m.tensor([] if m.rng.random() < 0.9 else [1])]),
    ("arange", arange(1)), ("arange.start", arange(2)), ("arange.start_step", arange(3)),
    ("arange.start_step", long_arange), ("arange.start_out", arange_out), ("linspace", linspace),
    ("eye", lambda m: [m.rng.randint(-1, 4), dtype(m)]),
    ("eye.m", lambda m: [m.rng.randint(-1, 4), m.rng.randint(-1, 4), dtype(m)]),
    ("tril", triangle), ("triu", triangle), ("tril_", plain_triangle), ("triu_", plain_triangle),
    ("tril_indices", indices), ("triu_indices", indices),
    ("one_hot", lambda m: [torch.tensor([m.rng.randint(-1 if m.rng.random() < 0.2 else 0, 4) for _ in range(3)]), m.rng.choice((-1, 5, 3))]),
    ("diag", lambda m: [m.tensor(m.sizes(m.rng.choice((0, 1, 1, 2, 2, 3)))), m.rng.randint(-3, 3)]),
    ("diag_embed", lambda m: (lambda t: [t, m.rng.randint(-2, 2), m.dim(t.dim() + 1), m.dim(t.dim() + 1)])(m.tensor(m.sizes(m.rng.choice((1, 2, 3)))))),
    ("diagflat", lambda m: [m.tensor(m.sizes(m.rng.choice((0, 1, 2)), high=2)), m.rng.randint(-2, 2)]),
    ("complex", complex_parts),
]

write("factory", CASES, 30)
