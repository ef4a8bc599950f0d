"""tests/goldens/oracle/fft.txt"""
import torch

from oracle import write

REAL = (torch.float32, torch.float64, torch.int64, torch.bool)
COMPLEX = (torch.complex64, torch.complex128)
NORMS = (None, "backward", "ortho", "forward", "forward", "rms")


def signal(m, kinds):
    return m.tensor(m.sizes(m.rng.randint(1, 3), high=6), m.dtype(kinds))


def norm(m):
    return m.rng.choice(NORMS[:-1] if m.rng.random() < 0.95 else NORMS)


def along(kinds):
    def one(m):
        x = signal(m, kinds)
        n = m.rng.choice((None, None, m.rng.randint(1, 7), 0 if m.rng.random() < 0.1 else 5))
        return [x, n, m.dim(x.dim()), norm(m)]
    return one


def over(kinds):
    def several(m):
        x = signal(m, kinds)
        dims = m.rng.sample(range(x.dim()), m.rng.randint(1, x.dim()))
        if m.rng.random() < 0.05:
            dims.append(dims[0])
        s = [m.rng.choice((-1, 2, 5)) for _ in dims] if m.rng.random() < 0.4 else None
        return [x, s, dims if s or m.rng.random() < 0.7 else None, norm(m)]
    return several


def r2c(m):
    x = signal(m, REAL[:2])
    dims = m.rng.sample(range(x.dim()), m.rng.randint(1, x.dim()))
    if any(x.shape[d] == 0 for d in dims):
        raise ValueError("nothing to transform")
    return [x, dims, m.rng.randint(0, 2), m.rng.random() < 0.6]


def c2c(m):
    x = signal(m, COMPLEX)
    return [x, m.rng.sample(range(x.dim()), m.rng.randint(1, x.dim())), m.rng.randint(0, 2),
            m.rng.random() < 0.5]


def shift(m):
    x = signal(m, REAL + COMPLEX)
    return [x, m.rng.choice((None, [m.dim(x.dim())]))]


ANY = REAL + COMPLEX
write("fft", [
    ("_fft_r2c", r2c), ("_fft_c2c", c2c),
    ("fft_fft", along(ANY)), ("fft_ifft", along(ANY)), ("fft_rfft", along(REAL)),
    ("fft_irfft", along(ANY)), ("fft_hfft", along(ANY)), ("fft_ihfft", along(REAL)),
    ("fft_fftn", over(ANY)), ("fft_ifftn", over(ANY)), ("fft_rfftn", over(REAL)),
    ("fft_irfftn", over(COMPLEX)), ("fft_hfftn", over(COMPLEX)), ("fft_ihfftn", over(REAL)),
    ("fft_fftshift", shift), ("fft_ifftshift", shift),
], per_case=16)
