"""tests/goldens/oracle/linalg.txt: what does not depend on the phase of vectors."""
import math

import torch

from oracle import write

KINDS = (torch.float32, torch.float64, torch.complex64, torch.complex128)
REAL = KINDS[:2]


def batch(m):
    return m.rng.choice(([], [], [2], [1], [2, 1], [0] if m.rng.random() < 0.2 else [3]))


def size(m):
    return m.rng.choice((1, 2, 2, 3, 3, 4, 0 if m.rng.random() < 0.3 else 3))


def kind(m, kinds=KINDS):
    return m.rng.choice(kinds)


def matrix(m, rows=None, cols=None, dtype=None, lead=None):
    """Any matrix, in any layout."""
    rows, cols = size(m) if rows is None else rows, size(m) if cols is None else cols
    lead = batch(m) if lead is None else lead
    a = m.tensor([*lead, rows, cols], dtype or kind(m))
    if any(n > 1 and step == 0 for n, step in zip(a.shape[-2:], a.stride()[-2:])):
        raise ValueError("equal rows or columns: pivots are a matter of rounding")
    if a.numel() and int(torch.linalg.matrix_rank(a).min()) < min(rows, cols):
        raise ValueError("no full rank: the last pivots are a matter of rounding")
    return a


def square(m, dtype=None, lead=None, n=None):
    """Square and far from singular, but sometimes neither."""
    n = size(m) if n is None else n
    a = matrix(m, n, n if m.rng.random() > 0.03 else n + 1, dtype, lead)
    if m.rng.random() < 0.1 or a.shape[-1] != a.shape[-2]:
        return a
    return (a + 30 * torch.eye(n, dtype=a.dtype)).contiguous()


def definite(m, dtype=None, lead=None, n=None):
    a = square(m, dtype or kind(m, KINDS[1::2]), lead, n)
    if m.rng.random() < 0.1 or a.shape[-1] != a.shape[-2]:
        return a
    return (a @ a.mH + torch.eye(a.shape[-1], dtype=a.dtype)).resolve_conj().contiguous()


def hermitian(m):
    a = square(m)
    return a if a.shape[-1] != a.shape[-2] else (a + a.mH).resolve_conj().contiguous()


def flag(m):
    return m.rng.random() < 0.5


def system(m):
    a = square(m, lead=(lead := batch(m)))
    left = flag(m)
    shape = (a.shape[-1], 2) if left else (2, a.shape[-1])
    b = matrix(m, *shape, a.dtype, m.rng.choice((lead, [])))
    if left and m.rng.random() < 0.2:
        b = m.tensor([a.shape[-1]], a.dtype)
    return a, b, left


def solve(m):
    a, b, left = system(m)
    return [a, b, left]


def triangular(m):
    a, b, left = system(m)
    return [a, b, flag(m), left, flag(m)]


def lu_solve(m):
    a, b, left = system(m)
    if b.dim() == 1:
        b = b.unsqueeze(-1)
    if a.shape[-1] != a.shape[-2]:
        raise ValueError("no factors")
    lu, pivots = torch.linalg.lu_factor(a)
    return [lu.contiguous(), pivots, b, left, flag(m)]


def unpack(m):
    lu, pivots, _ = torch.linalg.lu_factor_ex(matrix(m))
    return [lu.contiguous(), pivots, True, True]


def reflections(m):
    cols = m.rng.randint(1, 3)
    a = matrix(m, cols + m.rng.randint(0, 2), cols)
    return a, m.tensor([*a.shape[:-2], m.rng.randint(1, cols)], a.dtype)


def ormqr(m):
    a, tau = reflections(m)
    left = flag(m)
    shape = (a.shape[-2], 2) if left else (2, a.shape[-2])
    return [a, tau, matrix(m, *shape, a.dtype, list(a.shape[:-2])), left, flag(m)]


def ldl_solve(m):
    a = hermitian(m)
    if a.shape[-1] != a.shape[-2]:
        raise ValueError("no factors")
    by = flag(m)
    ld, pivots, _ = torch.linalg.ldl_factor_ex(a, hermitian=by)
    return [ld.contiguous(), pivots, matrix(m, a.shape[-1], 2, a.dtype, list(a.shape[:-2])), by]


def lstsq(m):
    rows, cols = m.rng.randint(2, 4), m.rng.randint(1, 2)
    a = matrix(m, rows, cols, lead=(lead := batch(m)))
    return [a, matrix(m, rows, 2, a.dtype, lead), None,
            m.rng.choice((None, "gels", "gelsd", "gelss", "gelsy", "other"))]


def norm(m):
    return [matrix(m), m.rng.choice((1, 2, -1, -2, math.inf, -math.inf, 3)), [-2, -1], flag(m)]


def named_norm(m):
    return [matrix(m), m.rng.choice(("fro", "nuc")), [-2, -1], flag(m)]


write("linalg", [
    ("linalg_cholesky_ex", lambda m: [definite(m), flag(m)]),
    ("linalg_cholesky", lambda m: [definite(m), flag(m)]),
    ("cholesky_inverse", lambda m: [torch.linalg.cholesky(definite(m)).contiguous(), False]),
    ("cholesky_solve", lambda m: [matrix(m, 3, 2, torch.float64), square(m, torch.float64, n=3)]),
    ("linalg_solve_triangular", triangular),
    ("linalg_lu_factor_ex", lambda m: [matrix(m)]), ("linalg_lu_factor", lambda m: [square(m)]),
    ("linalg_lu", lambda m: [matrix(m)]), ("lu_unpack", unpack), ("linalg_lu_solve", lu_solve),
    ("linalg_solve", solve), ("linalg_inv", lambda m: [square(m)]),
    ("linalg_inv_ex", lambda m: [square(m)]), ("linalg_det", lambda m: [square(m)]),
    ("linalg_slogdet", lambda m: [square(m)]), ("logdet", lambda m: [square(m)]),
    ("geqrf", lambda m: [matrix(m)]),
    ("linalg_qr", lambda m: [matrix(m), m.rng.choice(("reduced", "complete", "r"))]),
    ("linalg_householder_product", reflections), ("ormqr", ormqr),
    ("linalg_ldl_factor_ex", lambda m: [hermitian(m), flag(m)]), ("linalg_ldl_solve", ldl_solve),
    ("linalg_eigvalsh", lambda m: [hermitian(m), m.rng.choice("LU")]),
    ("linalg_svdvals", lambda m: [matrix(m)]), ("linalg_lstsq", lstsq),
    ("linalg_pinv.atol_rtol_float", lambda m: [matrix(m)]),
    ("linalg_matrix_rank.atol_rtol_float", lambda m: [matrix(m)]),
    ("linalg_matrix_norm", norm), ("linalg_matrix_norm.str_ord", named_norm),
    ("linalg_cond", lambda m: [square(m), m.rng.choice((None, 1, -2, math.inf))]),
    ("linalg_matrix_power", lambda m: [square(m), m.rng.randint(-2, 4)]),
    ("linalg_polar", lambda m: [square(m)]), ("linalg_matrix_sqrth", lambda m: [definite(m)]),
], per_case=14)
