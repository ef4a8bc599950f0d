"""Factorisations and decompositions beside faer and PyTorch: time and error on one thread.

    python benches/linalg.py [LINES]

needs PyTorch. ``LINES`` is a file with what ``cargo run --release --package corten-linalg --example faer``
printed: the same problems in faer. Times are medians in microseconds; an error is the largest entry of the
residual, divided by the largest entry of the matrix and by epsilon.
"""

import os
import statistics
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

import corten

SIZES = (8, 64, 512)
DTYPES = ("float32", "float64", "complex128")
# What both sides compute, by LAPACK's name.
SOLVERS = ("geqrf", "getrf", "getri", "potrf", "trtrs", "sytrf", "syevd", "sterf", "gesdd", "dqds", "geev")
# Seconds that a solver is timed for, in rounds of which the medians count.
SECONDS, ROUNDS = 0.3, 7


def matrix(size, dtype):
    """The numbers of the linear congruential generator that the program for faer has too."""
    count = size * size * (2 if dtype.startswith("complex") else 1)
    state, numbers = 1, np.empty(count)
    for at in range(count):
        state = (state * 1_664_525 + 1_013_904_223) & 0xFFFFFFFF
        numbers[at] = (state >> 8) / (1 << 23) - 1.0
    if dtype.startswith("complex"):
        numbers = numbers[0::2] + 1j * numbers[1::2]
    return numbers.reshape(size, size).astype(dtype)


def problem(name, a):
    """The matrix that a solver takes."""
    hermitian = a + a.conj().T
    if name == "potrf":
        return a @ a.conj().T + len(a) * np.eye(len(a), dtype=a.dtype)
    return hermitian if name in ("sytrf", "syevd", "sterf") else a


def call(m, name, a):
    """The call of a module, without arguments."""
    la = m.linalg
    if name == "trtrs":
        upper = m.triu(a) + len(a) * m.eye(len(a), dtype=a.dtype)
        return lambda: la.solve_triangular(upper, a, upper=True)
    return {
        "geqrf": lambda: m.geqrf(a),
        "getrf": lambda: la.lu_factor(a),
        "getri": lambda: la.inv(a),
        "potrf": lambda: la.cholesky(a),
        "sytrf": lambda: la.ldl_factor(a),
        "syevd": lambda: la.eigh(a),
        "sterf": lambda: la.eigvalsh(a),
        "gesdd": lambda: la.svd(a, full_matrices=False),
        "dqds": lambda: la.svdvals(a),
        "geev": lambda: la.eig(a),
    }[name]


def residual(m, name, a, found):
    """How far a result is from one, beside epsilon."""
    wide = torch.complex128 if a.is_complex() else torch.float64

    def own(x):
        return torch.from_numpy(np.asarray(x.resolve_conj().numpy())).to(wide)

    exact = own(a)
    parts = [own(part) if part.dtype in (m.float32, m.float64, m.complex64, m.complex128) else part
             for part in (found if isinstance(found, tuple) else (found,))]
    eye = torch.eye(len(a), dtype=wide)
    if name == "geqrf":
        q = own(m.linalg.householder_product(*found))
        return max_of(q @ parts[0].triu() - exact, exact, a)
    if name == "getrf":
        p, l, u = (own(x) for x in m.lu_unpack(*found))
        return max_of(p @ l @ u - exact, exact, a)
    if name == "getri":
        return max_of(parts[0] @ exact - eye, exact, a)
    if name == "potrf":
        return max_of(parts[0] @ parts[0].mH - exact, exact, a)
    if name == "trtrs":
        upper = exact.triu() + len(a) * eye
        return max_of(upper @ parts[0] - exact, upper, a)
    if name == "sytrf":
        x = own(m.linalg.ldl_solve(*found, a[:, :1].clone()))
        return max_of(exact @ x - exact[:, :1], exact, a)
    if name == "syevd":
        values, v = parts
        return max_of(exact @ v - v * values, exact, a)
    if name == "geev":
        values, v = (own(part) for part in found) if not a.is_complex() else parts
        return max_of(exact.to(torch.complex128) @ v.to(torch.complex128) - v * values, exact, a)
    if name == "gesdd":
        u, s, vh = parts
        return max_of((u * s) @ vh - exact, exact, a)
    values = torch.linalg.eigvalsh(exact) if name == "sterf" else torch.linalg.svdvals(exact)
    return max_of(parts[0] - values, values, a)


def max_of(difference, scale, a):
    eps = {4: 2.0 ** -23, 8: 2.0 ** -52}[a.element_size() // (2 if a.is_complex() else 1)]
    return float(difference.abs().max() / scale.abs().max() / eps)


def microseconds(calls):
    """The median time of each call; the calls take turns, so that all see the same machine."""
    counts = []
    for one in calls:
        one()
        start = time.perf_counter()
        one()
        counts.append(max(1, int(SECONDS / ROUNDS / max(time.perf_counter() - start, 1e-7))))
    times = [[] for _ in calls]
    for _ in range(ROUNDS):
        for one, count, found in zip(calls, counts, times):
            start = time.perf_counter()
            for _ in range(count):
                one()
            found.append((time.perf_counter() - start) / count * 1e6)
    return [statistics.median(found) for found in times]


def lines_of_faer(path):
    """The time and error of each solver, dtype and size."""
    if path is None:
        return {}
    with open(path) as file:
        rows = [line.split() for line in file if len(line.split()) == 5]
    return {(name, dtype, int(size)): (float(spent), float(error)) for name, dtype, size, spent, error in rows}


def main():
    torch.set_num_threads(1)
    corten.set_num_threads(1)
    faer = lines_of_faer(sys.argv[1] if len(sys.argv) > 1 else None)
    only = os.environ.get("SOLVERS", " ".join(SOLVERS)).split()
    print(f"{'':24}{'time in µs':^33}{'error in epsilons':^30}")
    print(f"{'':24}" + f"{'corten':>11}{'faer':>11}{'torch':>11}" + f"{'corten':>10}{'faer':>10}{'torch':>10}")
    for name in only:
        for dtype in DTYPES:
            for size in SIZES:
                a = np.ascontiguousarray(problem(name, matrix(size, dtype)))
                calls = [call(m, name, m.from_numpy(a)) for m in (corten, torch)]
                own, peer = microseconds(calls)
                errors = [residual(m, name, m.from_numpy(a), one()) for m, one in zip((corten, torch), calls)]
                spent, error = faer.get((name, dtype, size), (float("nan"), float("nan")))
                print(f"{name:8}{dtype:11}{size:5}{own:11.1f}{spent:11.1f}{peer:11.1f}"
                      f"{errors[0]:10.2f}{error:10.2f}{errors[1]:10.2f}", flush=True)


if __name__ == "__main__":
    main()
